"""Exact log Z by enumeration: time against `rbms` and NumPy, and peak memory."""

from __future__ import annotations

import numpy as np

import tf_wcd
from benchmarks.timing import interleaved, limit_row, peak_gigabytes, row


def model(visible: int, hidden: int) -> tf_wcd.RBMLayer:
    rbm = tf_wcd.RBMLayer(hidden, kernel_initializer="glorot_uniform", seed=0)
    rbm.build((None, visible))
    return rbm


def brute_numpy(rbm: tf_wcd.RBMLayer) -> float:
    """All visible states at once, in float64."""
    W, b, c = (np.asarray(v, "float64") for v in (rbm.kernel, rbm.visible_bias, rbm.hidden_bias))
    n = len(b)
    states = ((np.arange(2**n)[:, None] >> np.arange(n)) & 1).astype("float64")
    terms = states @ b + np.logaddexp(0, states @ W + c).sum(1)
    top = terms.max()
    return float(top + np.log(np.exp(terms - top).sum()))


def brute_rbms(rbm: tf_wcd.RBMLayer) -> float:
    import torch
    from rbms.bernoulli_bernoulli.classes import BBRBM
    from rbms.partition_function.exact import compute_partition_function

    W, b, c = (torch.tensor(np.asarray(v)) for v in (rbm.kernel, rbm.visible_bias, rbm.hidden_bias))
    n = len(b)
    states = ((torch.arange(2**n)[:, None] >> torch.arange(n)) & 1).to(torch.float32)
    return compute_partition_function(BBRBM(W, b, c), states)


def run() -> list[dict]:
    """All rows of the table."""
    rbm = model(20, 100)
    cases = {
        "ours": (lambda: tf_wcd.evaluation.log_partition(rbm), 1),
        "rbms": (lambda: brute_rbms(rbm), 1),
        "numpy": (lambda: brute_numpy(rbm), 1),
    }
    values = {name: work() for name, (work, _) in cases.items()}
    assert abs(values["ours"] - values["numpy"]) < 1e-8 * abs(values["numpy"]), values
    times = interleaved(cases, repetitions=5)
    best = min(("rbms", "numpy"), key=lambda name: times[name])
    name = {"rbms": "rbms, float32", "numpy": "NumPy, float64"}[best]
    gigabytes = peak_gigabytes(
        "import tf_wcd; from benchmarks.partition import model; rbm = model(25, 40)",
        "tf_wcd.evaluation.log_partition(rbm)",
    )
    return [
        row("exact log Z, 20 x 100, float64", times["ours"], name + " (the faster peer)", times[best], 5),
        limit_row("exact log Z, 25 x 40: peak memory of the whole process, GB", gigabytes, 1, "1 GB"),
    ]


if __name__ == "__main__":
    from benchmarks.report import main

    main("partition", run)
