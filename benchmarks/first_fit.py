"""What a first `fit` costs: of the first model in a process, of the second one of its shape, and of nine of a grid.

``python -m benchmarks.first_fit``. Each repetition is a new process, with nothing compiled.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
from typing import Any

from benchmarks.timing import limit_row, row

REPETITIONS = 5
PHASES = ("wcd", "bcd", "pcd")
# Prints the seconds of each fit, and how often a program was traced before and after the last change of the rate.
CHILD = """
import json, sys, time
import keras, numpy as np, tf_wcd
from tf_wcd.training import sharing

x = np.random.default_rng(0).integers(0, 2, (1000, 64)).astype("float32")


def fit(seed, rate):
    start = time.perf_counter()
    rbm = tf_wcd.RBMLayer(64, negative_phase=sys.argv[1], seed=seed)
    rbm.compile(keras.optimizers.SGD(rate, momentum=0.9))
    rbm.fit(x, batch_size=100, epochs=10, verbose=0)
    return time.perf_counter() - start


times = [fit(seed, rate) for seed in range(3) for rate in (0.01, 0.03, 0.1)]
before = sharing.times_traced()
fit(7, 0.5)
print(json.dumps([times, sharing.times_traced() - before]))
"""


def measure(phase: str) -> tuple[list[float], int]:
    """Seconds of nine fits in a new process, and how many programs a further learning rate has compiled."""
    done = subprocess.run([sys.executable, "-c", CHILD, phase], capture_output=True, text=True, check=True)
    times, compiled = json.loads(done.stdout.splitlines()[-1])
    return times, compiled


def rows(repetitions: int = REPETITIONS) -> list[dict[str, Any]]:
    """The lines of the table."""
    lines = []
    for phase in PHASES:
        runs = [measure(phase) for _ in range(repetitions)]
        first = statistics.median(times[0] for times, _ in runs)
        second = statistics.median(times[1] for times, _ in runs)
        nine = statistics.median(sum(times) for times, _ in runs)
        work = f"64 x 64, 100 updates, {phase}"
        lines += [
            row(f"{work}: second model of a shape", second, "the first one", first, 0.2, at_most=True),
            row(f"{work}: nine models, three rates and seeds", nine, "one model", first, 1.5, at_most=True),
            limit_row(f"{work}: another rate", max(compiled for _, compiled in runs), 0, "programs compiled"),
        ]
    return lines


if __name__ == "__main__":
    from benchmarks.report import main

    main("first_fit", rows)
