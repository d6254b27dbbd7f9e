"""Shapes of tensors."""

from __future__ import annotations

import tensorflow as tf


def static_shape(tensor: tf.Tensor) -> list[int | tf.Tensor]:
    """The shape as Python integers where they are known, and scalar tensors elsewhere."""
    if tensor.shape.is_fully_defined():
        return tensor.shape.as_list()
    dynamic = tf.shape(tensor)
    return [dynamic[i] if n is None else n for i, n in enumerate(tensor.shape.as_list())]
