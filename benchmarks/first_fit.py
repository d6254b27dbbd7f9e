"""What a first `fit` costs: of the first model in a process, of the second one of its shape, and of nine of a grid.

``python -m benchmarks.first_fit``. Each repetition is a new process, with nothing compiled.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
from typing import Any

from benchmarks.timing import limit_row, part_row, row
from tf_wcd import xla_cache

REPETITIONS = 5
PHASES = ("wcd", "pcd")
# Prints the seconds of each fit, and how often a program was traced before and after the last change of the rate.
CHILD = """
import json, sys, time
import keras, numpy as np, tf_wcd
from tf_wcd.training import sharing

x = np.random.default_rng(0).integers(0, 2, (1000, 64)).astype("float32")


def fit(seed, rate):
    start = time.perf_counter()
    rbm = tf_wcd.RBMLayer(64, negative_phase=sys.argv[1], seed=seed)
    rbm.compile(keras.optimizers.SGD(rate, momentum=0.9), jit_compile="auto" if sys.argv[2] == "auto" else True)
    rbm.fit(x, batch_size=100, epochs=10, verbose=0)
    return time.perf_counter() - start


times = [fit(seed, rate) for seed in range(3) for rate in (0.01, 0.03, 0.1)]
before = sharing.times_traced()
fit(7, 0.5)
print(json.dumps([times, sharing.times_traced() - before]))
"""


def measure(phase: str, jit_compile: str, cache: str = "") -> tuple[list[float], int]:
    """Seconds of nine fits in a new process, and how many programs a further learning rate has compiled.

    Args:
        phase: the negative phase.
        jit_compile: ``"auto"``, or ``"always"`` with XLA.
        cache: folder of what earlier processes have compiled; empty for none.
    """
    environment = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", xla_cache.VARIABLE: cache}
    command = [sys.executable, "-c", CHILD, phase, jit_compile]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    times, compiled = json.loads(done.stdout.splitlines()[-1])
    return times, compiled


def rows(repetitions: int = REPETITIONS) -> list[dict[str, Any]]:
    """The lines of the table."""
    return [line for phase in PHASES for line in rows_of(phase, repetitions)]


def rows_of(phase: str, repetitions: int) -> list[dict[str, Any]]:
    """The lines for a negative phase: the kinds of processes in turn, again and again."""
    with tempfile.TemporaryDirectory() as cache:
        measure(phase, "always", cache)
        runs = [
            (measure(phase, "always"), measure(phase, "always", cache), measure(phase, "auto"))
            for _ in range(repetitions)
        ]
    plain, cached, short = zip(*runs, strict=True)
    first, second = (statistics.median(times[i] for times, _ in plain) for i in (0, 1))
    nine = statistics.median(sum(times) for times, _ in plain)
    work = f"64 x 64, 100 updates, {phase}"
    return [
        row(f"{work}: second model of a shape", second, "the first one", first, 0.2, at_most=True),
        row(f"{work}: nine models, three rates and seeds", nine, "one model", first, 1.5, at_most=True),
        limit_row(f"{work}: another rate", max(compiled for _, compiled in plain), 0, "programs compiled"),
        part_row(
            f"{work}: first model, compiled by an earlier process",
            statistics.median(times[0] for times, _ in cached),
            "compiled by this one",
            first,
        ),
        part_row(
            f"{work}: first model as `auto` runs so few updates",
            statistics.median(times[0] for times, _ in short),
            "with XLA",
            first,
        ),
    ]


if __name__ == "__main__":
    from benchmarks.report import main

    main("first_fit", rows)
