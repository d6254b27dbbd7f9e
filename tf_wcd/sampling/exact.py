"""Independent samples of small models, without any chain: one side is enumerated, the other drawn given it."""

from __future__ import annotations

import dataclasses

import tensorflow as tf

from tf_wcd.enumeration import MAX_LISTED_UNITS, Side, smaller_side
from tf_wcd.machine import Machine
from tf_wcd.random import Source, batch_source


@dataclasses.dataclass(frozen=True)
class ExactSampler:
    """The probabilities of all states of one side, from which samples are drawn.

    Attributes:
        side: the enumerated side.
        log_probabilities: float64 ``[states]``.
        cumulative: their exponentials summed up to each one, float64 ``[states]``.
    """

    side: Side
    log_probabilities: tf.Tensor
    cumulative: tf.Tensor

    def sample(self, rows: int | tf.Tensor, key: tf.Tensor) -> tf.Tensor:
        """Independent visible states, ``[rows, n_v]``.

        Args:
            rows: number of samples.
            key: uint32 [2].
        """
        machine, source = self.side.machine, batch_source(key)
        index = choose(self.cumulative, rows, source)
        states = self.side.states_at(index, machine.kernel.dtype.name)
        return states if self.side.visible else machine.sample_visible(machine.visible_field(states), source, 2)


def can_sample_exactly(machine: Machine, max_units: int = MAX_LISTED_UNITS) -> bool:
    """Whether the smaller side is small enough for all its states to be listed."""
    return smaller_side(machine).bits <= max_units


def exact_sampler(machine: Machine, side: Side | None = None) -> ExactSampler:
    """Lists the states of a machine for which `can_sample_exactly` holds.

    Args:
        machine: the RBM.
        side: the side to enumerate; the smaller one if not given.

    Example:

    >>> rbm = tf_wcd.RBMLayer(4, seed=0)
    >>> rbm.build((None, 3))
    >>> exact_sampler(rbm.machine()).sample(5, tf.constant([1, 2], tf.uint32)).shape
    TensorShape([5, 3])
    """
    side = side or smaller_side(machine)
    wide = Side(machine.cast("float64"), side.visible)
    weights = tf.concat([-wide.free_energy(states) for _, states in wide.chunks()], axis=0)
    log_probabilities = tf.nn.log_softmax(weights)
    return ExactSampler(side, log_probabilities, tf.cumsum(tf.exp(log_probabilities)))


def choose(cumulative: tf.Tensor, n: int | tf.Tensor, source: Source, groups: tf.Tensor | None = None) -> tf.Tensor:
    """Independent indices, int32 ``[n]``, by the cumulative sums of their probabilities (float64); takes two draws.

    With ``groups`` ``[n]``, each index is one of a group: then the sums are those within each group, from 0 to 1, with
    the number of the group added to them.

    Example:

    >>> source = batch_source(tf.constant([1, 2], tf.uint32))
    >>> choose(tf.constant([0.0, 1.0, 1.0], tf.float64), 4, source).numpy().tolist()
    [1, 1, 1, 1]
    >>> choose(tf.constant([1.0, 1.0, 2.0], tf.float64), 2, source, tf.constant([0, 1])).numpy().tolist()
    [0, 2]
    """
    # One draw tells 2^23 cases apart, too few for the rarer ones of a million: a second one fills the gaps.
    coarse, fine = (source(draw, tf.zeros([n], tf.float64)) for draw in (0, 1))
    position = coarse + (fine - 0.5) * 2.0**-23
    if groups is None:
        return tf.searchsorted(cumulative, position * cumulative[-1], side="right")
    # Added to a large number, a position just below 1 must not be rounded into the next group.
    position = tf.minimum(position, 1 - 2.0**-40) + tf.cast(groups, tf.float64)
    return tf.searchsorted(cumulative, position, side="right")
