"""Samples of a model for chains to start from: the best that can be had of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import tensorflow as tf

from tf_wcd.machine import Machine
from tf_wcd.programs import call_compiled
from tf_wcd.random import batch_source, subkey
from tf_wcd.sampling import can_sample_exactly, exact_sampler, random_visible
from tf_wcd.sampling.annealing import check_temperatures
from tf_wcd.sampling.samplers import by_exchange, by_gibbs

if TYPE_CHECKING:
    from tf_wcd.layer import RBMLayer

RUNGS = 10  # temperatures that states are exchanged between
SWEEPS = 100  # of the ladder of a training, whose chains are samples of the model already
_START, _BURN_IN = 3, 4  # purposes of random numbers, each with another key; others are in `annealed`


class ModelSamples(NamedTuple):
    """Visible states ``[rows, n_v]``, and what they are: see ``reverse_start`` of `AnnealedLogPartition`."""

    visible: tf.Tensor
    origin: str


def model_samples(
    rbm: RBMLayer, base_bias: tf.Tensor, rows: int, data: Any, initial: Any, burn_in: int, group: int, key: tf.Tensor
) -> ModelSamples:
    """Samples of the model, as good as can be had, and where they come from.

    In this order: samples that were passed; independent ones by enumeration; those of the ladder that a training with
    ``"ptt"`` has left; and replica exchange between temperatures, from data or from random states.

    Args:
        rbm: a built `RBMLayer`.
        base_bias: ``[n_v]`` visible bias at temperature 0 of the exchange.
        rows: number of samples.
        data: ``[n, n_v]`` or ``None``.
        initial: ``[rows, n_v]`` or ``None``.
        burn_in: steps of Gibbs sampling after ``initial``, or of exchange.
        group: chains, each with all its temperatures, that are run at a time.
        key: uint32 [2].
    """
    machine = rbm.machine()
    start_key, burn_in_key = subkey(key, _START), subkey(key, _BURN_IN)
    if initial is not None:
        return settled(rbm, tf.constant(initial), burn_in, "initial", key)
    if can_sample_exactly(machine):
        return ModelSamples(exact_sampler(machine).sample(rows, start_key), "exact")
    trained = _of_training(rbm, machine, rows, burn_in_key)
    if trained is not None:
        return ModelSamples(trained, "ptt")
    if data is None:
        start = random_visible(machine, rows, batch_source(start_key), draw=0)
    else:
        generator = np.random.default_rng(start_key.numpy())
        start = tf.constant(data[generator.choice(len(data), rows, replace=rows > len(data))])
    if burn_in == 0:
        return ModelSamples(start, "random" if data is None else "data")
    betas = tf.constant(check_temperatures(RUNGS), start.dtype)
    steps = tf.constant(burn_in)
    parts = [
        call_compiled(by_exchange, rbm, start[i : i + group], None, steps, subkey(burn_in_key, i), base_bias, betas)
        for i in range(0, rows, group)
    ]
    return ModelSamples(tf.concat(parts, axis=0), "pt")


def settled(rbm: RBMLayer, start: tf.Tensor, steps: int, origin: str, key: tf.Tensor) -> ModelSamples:
    """States after steps of Gibbs sampling."""
    visible = call_compiled(by_gibbs, rbm, start, None, tf.constant(steps), subkey(key, _BURN_IN))
    return ModelSamples(visible, origin)


def _of_training(rbm: RBMLayer, machine: Machine, rows: int, key: tf.Tensor) -> tf.Tensor | None:
    """Samples from the chains that the model has trained with, if they are samples of it."""
    state = {name: tf.constant(value) for name, value in rbm.chain_states().items()}
    return rbm.negative_phase.source.samples(machine, state, rows, tf.constant(SWEEPS), key) if state else None
