"""Rows some of whose visible units are unknown: what is known of the others, given the known ones.

With the known units held at their values, the unknown ones and the hidden units are an RBM again. Where a side of it
has few states, all sums are exact. Where both are large, chains of Gibbs sampling draw the unknown units with the known
ones held (clamped).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import tensorflow as tf

from tf_wcd.enumeration import Side, smaller_side
from tf_wcd.machine import Machine
from tf_wcd.random import Source
from tf_wcd.sampling.gibbs import run_chains
from tf_wcd.shapes import static_shape

MAX_BITS = 10  # log2 of the number of states that are enumerated for every row

_CHOICE, _STATES = 2**32 - 2, 2**32 - 3  # numbers of draws, far from those of a chain, which counts from 0


class Posterior(NamedTuple):
    """The enumerated states, given the known units of each row.

    Attributes:
        log_weights: ``[..., rows, states]``; the sum of their exponentials is exp(-F) of the known units, that is
            P(known units) times Z.
        states: ``[states, columns]`` of the enumerated side.
        side: which side that is.
    """

    log_weights: tf.Tensor
    states: tf.Tensor
    side: Side


def is_enumerable(machine: Machine, max_bits: float = MAX_BITS) -> bool:
    """Whether a side of the machine has so few states that sums over unknown units are exact."""
    return smaller_side(machine).bits <= max_bits


def posterior(machine: Machine, visible: tf.Tensor, unknown: tf.Tensor) -> Posterior:
    """The states of the smaller side, given the known units of each row.

    Hidden states h have the weight exp(c.h) times exp(f.x - base(x)) of each known unit and exp(cumulant(f)) of each
    unknown one, in its field f = b + h W. Visible states fill in the unknown units, and have the weight exp(-F).

    Args:
        machine: the RBM; the base energy of its visible units is zero at 0.
        visible: ``[..., rows, n_v]``; what stands in the place of unknown units is of no effect.
        unknown: the same shape, true where a unit is unknown, in all columns of a unit or in none.
    """
    side = smaller_side(machine)
    states = side.states_at(tf.range(side.num_states), visible.dtype)
    weights = _of_completions if side.visible else _of_hidden_states
    return Posterior(weights(machine, states, visible, unknown), states, side)


def _of_hidden_states(machine: Machine, states: tf.Tensor, visible: tf.Tensor, unknown: tf.Tensor) -> tf.Tensor:
    field = machine.visible_field(states)
    known = tf.where(unknown, tf.zeros_like(visible), visible)
    of_units = tf.cast(tf.gather(unknown, _first_columns(machine), axis=-1), visible.dtype)
    own = tf.linalg.matvec(states, machine.hidden_bias)
    base = machine.hidden.total_base_energy(states)
    own = own if base is None else own - base
    weights = tf.matmul(known, field, transpose_b=True) + own[..., None, :]
    weights += tf.matmul(of_units, machine.visible.cumulant(field), transpose_b=True)
    base = machine.visible.total_base_energy(known)
    return weights if base is None else weights - base[..., None]


def _of_completions(machine: Machine, states: tf.Tensor, visible: tf.Tensor, unknown: tf.Tensor) -> tf.Tensor:
    count = states.shape[0]
    *leading, rows, width = static_shape(visible)
    completed = tf.where(unknown[..., None, :], states, visible[..., None, :])
    energy = machine.free_energy(tf.reshape(completed, [*leading, rows * count, width]))
    # States that differ in known units only are the same completion.
    counts = tf.constant(np.log(machine.visible.state_counts(width)), visible.dtype)
    known = tf.cast(~tf.gather(unknown, _first_columns(machine), axis=-1), visible.dtype)
    copies = tf.linalg.matvec(known, tf.broadcast_to(counts, tf.shape(known)[-1:]))
    return -tf.reshape(energy, [*leading, rows, count]) - copies[..., None]


def _first_columns(machine: Machine) -> np.ndarray:
    """The first column of every visible unit."""
    return np.unique(machine.visible.describe_columns(machine.num_visible).first)


def known_free_energy(machine: Machine, visible: tf.Tensor, unknown: tf.Tensor) -> tf.Tensor:
    """F of the known units, ``[..., rows]``: minus the log of the sum (integral) of exp(-Energy) over all others."""
    return -tf.reduce_logsumexp(posterior(machine, visible, unknown).log_weights, axis=-1)


def exact_mean(machine: Machine, visible: tf.Tensor, unknown: tf.Tensor) -> tf.Tensor:
    """The rows with their unknown units at their exact expectations, given the known ones."""
    known = posterior(machine, visible, unknown)
    means = known.states
    if not known.side.visible:
        means = machine.visible.mean(machine.visible_field(known.states))
    return tf.where(unknown, tf.matmul(tf.nn.softmax(known.log_weights), means), visible)


def exact_draw(machine: Machine, visible: tf.Tensor, unknown: tf.Tensor, source: Source) -> tf.Tensor:
    """The rows with their unknown units drawn from their exact distribution, given the known ones."""
    known = posterior(machine, visible, unknown)
    noisy = known.log_weights - tf.math.log(-tf.math.log(source(_CHOICE, known.log_weights)))
    drawn = tf.gather(known.states, tf.argmax(noisy, axis=-1))
    if not known.side.visible:
        drawn = machine.sample_visible(machine.visible_field(drawn), source, _STATES)
    return tf.where(unknown, drawn, visible)


def clamped_start(machine: Machine, visible: tf.Tensor, unknown: tf.Tensor) -> tf.Tensor:
    """The rows with their unknown units in the middle of their range, where clamped chains start."""
    middle = tf.constant(machine.visible.midpoints(machine.num_visible), visible.dtype)
    return tf.where(unknown, middle, visible)


def clamped_draw(
    machine: Machine, visible: tf.Tensor, unknown: tf.Tensor, steps: tf.Tensor, source: Source
) -> tf.Tensor:
    """The rows with their unknown units after so many Gibbs steps with the known ones held."""
    return run_chains(machine, clamped_start(machine, visible, unknown), ~unknown, steps, source).visible


def clamped_mean(
    machine: Machine, visible: tf.Tensor, unknown: tf.Tensor, steps: tf.Tensor, source: Source
) -> tf.Tensor:
    """The rows with their unknown units at the mean, over the second half of clamped chains, of E[x | h]."""
    start = clamped_start(machine, visible, unknown)

    def step(i: tf.Tensor, rows: tf.Tensor, total: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        hidden = machine.sample_hidden(machine.hidden_field(rows), source, 2 * i)
        field = machine.visible_field(hidden)
        drawn = machine.sample_visible(field, source, 2 * i + 1)
        mean = tf.where(i >= steps // 2, machine.visible.mean(field), tf.zeros_like(field))
        return i + 1, tf.where(unknown, drawn, visible), total + mean

    loop = tf.constant(0), start, tf.zeros_like(start)
    _, _, total = tf.while_loop(lambda i, *_: i < steps, step, loop, parallel_iterations=1)
    return tf.where(unknown, total / tf.cast(steps - steps // 2, start.dtype), visible)
