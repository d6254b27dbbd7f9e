"""How good a model of images is: Parzen curve, annealed log-likelihood, sample sheets and filters."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

import tf_wcd
from tf_wcd import evaluation, plots
from tf_wcd.evaluation.exact import free_energies
from trainers.settings.image_protocol import Evaluation


def in_units(x: np.ndarray, units: str) -> np.ndarray:
    """Images of 0 and 1 in the states of units of that kind."""
    return 2 * x - 1 if units == "spin" else x


def draw_samples(rbm: tf_wcd.RBMLayer, count: int, burn_in: int, spacing: int, chains: int, seed: int) -> np.ndarray:
    """Samples of 0 and 1, uint8: chains from random states, recorded every ``spacing`` steps after the burn-in."""
    visible = rbm.sample(chains, gibbs_steps=burn_in, seed=seed)
    parts = [np.asarray(visible) > 0]
    while sum(map(len, parts)) < count:
        visible = rbm.sample(chains, gibbs_steps=spacing, initial=visible, seed=seed + len(parts))
        parts.append(np.asarray(visible) > 0)
    return np.concatenate(parts)[:count].astype("uint8")


def reference_bandwidth(train: np.ndarray, valid: np.ndarray) -> float:
    """The window that suits the training images themselves as samples: one for all models of a data set."""
    rng = np.random.default_rng(0)
    some = train[rng.choice(len(train), min(len(train), 10_000), replace=False)]
    return float(evaluation.parzen_bandwidth(some.astype("uint8"), valid[:2000].astype("uint8")))


def quick_quality(
    rbm: tf_wcd.RBMLayer, train: np.ndarray, valid: np.ndarray, sigma: float, seed: int
) -> dict[str, float]:
    """Parzen likelihood of the validation images under 5000 samples, and a short annealed estimate beside it."""
    samples = draw_samples(rbm, 5000, 500, 25, 500, seed)
    parzen = float(evaluation.parzen_log_likelihood(samples, valid.astype("uint8"), sigma))
    units = rbm.visible_unit.name
    likelihood = evaluation.log_likelihood(
        rbm,
        in_units(valid, units),
        data=in_units(train[:10_000], units),
        temperatures=1000,
        chains=50,
        reverse=False,
        seed=seed,
    )
    return {"parzen": round(parzen, 2), "annealed": round(likelihood.mean, 2)}


def full_quality(
    rbm: tf_wcd.RBMLayer, train: np.ndarray, test: np.ndarray, sigma: float, how: Evaluation, figures: Path
) -> dict[str, Any]:
    """Everything that the report says of a model; draws its sample sheet and filters.

    Args:
        rbm: the model.
        train: training images of 0 and 1.
        test: test images of 0 and 1.
        sigma: width of the Parzen window.
        how: numbers of samples and temperatures.
        figures: path of the pictures, without their endings.
    """
    samples = draw_samples(rbm, how.counts[-1], 1000, 10, 1000, how.seed)
    rng = np.random.default_rng(0)
    order = rng.permutation(len(samples))
    curve = evaluation.parzen_log_likelihood(samples[order], test.astype("uint8"), sigma, counts=how.counts)
    counts = [count for count in how.counts if count <= len(train)]
    reference = evaluation.parzen_log_likelihood(
        train[rng.permutation(len(train))].astype("uint8"), test.astype("uint8"), sigma, counts=counts
    )
    _draw(rbm, samples, figures)
    return {
        "sigma": round(sigma, 4),
        "parzen": {"counts": how.counts, "values": np.round(curve, 2).tolist()},
        "parzen_of_training_images": {"counts": counts, "values": np.round(reference, 2).tolist()},
        "annealed": annealed_quality(rbm, train, test, how),
    }


def annealed_quality(rbm: tf_wcd.RBMLayer, train: np.ndarray, test: np.ndarray, how: Evaluation) -> dict[str, Any]:
    """Log-likelihoods of images of 0 and 1 by annealing in reverse and forward, as they are, errors aside.

    Args:
        rbm: the model.
        train: training images.
        test: test images.
        how: temperatures and seed.
    """
    units = rbm.visible_unit.name
    annealed = evaluation.annealed_log_partition(
        rbm, data=in_units(train[:10_000], units), temperatures=how.temperatures, chains=100, seed=how.seed
    )
    free = {
        part: float(np.mean(free_energies(rbm.machine().cast("float64"), in_units(x, units))))
        for part, x in (("train", train[:10_000].astype("float64")), ("test", test.astype("float64")))
    }
    return {
        "log_partition": round(annealed.estimate, 2),
        "standard_error": round(annealed.standard_error, 3),
        "train": [round(-free["train"] - z, 2) for z in (annealed.reverse_estimate, annealed.estimate)],
        "test": [round(-free["test"] - z, 2) for z in (annealed.reverse_estimate, annealed.estimate)],
        "test_estimate": round(-free["test"] - annealed.estimate, 2),
    }


def _draw(rbm: tf_wcd.RBMLayer, samples: np.ndarray, figures: Path) -> None:
    figures.parent.mkdir(parents=True, exist_ok=True)
    shape = plots.picture_shape(samples.shape[1])
    plots.image_sheet(samples[:100], shape, columns=20).savefig(f"{figures}-samples.png")
    kernel = rbm.kernel.numpy().T
    largest = kernel[np.argsort(-np.square(kernel).sum(axis=1))[:100]]
    plots.image_sheet(largest, shape, columns=20, signed=True).savefig(f"{figures}-filters.png")
