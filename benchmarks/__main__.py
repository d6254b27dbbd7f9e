"""All benchmarks, each in a process of its own: ``python -m benchmarks`` (``make bench``); meant to take 25 minutes."""

import subprocess
import sys

from benchmarks import PARTS

if __name__ == "__main__":
    chosen = sys.argv[1:] or PARTS
    for name in chosen:
        if name not in PARTS:
            sys.exit(f"A benchmark is one of {', '.join(PARTS)}. Received: {name}")
    for name in chosen:
        print(f"== {name}", flush=True)
        subprocess.run([sys.executable, "-m", f"benchmarks.{name}"], check=True)
