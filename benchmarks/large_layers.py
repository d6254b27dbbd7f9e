"""Large layers: how much of the machine's matrix-product rate an update reaches, half precision, memory, and streams.

``python -m benchmarks.large_layers``. Compared with the machine and with ourselves, not with peers.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import keras
import numpy as np
import tensorflow as tf

import tf_wcd
from benchmarks import peers
from benchmarks.timing import interleaved, limit_row, part_row, peak_gigabytes, row

BATCH = 512
REPETITIONS = 5


class Case(NamedTuple):
    """A layer, and the updates of a repetition."""

    visible: int
    hidden: int
    updates: int

    @property
    def name(self) -> str:
        return f"{self.visible} x {self.hidden}, batch {BATCH}"


CASES = (Case(784, 4096, 5), Case(4096, 4096, 2))


def operations(case: Case) -> float:
    """Of the five matrix products of a PCD_1 update.

    >>> operations(Case(784, 4096, 1)) / 1e9
    16.44167168
    """
    return 5 * 2.0 * BATCH * case.visible * case.hidden


def rows_of_data(rows: int, visible: int) -> np.ndarray:
    """Random 0/1 rows, a byte for each value."""
    return (np.random.default_rng(0).random((rows, visible), "float32") < 0.2).astype("uint8")


def fitting(case: Case, x: Any, dtype: str | None = None, **fit: Any) -> Callable[[], Any]:
    """`fit` of one epoch of the case's updates."""
    rbm = tf_wcd.RBMLayer(case.hidden, negative_phase="pcd", seed=0, dtype=dtype)
    rbm.compile(keras.optimizers.SGD(peers.LEARNING_RATE, momentum=peers.MOMENTUM), jit_compile=True)
    return lambda: rbm.fit(x, verbose=0, **fit)


def product(case: Case) -> Callable[[], Any]:
    """One product of the size of an update's, in NumPy's BLAS: the rate that this machine has to offer."""
    rng = np.random.default_rng(0)
    a = rng.random((BATCH, case.visible), "float32")
    b, out = rng.random((case.visible, case.hidden), "float32"), np.empty((BATCH, case.hidden), "float32")
    return lambda: [np.matmul(a, b, out=out) for _ in range(5 * case.updates)]


def rates(case: Case) -> list[dict[str, Any]]:
    """An update against its products alone, and half precision against single."""
    x = rows_of_data(2 * BATCH, case.visible)
    epoch: dict[str, Any] = {"batch_size": BATCH, "steps_per_epoch": case.updates}
    work: dict[str, tuple[Callable[[], Any], float]] = {
        "update": (fitting(case, x, **epoch), case.updates),
        "half": (fitting(case, x, "mixed_bfloat16", **epoch), case.updates),
        "products": (product(case), case.updates),
    }
    times = interleaved(work, REPETITIONS)
    rate = operations(case) / times["products"] / 1e9
    floor = f"five products at the machine's {rate:.0f} GFLOP/s"
    return [
        part_row(f"{case.name}, PCD_1", times["update"], floor, times["products"]),
        part_row(f"{case.name}, PCD_1, mixed_bfloat16", times["half"], "float32", times["update"]),
    ]


def memory(case: Case) -> dict[str, Any]:
    """Peak of a process that trains the layer, against what it must keep."""
    setup = "import keras, numpy as np, tf_wcd; from benchmarks import large_layers as ours"
    work = (
        f"case = ours.Case({case.visible}, {case.hidden}, 1); x = ours.rows_of_data(2 * ours.BATCH, case.visible); "
        "ours.fitting(case, x, batch_size=ours.BATCH, steps_per_epoch=1)()"
    )
    used = peak_gigabytes(setup, work) - peak_gigabytes(setup, "")
    kept = 2 * 4 * case.visible * case.hidden / 2**30  # kernel and momentum
    # The guard's copy of both, the gradient, and activations of the batch and the chains.
    return limit_row(f"{case.name}: memory beyond the imports, GB", used, 8 * kept + 0.25, f"{kept:.2f} GB of state")


def stream(rows: int = 200_000, visible: int = 784, hidden: int = 500, batch: int = 100) -> dict[str, Any]:
    """An epoch of a `tf.data` pipeline that reads records from disk, against the array in memory.

    The array is a tenth of the rows, which is resident on the device, seen ten times.
    """
    case = Case(visible, hidden, rows // batch)
    x = rows_of_data(rows // 10, visible)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows"
        with path.open("wb") as file:
            for _ in range(10):
                file.write(x.tobytes())
        records = tf.data.FixedLengthRecordDataset(str(path), visible).batch(batch, drop_remainder=True)
        decoded = records.map(lambda block: tf.cast(tf.io.decode_raw(block, tf.uint8), tf.float32))
        decoded = decoded.map(lambda x: tf.ensure_shape(x, [batch, visible]), num_parallel_calls=tf.data.AUTOTUNE)
        cases = {
            "stream": (fitting(case, decoded), case.updates),
            "array": (fitting(case, x, batch_size=batch, steps_per_epoch=case.updates), case.updates),
        }
        times = interleaved(cases, REPETITIONS)
    work = f"{visible} x {hidden}, batch {batch}, {rows} rows from disk"
    return row(work, times["stream"], "rows in memory", times["array"], 1.1, at_most=True)


def run() -> list[dict[str, Any]]:
    """The lines of the table."""
    lines = [line for case in CASES for line in rates(case)]
    return [*lines, *(memory(case) for case in CASES), stream()]


if __name__ == "__main__":
    from benchmarks.report import main

    main("large_layers", run)
