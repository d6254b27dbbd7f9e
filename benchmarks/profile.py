"""Where the time of an update goes, operation by operation: ``python -m benchmarks.profile [work]``.

Kept as text under ``benchmarks/results``. The operations carry the compiler's names: ``MatMul`` and ``dot`` are matrix
products, a ``fusion`` is a loop that does what its name lists, one element after another. Operations on several threads
overlap, and the profiler takes its share, so that the parts need not add up to the whole.
"""

from __future__ import annotations

import collections
import datetime
import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import keras
import tensorflow as tf

import tf_wcd
from benchmarks import peers
from benchmarks.report import RESULTS
from benchmarks.training import fitting, mnist_sized

WHOLE = "BlockUntilReady"  # the wait for the compiled call
NOT_OPERATIONS = ("end:", "Thunk", "Threadpool", "Slinky", "Cpu", "Block", "Eager", "TFE", "Iterator", "while")


def large_layer(phase: str = "wpcd") -> tuple[Callable[[], None], int]:
    return fitting(mnist_sized(), 500, phase, 1, 50, 100)


def parity() -> tuple[Callable[[], None], int]:
    x, _ = tf_wcd.datasets.load("P10")
    return fitting(x, 50, "wcd", 10, 50, len(x))


def ensemble() -> tuple[Callable[[], None], int]:
    x, _ = tf_wcd.datasets.load("BS09")
    members = tf_wcd.RBMEnsemble(45, count=100, seed=0)
    members.compile(keras.optimizers.SGD(peers.LEARNING_RATE, momentum=peers.MOMENTUM), jit_compile=True)
    return lambda: members.fit(x, batch_size=14, steps_per_epoch=200, verbose=0), 200


WORKS = {
    "large_layer": large_layer,
    "large_layer_wcd": lambda: large_layer("wcd"),
    "large_layer_cd": lambda: large_layer("cd"),
    "P10": parity,
    "ensemble": ensemble,
}


def profile(run: Callable[[], None], updates: int, lines: int = 25) -> str:
    """Microseconds of each operation in one update, the longest first."""
    from tensorflow.tsl.profiler.protobuf import xplane_pb2

    run()  # compiles
    with tempfile.TemporaryDirectory() as folder:
        with tf.profiler.experimental.Profile(folder):
            run()
        (trace,) = Path(folder).rglob("*.xplane.pb")
        space = xplane_pb2.XSpace.FromString(trace.read_bytes())
    total: collections.Counter[str] = collections.Counter()
    count: collections.Counter[str] = collections.Counter()
    for plane in space.planes:
        for line in plane.lines:
            for event in line.events:
                name = plane.event_metadata[event.metadata_id].name
                total[name] += event.duration_ps / 1e6 / updates
                count[name] += 1
    # What happens at every update, and not only at the last one of a call, which measures the metrics.
    operations = [
        name for name, _ in total.most_common() if count[name] > updates // 2 and not name.startswith(NOT_OPERATIONS)
    ]
    rows = [f"{total[WHOLE]:9.1f} us  the whole update, inside the compiled call"]
    return "\n".join([*rows, *(f"{total[name]:9.1f} us  {name}" for name in operations[:lines])])


if __name__ == "__main__":
    chosen = sys.argv[1:] or list(WORKS)
    if unknown := set(chosen) - set(WORKS):
        sys.exit(f"A work is one of {', '.join(WORKS)}. Received: {', '.join(sorted(unknown))}")
    RESULTS.mkdir(exist_ok=True)
    for name in chosen:
        text = profile(*WORKS[name]())
        head = f"{name}: one update, {datetime.date.today().isoformat()}, {os.cpu_count()} cores"
        (RESULTS / f"profile_{name}.txt").write_text(f"{head}\n{text}\n")
        print(f"{head}\n{text}\n")
