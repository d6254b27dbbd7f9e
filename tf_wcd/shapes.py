"""Shapes of tensors."""

from __future__ import annotations

from collections.abc import Sequence

import tensorflow as tf


def static_shape(tensor: tf.Tensor) -> list[int | tf.Tensor]:
    """The shape as Python integers where they are known, and scalar tensors elsewhere."""
    if tensor.shape.is_fully_defined():
        return tensor.shape.as_list()
    dynamic = tf.shape(tensor)
    return [dynamic[i] if n is None else n for i, n in enumerate(tensor.shape.as_list())]


def with_shape(tensor: tf.Tensor, shape: Sequence[int]) -> tf.Tensor:
    """The tensor, of which is known that it has this shape.

    `tf.ensure_shape` does that by an operation, which XLA takes for a shape that may change.

    Example:

    >>> with_shape(tf.zeros([2, 3]), [2, 3]).shape
    TensorShape([2, 3])
    """
    same = tf.identity(tensor)
    same.set_shape(shape)
    return same
