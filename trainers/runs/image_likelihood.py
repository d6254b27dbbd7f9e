"""The likelihood of images under a model, by annealing: with an interval, or with so many temperatures."""

from __future__ import annotations

import time
from typing import Any

import numpy as np

import tf_wcd
from tf_wcd import evaluation
from tf_wcd.evaluation.exact import free_energies
from trainers.runs.image_samples import in_units
from trainers.settings.record_protocol import Annealing

TRAINING_IMAGES = 10_000  # that annealing begins with, and whose likelihood is given


def likelihood(rbm: tf_wcd.RBMLayer, train_images: np.ndarray, x: np.ndarray, annealing: Annealing) -> dict[str, Any]:
    """Mean log-likelihoods in nats with the interval that follows from that of log Z, and where it comes from.

    Args:
        rbm: the model.
        train_images: training images of 0 and 1.
        x: other images of 0 and 1, which the likelihood is of.
        annealing: how log Z is estimated.
    """
    start = time.monotonic()
    found = evaluation.log_partition_interval(
        rbm,
        in_units(train_images[:TRAINING_IMAGES], rbm.visible_unit.name),
        seed=annealing.seed,
        budget=annealing.budget,
        tolerance=annealing.tolerance,
        chains=annealing.chains,
    )
    free, free_train = (_mean_free_energy(rbm, part) for part in (x, train_images[:TRAINING_IMAGES]))
    return {
        "estimate": round(-free - found.estimate, 3),
        "lower": round(-free - found.upper, 3),
        "upper": round(-free - found.lower, 3),
        "train": round(-free_train - found.estimate, 3),
        "log_partition": round(found.estimate, 3),
        "from": found.method,
        "reason": found.reason,
        "evaluation_seconds": round(time.monotonic() - start),
    }


def annealed_quality(
    rbm: tf_wcd.RBMLayer, train: np.ndarray, test: np.ndarray, temperatures: int, seed: int
) -> dict[str, Any]:
    """Log-likelihoods of images of 0 and 1 by annealing in reverse and forward, as they are, errors aside.

    Args:
        rbm: the model.
        train: training images.
        test: test images.
        temperatures: of the annealing.
        seed: of the annealing.
    """
    annealed = evaluation.annealed_log_partition(
        rbm,
        data=in_units(train[:TRAINING_IMAGES], rbm.visible_unit.name),
        temperatures=temperatures,
        chains=100,
        seed=seed,
    )
    free = {"train": _mean_free_energy(rbm, train[:TRAINING_IMAGES]), "test": _mean_free_energy(rbm, test)}
    return {
        "log_partition": round(annealed.estimate, 2),
        "standard_error": round(annealed.standard_error, 3),
        "train": [round(-free["train"] - z, 2) for z in (annealed.reverse_estimate, annealed.estimate)],
        "test": [round(-free["test"] - z, 2) for z in (annealed.reverse_estimate, annealed.estimate)],
        "test_estimate": round(-free["test"] - annealed.estimate, 2),
    }


def _mean_free_energy(rbm: tf_wcd.RBMLayer, x: np.ndarray) -> float:
    """The mean free energy of images of 0 and 1, in float64."""
    states = in_units(x.astype("float64"), rbm.visible_unit.name)
    return float(np.mean(free_energies(rbm.machine().cast("float64"), states)))
