"""How good a model of images is: Parzen curves, an interval of its likelihood, sample sheets and filters."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

import tf_wcd
from tf_wcd import evaluation, plots
from trainers.runs.image_likelihood import likelihood
from trainers.runs.image_samples import equilibrium_samples, samples_from_data
from trainers.settings.image_protocol import Evaluation


def reference_bandwidth(train: np.ndarray, valid: np.ndarray) -> float:
    """The window that suits the training images themselves as samples: one for all models of a data set."""
    rng = np.random.default_rng(0)
    some = train[rng.choice(len(train), min(len(train), 10_000), replace=False)]
    return float(evaluation.parzen_bandwidth(some.astype("uint8"), valid[:2000].astype("uint8")))


def parzen_curve(samples: np.ndarray, test: np.ndarray, sigma: float, counts: Sequence[int]) -> dict[str, list[Any]]:
    """Parzen log-likelihood of test images under so many samples, in any order, for each count that there are.

    Args:
        samples: images of 0 and 1.
        test: test images of 0 and 1.
        sigma: width of the window.
        counts: numbers of samples, increasing.
    """
    counts = [count for count in counts if count <= len(samples)]
    order = np.random.default_rng(0).permutation(len(samples))
    values = evaluation.parzen_log_likelihood(
        samples[order].astype("uint8"), test.astype("uint8"), sigma, counts=counts
    )
    return {"counts": counts, "values": np.round(values, 2).tolist()}


def full_quality(
    rbm: tf_wcd.RBMLayer,
    train: np.ndarray,
    test: np.ndarray,
    sigma: float,
    how: Evaluation,
    figures: Path | None = None,
) -> dict[str, Any]:
    """Everything that the report says of a model.

    Args:
        rbm: the model.
        train: training images of 0 and 1.
        test: test images of 0 and 1.
        sigma: width of the Parzen window.
        how: how it is evaluated.
        figures: path of the pictures of samples and filters, without their endings; ``None`` to draw none.
    """
    samples = {
        "equilibrium": equilibrium_samples(rbm, train, how),
        "data": samples_from_data(rbm, train, how),
    }
    if figures is not None:
        _draw(rbm, samples["equilibrium"], figures)
    return {
        "parzen": {kind: parzen_curve(drawn, test, sigma, how.counts) for kind, drawn in samples.items()},
        "likelihood": likelihood(rbm, train, test, how.annealing),
    }


def _draw(rbm: tf_wcd.RBMLayer, samples: np.ndarray, figures: Path) -> None:
    figures.parent.mkdir(parents=True, exist_ok=True)
    shape = plots.picture_shape(samples.shape[1])
    plots.image_sheet(samples[:100], shape, columns=20).savefig(f"{figures}-samples.png")
    kernel = rbm.kernel.numpy().T
    largest = kernel[np.argsort(-np.square(kernel).sum(axis=1))[:100]]
    plots.image_sheet(largest, shape, columns=20, signed=True).savefig(f"{figures}-filters.png")
