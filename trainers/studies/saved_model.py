"""``wcd evaluate`` and ``wcd sample --model``: what a saved model is worth, and samples from it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import keras
import numpy as np

import tf_wcd
from tf_wcd import evaluation
from trainers.runs.image_samples import in_units
from trainers.runs.image_sets import Load, load_images
from trainers.settings.image_protocol import IMAGE_SETS


def load_model(path: str) -> tf_wcd.RBMLayer:
    """An `RBMLayer` that was saved by Keras."""
    if not Path(path).is_file():
        raise ValueError(f"`--model` must be a file saved by Keras, as model.keras. Received: {path}")
    model = keras.models.load_model(path)
    if not isinstance(model, tf_wcd.RBMLayer):
        raise ValueError(f"`--model` must hold one RBMLayer. Received: {type(model).__name__} in {path}")
    return model


def check_width(model: tf_wcd.RBMLayer, width: int, data: str) -> None:
    """Raises ValueError if a model has not as many visible units as the data have columns."""
    if model.num_visible != width:
        raise ValueError(f"{data} has {width} columns. Received: a model of {model.num_visible} visible units")


def evaluate_small(model: tf_wcd.RBMLayer, problem: str) -> dict[str, Any]:
    """Exact divergence from a small problem, and the probability that the model gives to its states."""
    states, probabilities = tf_wcd.datasets.load(problem)
    check_width(model, states.shape[1], problem)
    states = in_units(states, model.visible_unit.name)
    log_probabilities = evaluation.log_prob(model, states)
    return {
        "kl": float(evaluation.kl_divergence(model, states, probabilities)),
        "mass": float(np.exp(log_probabilities).sum()),
        "log_partition": float(evaluation.log_partition(model)),
        "method": "exact",
    }


def evaluate_images(
    model: tf_wcd.RBMLayer, data: str, chains: int, temperatures: int | None, seed: int, load: Load = load_images
) -> dict[str, Any]:
    """Log-likelihood of the test images, exact or annealed in both directions, and cheaper figures beside it."""
    images = load(IMAGE_SETS[data])
    check_width(model, images.test.shape[1], data)
    train, test = (in_units(x, model.visible_unit.name) for x in (images.train[:10_000], images.test))
    found = evaluation.log_likelihood(
        model, test, data=train, chains=chains, temperatures=temperatures or "auto", seed=seed
    )
    return {
        "log_likelihood": found.mean,
        "lower": found.lower,
        "upper": found.upper,
        "standard_error": found.standard_error,
        "log_partition": found.log_partition,
        "method": found.method,
        "binarize": IMAGE_SETS[data].binarize,
        "pseudo_log_likelihood": float(evaluation.pseudo_log_likelihood(model, test, bits=1, seed=seed).mean()),
        "free_energy_gap": float(np.mean(model.free_energy(test)) - np.mean(model.free_energy(train))),
    }


def evaluate_mixing(model: tf_wcd.RBMLayer, data: str, seed: int, load: Load = load_images) -> dict[str, Any]:
    """Whether chains mix that start from random states and from the data."""
    small = data in tf_wcd.datasets.SMALL
    x = tf_wcd.datasets.load(data)[0] if small else load(IMAGE_SETS[data]).train
    found = evaluation.mixing(model, in_units(x, model.visible_unit.name), seed=seed)
    names = ("r_hat", "autocorrelation_time", "effective_samples", "drift", "difference", "gibbs_steps")
    return {"mixed": found.mixed, "reason": found.reason, **{name: getattr(found, name) for name in names}}


def evaluate(
    path: str,
    data: str,
    chains: int = 100,
    temperatures: int | None = None,
    seed: int = 0,
    mixing: bool = False,
    load: Load = load_images,
) -> dict[str, Any]:
    """How good a saved model is on a data set; prints it, and returns it.

    Args:
        path: file of the model.
        data: a small problem or a set of images.
        chains: chains of annealing, where the likelihood is not exact.
        temperatures: number of its temperatures; ``None`` for as many as it takes until both directions agree.
        seed: seed of the estimates.
        mixing: also say whether chains of the model mix.
        load: reads a set of images.
    """
    model = load_model(path)
    small = data in tf_wcd.datasets.SMALL
    found = evaluate_small(model, data) if small else evaluate_images(model, data, chains, temperatures, seed, load)
    if small:
        print(f"KL from {data}: {found['kl']:.5f} nats, exact; {found['mass']:.2%} of the probability on its states")
    else:
        what = f"the test images of {data} (binarize={found['binarize']!r})"
        print(f"Log-likelihood of {what}: {found['log_likelihood']:.2f} nats, {found['method']}")
        if found["method"] == "annealed":
            error = f"standard error {found['standard_error']:.3f}"
            print(f"Forward and reverse annealing: between {found['lower']:.2f} and {found['upper']:.2f} nats, {error}")
        print(f"Pseudo-log-likelihood: {found['pseudo_log_likelihood']:.2f} nats")
        print(f"Free energy of test less training images: {found['free_energy_gap']:.2f} nats")
    if mixing:
        found["mixing"] = evaluate_mixing(model, data, seed, load)
        print(found["mixing"]["reason"])
    return {"model": path, "data": data, **found}


def sample(path: str, count: int, gibbs_steps: int, seed: int | None, label: int | None = None) -> np.ndarray:
    """Samples of a saved model, of one class if a label is given, without a server."""
    samples = load_model(path).sample(count, gibbs_steps=gibbs_steps, seed=seed, labels=label).numpy()
    print(
        f"{count} samples of {samples.shape[1]} units from {path}, {gibbs_steps} Gibbs steps, mean {samples.mean():.4f}"
    )
    return samples
