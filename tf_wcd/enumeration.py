"""All states of a layer of binary units."""

from __future__ import annotations

import tensorflow as tf

from tf_wcd.units import Unit


def states_of(indices: tf.Tensor, unit: Unit, count: int, dtype: str = "float32") -> tf.Tensor:
    """States that the integers stand for, read as bits with the most significant first.

    Args:
        indices: int32 ``[N]``.
        unit: a unit type with two values.
        count: number of units, at most 31.
        dtype: type of the result.

    Returns:
        ``[N, count]``.

    Example:

    >>> from tf_wcd import units
    >>> states_of(tf.constant([1, 6]), units.get("bernoulli"), 3).numpy().tolist()
    [[0.0, 0.0, 1.0], [1.0, 1.0, 0.0]]
    """
    assert unit.values is not None
    low, high = unit.values
    bits = tf.bitwise.bitwise_and(tf.bitwise.right_shift(indices[:, None], tf.range(count - 1, -1, -1)[None, :]), 1)
    return low + (high - low) * tf.cast(bits, dtype)


def all_states(unit: Unit, count: int, dtype: str = "float32") -> tf.Tensor:
    """``[2 ** count, count]``: every state once, in the order of `states_of`."""
    return states_of(tf.range(2**count), unit, count, dtype)
