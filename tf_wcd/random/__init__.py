"""Random numbers as pure functions of keys and counters: one key for a whole batch, or one for each row.

Samplers take their numbers from a *source*: a function of the number of a draw and of the field of the units that are
drawn, which gives uniform numbers of the field's shape. `batch_source` and `row_source` make one.
"""

from __future__ import annotations

from collections.abc import Callable

import tensorflow as tf

from tf_wcd.random.batch import key_of, key_of_members, mix, subkey, uniform
from tf_wcd.random.rows import column_uniform, row_keys, row_uniform
from tf_wcd.shapes import static_shape

__all__ = [
    "Source",
    "batch_source",
    "column_source",
    "column_uniform",
    "key_of",
    "key_of_members",
    "mix",
    "row_keys",
    "row_source",
    "row_uniform",
    "subkey",
    "uniform",
]

# (number of the draw, field) -> uniform numbers of the field's shape. A number is used once; it may be a tensor.
Source = Callable[[tf.Tensor | int, tf.Tensor], tf.Tensor]


def batch_source(key: tf.Tensor) -> Source:
    """Numbers for all rows together.

    Args:
        key: uint32 [2].

    Example:

    >>> source = batch_source(tf.constant([1, 2], tf.uint32))
    >>> source(0, tf.zeros([3, 4])).shape
    TensorShape([3, 4])
    """
    return lambda draw, field: uniform(key, draw, static_shape(field), field.dtype)


def row_source(keys: tf.Tensor) -> Source:
    """Numbers that each row draws for itself, for fields ``[rows, units]``.

    Args:
        keys: uint32 ``[rows, 2]``, from `row_keys`.
    """
    return lambda draw, field: tf.cast(row_uniform(keys, draw, field.shape[-1]), field.dtype)


def column_source(keys: tf.Tensor) -> Source:
    """The numbers of `row_source` for transposed fields, ``[units, rows]``."""
    return lambda draw, field: tf.cast(column_uniform(keys, draw, field.shape[0]), field.dtype)
