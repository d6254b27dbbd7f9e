"""Evaluation: Parzen windows and annealed importance sampling, against their products and their peers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

import tf_wcd
from benchmarks.timing import interleaved, limit_row, peak_gigabytes, row, seconds
from tf_wcd.evaluation import annealed_log_partition, parzen_log_likelihood

SAMPLES, POINTS, DIMENSIONS, SIGMA = 100_000, 10_000, 784, 0.2
HIDDEN, CHAINS, TEMPERATURES = 500, 100, 1000
PARZEN_MEMORY = (
    "from benchmarks import likelihood as b; x, y = b.binary_points(b.SAMPLES, 0), b.binary_points(b.POINTS, 1)",
    "b.parzen_log_likelihood(x, y, b.SIGMA)",
)


def binary_points(rows: int, seed: int) -> np.ndarray:
    """Random 0/1 pixels, made in parts, so that making them does not show in the peak of memory."""
    rng = np.random.default_rng(seed)
    points = np.empty([rows, DIMENSIONS], "uint8")
    for i in range(0, rows, 1000):
        part = points[i : i + 1000]
        part[:] = rng.random(part.shape, dtype="float32") < 0.2
    return points


def parzen(repetitions: int = 5, peer_points: int = 10) -> list[dict]:
    """All points against all samples: beside the matrix product alone, and scikit-learn on a part of the points."""
    samples, test = binary_points(SAMPLES, 0), binary_points(POINTS, 1)
    product = tf.function(tf.matmul, autograph=False, jit_compile=True)
    blocks = [tf.constant(test[i : i + 2000].T.astype("float32")) for i in range(0, len(test), 2000)]

    def products() -> None:
        for i in range(0, len(samples), 1000):
            chunk = tf.constant(samples[i : i + 1000].astype("float32"))
            for block in blocks:
                product(chunk, block)

    cases = {"ours": (lambda: parzen_log_likelihood(samples, test, SIGMA), 1), "product": (products, 1)}
    times = interleaved(cases, repetitions)
    work = f"Parzen, {len(samples)} samples x {len(test)} points x {DIMENSIONS}"
    peer, note = scikit_learn(samples, test[:peer_points])
    return [
        row(work, times["ours"], "its matrix product alone, float32", times["product"], 1.6, at_most=True),
        row(work, times["ours"], note, peer * len(test) / peer_points, 30),
        limit_row(work + ": peak memory of the whole process, GB", peak_gigabytes(*PARZEN_MEMORY), 1, "1 GB"),
    ]


def scikit_learn(samples: np.ndarray, some: np.ndarray) -> tuple[float, str]:
    """Seconds of `KernelDensity` on a few points, in its fastest setting, and what to call it.

    In so many dimensions its trees only lose time (and, as they come, the right answer); one leaf holds all samples.
    """
    from sklearn.neighbors import KernelDensity

    density = KernelDensity(bandwidth=SIGMA, leaf_size=len(samples)).fit(samples)
    values = density.score_samples(some)
    np.testing.assert_allclose(values, parzen_log_likelihood(samples, some, SIGMA, per_point=True), rtol=1e-5)
    best = min(seconds(lambda: density.score_samples(some)) for _ in range(3))
    return best, f"scikit-learn KernelDensity, one leaf (scaled from {len(some)} points)"


def random_rbm() -> tf_wcd.RBMLayer:
    rbm = tf_wcd.RBMLayer(HIDDEN, seed=0)
    rbm.build((None, DIMENSIONS))
    rng = np.random.default_rng(0)
    rbm.kernel.assign(rng.normal(0, 0.05, (DIMENSIONS, HIDDEN)))
    rbm.visible_bias.assign(rng.normal(-1, 0.5, DIMENSIONS))
    rbm.hidden_bias.assign(rng.normal(0, 0.5, HIDDEN))
    return rbm


def annealing(repetitions: int = 5) -> list[dict]:
    """Forward AIS, from the same base model as the peer's."""
    rbm = random_rbm()
    base = tf.sigmoid(rbm.visible_bias).numpy()
    peer = rbms_annealing(rbm)
    cases: dict[str, tuple[Callable[[], Any], float]] = {
        "ours": (
            lambda: annealed_log_partition(rbm, base=base, chains=CHAINS, temperatures=TEMPERATURES, reverse=False),
            1,
        ),
        "rbms": (peer, 1),
    }
    times = interleaved(cases, repetitions)
    work = f"AIS, {DIMENSIONS} x {HIDDEN} units, {TEMPERATURES} temperatures, {CHAINS} chains"
    return [row(work, times["ours"], "rbms", times["rbms"], 3)]


def rbms_annealing(rbm: tf_wcd.RBMLayer) -> Callable[[], float]:
    """AIS of the package `rbms` on the same model."""
    import torch
    from rbms.bernoulli_bernoulli.classes import BBRBM
    from rbms.partition_function.ais import compute_partition_function_ais

    model = BBRBM(*(torch.tensor(np.asarray(v)) for v in (rbm.kernel, rbm.visible_bias, rbm.hidden_bias)))
    return lambda: compute_partition_function_ais(CHAINS, TEMPERATURES, model)


def run() -> list[dict]:
    """All rows of the table."""
    return [*annealing(), *parzen()]


if __name__ == "__main__":
    from benchmarks.report import main

    main("likelihood", run)
