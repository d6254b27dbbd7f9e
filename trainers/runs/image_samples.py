"""Samples of a model of images: of its equilibrium, as far as it can be had, and of chains that start at the data."""

from __future__ import annotations

import numpy as np
import tensorflow as tf

import tf_wcd
from tf_wcd.programs import call_compiled
from tf_wcd.random import subkey
from tf_wcd.sampling.annealing import annealed_states, check_temperatures, sample_base
from trainers.settings.image_protocol import Evaluation

# Purposes of random numbers, each with another key; and of seeds of chains.
_BASE, _PATH = range(2)
_SEEDS_APART = 10_000


def in_units(x: np.ndarray, units: str) -> np.ndarray:
    """Images of 0 and 1 in the states of units of that kind."""
    return 2 * x - 1 if units == "spin" else x


def equilibrium_samples(rbm: tf_wcd.RBMLayer, train: np.ndarray, how: Evaluation) -> np.ndarray:
    """Samples of 0 and 1, uint8, of chains that were at the model's equilibrium when they began.

    They begin as a population that was carried from independent units to the model along a path of temperatures, and
    resampled on the way, so that each mode has its share whether chains cross to it or not.

    Args:
        rbm: the model.
        train: training images of 0 and 1, whose means the independent units have.
        how: numbers of samples, chains and steps.
    """
    machine, key = rbm.machine(), rbm.sampling_key(how.seed)
    means = in_units(train, rbm.visible_unit.name).mean(axis=0, keepdims=True, dtype="float64")
    base_bias = machine.visible.bias_of_means(means.astype(rbm.variable_dtype))[0]
    start = sample_base(machine, base_bias, how.chains, subkey(key, _BASE))
    betas = tf.constant(check_temperatures(how.temperatures), start.dtype)
    return _followed(rbm, call_compiled(annealed_states, rbm, base_bias, start, betas, subkey(key, _PATH)), how, 0)


def samples_from_data(rbm: tf_wcd.RBMLayer, train: np.ndarray, how: Evaluation) -> np.ndarray:
    """Samples of 0 and 1, uint8, of chains that begin at training images.

    Where chains do not cross between modes these keep the shares that the data have in each, whatever the model's are.

    Args:
        rbm: the model.
        train: training images of 0 and 1.
        how: numbers of samples, chains and steps.
    """
    chosen = np.random.default_rng(how.seed).choice(len(train), how.chains, replace=len(train) < how.chains)
    return _followed(rbm, in_units(train[chosen], rbm.visible_unit.name), how, 1)


def _followed(rbm: tf_wcd.RBMLayer, start: np.ndarray | tf.Tensor, how: Evaluation, purpose: int) -> np.ndarray:
    """States of chains after the burn-in, and then again and again, until there are enough of them."""
    seed = how.seed + purpose * _SEEDS_APART
    visible = rbm.sample(how.chains, gibbs_steps=how.burn_in, initial=start, seed=seed)
    parts = [np.asarray(visible) > 0]
    while sum(map(len, parts)) < how.counts[-1]:
        visible = rbm.sample(how.chains, gibbs_steps=how.spacing, initial=visible, seed=seed + len(parts))
        parts.append(np.asarray(visible) > 0)
    return np.concatenate(parts)[: how.counts[-1]].astype("uint8")
