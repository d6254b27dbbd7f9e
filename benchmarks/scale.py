"""The cost model of `docs/scale.md` against measurements: one worker and two, each a process, on this machine.

An update on R workers takes

    T(R) = fixed + flops(B / R) / rate + [R > 1] (latency + traffic(R) / bandwidth)

Its four constants come from four measurements: ``fixed`` from a tiny model on one worker, ``rate`` from a large batch,
``latency`` from the tiny model on two workers, and ``bandwidth`` from a wide kernel on two. The other cases are
predictions.
"""

from __future__ import annotations

import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

EPOCHS = 5
# The ratio of a measured and a predicted time, either way, up to which the model counts as confirmed.
TOLERANCE = 1.5


class Case(NamedTuple):
    """A model and its global batch.

    Attributes:
        visible: visible units.
        hidden: hidden units.
        batch: examples of all workers together.
        updates: updates in each of the timed epochs.
    """

    visible: int
    hidden: int
    batch: int
    updates: int

    @property
    def name(self) -> str:
        return f"{self.visible} x {self.hidden} units, batch {self.batch}"


TINY = Case(16, 32, 32, 100)
LARGE_BATCH = Case(784, 500, 1000, 10)
WIDE = Case(784, 2000, 20, 20)
CASES = (TINY, LARGE_BATCH, WIDE, Case(784, 500, 100, 40), Case(784, 1000, 500, 10))


class Constants(NamedTuple):
    """Seconds, floating-point operations a second, seconds, and bytes a second."""

    fixed: float
    rate: float
    latency: float
    bandwidth: float


def flops(case: Case, workers: int = 1, gibbs_steps: int = 1) -> float:
    """Operations of one worker's matrix products in an update: 3 + 2k products of its part of the batch.

    >>> flops(Case(784, 500, 100, 1)) / 1e6
    392.0
    """
    return 2.0 * case.batch / workers * case.visible * case.hidden * (3 + 2 * gibbs_steps)


def traffic(case: Case, workers: int) -> float:
    """Bytes that each worker sends in an update: a ring all-reduce of the gradient, in float32.

    >>> round(traffic(Case(784, 500, 100, 1), 2) / 1e6, 2)
    1.57
    """
    gradient = 4 * (case.visible * case.hidden + case.visible + case.hidden)
    return gradient * 2 * (workers - 1) / workers


def predicted(constants: Constants, case: Case, workers: int) -> float:
    """Seconds of an update, by the model."""
    seconds = constants.fixed + flops(case, workers) / constants.rate
    return seconds + (constants.latency + traffic(case, workers) / constants.bandwidth if workers > 1 else 0.0)


def fit(times: dict[tuple[Case, int], float]) -> Constants:
    """The constants from four of the measured times."""
    rate = (flops(LARGE_BATCH) - flops(TINY)) / (times[LARGE_BATCH, 1] - times[TINY, 1])
    fixed = times[TINY, 1] - flops(TINY) / rate
    latency = times[TINY, 2] - fixed - flops(TINY, 2) / rate
    rest = times[WIDE, 2] - fixed - flops(WIDE, 2) / rate - latency
    return Constants(fixed, rate, latency, traffic(WIDE, 2) / max(rest, 1e-9))


def work(path: str) -> None:
    """One worker: times every case, and writes the seconds of an update if it is the chief."""
    import keras
    import numpy as np
    import tensorflow as tf

    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    import tf_wcd

    class Times(keras.callbacks.Callback):
        def __init__(self) -> None:
            super().__init__()
            self.seconds: list[float] = []

        def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
            self.begin = time.perf_counter()

        def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
            self.seconds.append(time.perf_counter() - self.begin)

    found = []
    for case in CASES:
        x = np.random.default_rng(0).integers(0, 2, (case.batch, case.visible)).astype("float32")
        with strategy.scope():
            rbm = tf_wcd.RBMLayer(case.hidden, negative_phase="wcd", seed=0)
            rbm.compile(keras.optimizers.SGD(0.01, momentum=0.9), jit_compile=False, steps_per_execution=1)
        times = Times()
        rbm.fit(x, batch_size=case.batch, steps_per_epoch=case.updates, epochs=EPOCHS + 1, verbose=0, callbacks=[times])
        found.append([*case, statistics.median(times.seconds[1:]) / case.updates])
    if json.loads(os.environ["TF_CONFIG"])["task"]["index"] == 0:
        Path(path).write_text(json.dumps(found))


def measure(workers: int) -> dict[tuple[Case, int], float]:
    """Seconds of an update of each case, on so many workers of one thread each."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(workers)]
    addresses = [f"127.0.0.1:{s.getsockname()[1]}" for s in sockets]
    for s in sockets:
        s.close()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "times.json"
        processes = []
        for index in range(workers):
            config = json.dumps({"cluster": {"worker": addresses}, "task": {"type": "worker", "index": index}})
            environment = {**os.environ, "TF_CONFIG": config, "TF_NUM_INTRAOP_THREADS": "1"}
            command = [sys.executable, "-m", "benchmarks.scale", str(path)]
            processes.append(subprocess.Popen(command, env=environment))
        if any(process.wait() for process in processes):
            raise RuntimeError("A worker has failed.")
        return {(Case(*case), workers): seconds for *case, seconds in json.loads(path.read_text())}


def run() -> list[dict[str, Any]]:
    """The measured times against those of the model, whose constants are printed."""
    times = measure(1) | measure(2)
    constants = fit(times)
    print(
        f"fixed {1e3 * constants.fixed:.2f} ms, {constants.rate / 1e9:.1f} GFLOP/s a worker, latency "
        f"{1e3 * constants.latency:.2f} ms, {constants.bandwidth / 1e6:.0f} MB/s over loopback"
    )
    fitted = {(TINY, 1), (LARGE_BATCH, 1), (TINY, 2), (WIDE, 2)}
    rows = []
    for (case, workers), seconds in times.items():
        model = predicted(constants, case, workers)
        kind = "fitted" if (case, workers) in fitted else "predicted"
        row = {
            "work": f"{case.name}, {workers} worker{'s' if workers > 1 else ''}: one WCD_1 update",
            "ours_us": 1e6 * seconds,
            "other": f"the cost model ({kind})",
            "other_us": 1e6 * model,
            "ratio": seconds / model,
            "target": "" if kind == "fitted" else f"within {TOLERANCE:g}x",
            "met": None if kind == "fitted" else bool(1 / TOLERANCE <= seconds / model <= TOLERANCE),
        }
        rows.append(row)
    return rows


if __name__ == "__main__":
    if len(sys.argv) > 1:
        work(sys.argv[1])
    else:
        from benchmarks.report import main

        main("scale", run)
