"""Independent samples of small models, without any chain: one side is enumerated, the other drawn given it."""

from __future__ import annotations

import numpy as np
import tensorflow as tf

from tf_wcd.enumeration import states_of
from tf_wcd.evaluation import exact
from tf_wcd.machine import Machine

# Largest number of (state, unit) pairs for which this takes about a second.
MAX_TERMS = 2**26


def can_sample_exactly(machine: Machine) -> bool:
    """Whether `exact_samples` is quick: the number of states of the smaller side times the units of the other."""
    over_visible, count = exact.smaller_side(machine)
    others = machine.num_hidden if over_visible else machine.num_visible
    return count <= 24 and 2**count * others <= MAX_TERMS


def exact_samples(machine: Machine, rows: int, generator: np.random.Generator, key: tf.Tensor) -> tf.Tensor:
    """Independent visible states from the model.

    Args:
        machine: an RBM for which `can_sample_exactly` holds.
        rows: number of samples.
        generator: draws the side that is enumerated.
        key: uint32 [2], for the visible units where the hidden ones are enumerated.

    Returns:
        ``[rows, n_v]``.
    """
    wide = exact.as_float64(machine)
    over_visible, count = exact.smaller_side(machine)
    unit = machine.visible if over_visible else machine.hidden
    energy = wide.free_energy if over_visible else wide.hidden_free_energy
    energies = np.concatenate([energy(states) for _, states in exact.chunks_of_states(machine)])
    cumulative = np.cumsum(np.exp(energies.min() - energies))
    chosen = np.searchsorted(cumulative, generator.uniform(0.0, cumulative[-1], rows), side="right")
    states = states_of(tf.constant(chosen, tf.int32), unit, count, machine.kernel.dtype)
    return states if over_visible else machine.sample_visible(machine.visible_field(states), key, 0)
