"""Training through `fit` against `rbms`, scikit-learn, NumPy and the floor of the matrix products.

``python -m benchmarks.training`` measures all parts, ``python -m benchmarks.training ensemble`` one of them.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import keras
import numpy as np

import tf_wcd
from benchmarks import peers
from benchmarks.timing import interleaved, part_row, row


def fitting(
    x: np.ndarray,
    hidden: int,
    phase: str | tf_wcd.NegativePhase,
    steps: int | None,
    updates: int,
    batch: int,
    calls: int = 1,
    **layer: Any,
) -> tuple[Any, int]:
    """`fit` for ``calls`` Keras epochs of ``updates`` updates each, and the number of all updates.

    A phase that is an object has its Gibbs steps already: ``steps`` is None.
    """
    rbm = tf_wcd.RBMLayer(hidden, negative_phase=phase, gibbs_steps=steps, seed=0, **layer)
    rbm.compile(keras.optimizers.SGD(peers.LEARNING_RATE, momentum=peers.MOMENTUM), jit_compile=True)

    def run() -> None:
        rbm.fit(x, batch_size=batch, steps_per_epoch=updates, epochs=calls, verbose=0)

    return run, updates * calls


def small_problem(name: str, hidden: int, steps: int, updates: int, over_rbms: float, over_numpy: float) -> list[dict]:
    """WCD_k on the whole of a small problem at each update."""
    x, _ = tf_wcd.datasets.load(name)
    count = max(20, updates // 10)
    threads = peers.best_rbms_threads(lambda: peers.rbms_updates(x, hidden, steps, count, None, False))
    cases = {
        "ours": fitting(x, hidden, "wcd", steps, updates, len(x), calls=20),
        "rbms": (peers.rbms_updates(x, hidden, steps, count, None, False), count),
        "numpy": (peers.numpy_updates(x, hidden, steps, count), count),
    }
    times = interleaved(cases)
    work = f"{name} WCD_{steps}, {hidden} hidden, batch {len(x)}"
    return [
        row(work, times["ours"], f"rbms CD_{steps} ({threads} threads)", times["rbms"], over_rbms),
        row(work, times["ours"], f"NumPy WCD_{steps}", times["numpy"], over_numpy),
    ]


def mnist_sized(rows: int = 10_000) -> np.ndarray:
    """Random 0/1 rows of MNIST's size and density: the time of an update does not depend on the values."""
    return (np.random.default_rng(0).random((rows, 784)) < 0.19).astype("float32")


def large_layer(updates: int = 100) -> list[dict]:
    """784 x 500, batches of 100: peers, the floor, and what weighting costs."""
    x = mnist_sized()
    threads = peers.best_rbms_threads(lambda: peers.rbms_updates(x, 500, 1, 30, 100, True))
    cases = {phase: fitting(x, 500, phase, 1, updates, 100, calls=5) for phase in ("wpcd", "pcd", "wcd", "cd")}
    cases["rbms"] = peers.rbms_updates(x, 500, 1, updates, 100, True), updates
    cases["sklearn"] = peers.sklearn_updates(x[:5000], 500, 100)
    cases["floor"] = peers.product_floor(100, 784, 500, updates), updates
    cases["products"] = peers.compiled_products(100, 784, 500, updates), updates
    times = interleaved(cases, repetitions=5)
    work = "784 x 500, batch 100, "
    return [
        row(work + "WPCD_1", times["wpcd"], f"rbms PCD_1 ({threads} threads)", times["rbms"], 2.2),
        row(work + "WPCD_1", times["wpcd"], "scikit-learn PCD_1, float32", times["sklearn"], 2.0),
        row(work + "WPCD_1", times["wpcd"], "floor: the five products", times["floor"], 1.35, at_most=True),
        part_row(work + "products alone in XLA", times["products"], "floor: the five products", times["floor"]),
        part_row(work + "WPCD_1", times["wpcd"], "products alone in XLA", times["products"]),
        row(work + "WPCD_1", times["wpcd"], "PCD_1 (ours)", times["pcd"], 1.05, at_most=True),
        row(work + "WCD_1", times["wcd"], "CD_1 (ours)", times["cd"], 1.05, at_most=True),
    ]


class Together(NamedTuple):
    """A small problem, trained by WCD_1 in full batches as a hundred models at once.

    Attributes:
        hidden: hidden units, five for each visible one.
        updates: of a repetition, of one model; the ensemble makes as many in all.
        target: how many times faster than one after another.
    """

    problem: str
    hidden: int
    updates: int
    target: float


TOGETHER = (
    Together("BS09", 45, 40_000, 4.0),
    Together("P08", 40, 10_000, 2.5),
    Together("LSE11", 55, 10_000, 2.5),
    Together("BS16", 80, 10_000, 2.0),
)


def ensemble(members: int = 100) -> list[dict]:
    """A hundred models at once against one after another."""
    return [together(case, members) for case in TOGETHER]


def together(case: Together, members: int) -> dict:
    """The line of one problem."""
    x, _ = tf_wcd.datasets.load(case.problem)
    models = tf_wcd.RBMEnsemble(case.hidden, count=members, seed=0)
    models.compile(keras.optimizers.SGD(peers.LEARNING_RATE, momentum=peers.MOMENTUM), jit_compile=True)
    updates = case.updates // members

    def run() -> None:
        models.fit(x, batch_size=len(x), steps_per_epoch=updates, epochs=5, verbose=0)

    times = interleaved(
        {"together": (run, 5 * updates), "alone": fitting(x, case.hidden, "wcd", 1, case.updates, len(x))}
    )
    work = f"{case.problem} WCD_1, {case.hidden} hidden, {members} models at once"
    return row(work, times["together"], "one after another", members * times["alone"], case.target)


PARTS = {
    "BS09": lambda: small_problem("BS09", 45, 1, 2000, over_rbms=35, over_numpy=7),
    "P10": lambda: small_problem("P10", 50, 10, 100, over_rbms=8, over_numpy=2.5),
    "large_layer": large_layer,
    "ensemble": ensemble,
}


if __name__ == "__main__":
    import sys

    from benchmarks.report import main

    chosen = sys.argv[1:] or list(PARTS)
    if unknown := set(chosen) - set(PARTS):
        sys.exit(f"A part is one of {', '.join(PARTS)}. Received: {', '.join(sorted(unknown))}")
    main("training", lambda: [row for part in chosen for row in PARTS[part]()])
