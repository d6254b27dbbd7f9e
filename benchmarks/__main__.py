"""All benchmarks, each in a process of its own: ``python -m benchmarks`` (``make bench``); about 18 minutes."""

import subprocess
import sys

BENCHMARKS = ("training", "partition", "growth", "likelihood", "serving", "scale")

if __name__ == "__main__":
    chosen = sys.argv[1:] or BENCHMARKS
    for name in chosen:
        if name not in BENCHMARKS:
            sys.exit(f"A benchmark is one of {', '.join(BENCHMARKS)}. Received: {name}")
    for name in chosen:
        print(f"== {name}", flush=True)
        subprocess.run([sys.executable, "-m", f"benchmarks.{name}"], check=True)
