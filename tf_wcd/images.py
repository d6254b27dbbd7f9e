"""Data of several axes, images say, that an RBM sees as rows of visible units.

A layer that was made with a ``visible_shape`` takes them as they are, besides rows. Rows are all that there is inside.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from tf_wcd.arguments import is_integer
from tf_wcd.shapes import static_shape

Shape = tuple[int, ...] | None


def check_visible_shape(shape: Any) -> Shape:
    """The argument ``visible_shape`` of a model: the shape of one example; ``None`` for rows alone.

    Example:

    >>> check_visible_shape([28, 28])
    (28, 28)
    """
    if shape is None:
        return None
    good = isinstance(shape, Sequence) and not isinstance(shape, str) and len(shape) > 0
    if not good or not all(is_integer(size) and size >= 1 for size in shape):
        raise ValueError(
            f"`visible_shape` must be the shape of one example, (height, width) say. Received: visible_shape={shape!r}"
        )
    return tuple(int(size) for size in shape)


def width_of(shape: Shape) -> int | None:
    """Number of visible units of examples of this shape; ``None`` if it is not known."""
    return None if shape is None else math.prod(shape)


def are_images(x: Any, shape: Shape) -> bool:
    """Whether data come in the shape of the examples, and not as rows."""
    if shape is None or len(shape) < 2:
        return False
    own = x.shape if hasattr(x, "shape") else np.shape(x)
    if isinstance(own, tf.TensorShape) and own.rank is None:
        return False
    own = tuple(own)
    return len(own) == 1 + len(shape) and all(mine in (None, size) for mine, size in zip(own[1:], shape, strict=True))


def as_rows(x: Any, shape: Shape, one: bool = False) -> Any:
    """Images ``[n, *shape]`` as rows ``[n, units]``. Anything else stays as it is, for checks to look at.

    Args:
        x: an array or a tensor.
        shape: the shape of one example; ``None`` for a model that knows of none.
        one: take a single image for one row, too.

    Example:

    >>> as_rows(np.zeros([5, 2, 3]), (2, 3)).shape, as_rows(np.zeros([5, 6]), (2, 3)).shape
    ((5, 6), (5, 6))
    """
    if one and shape is not None and len(shape) > 1 and tuple(x.shape) == shape:
        x = x[None]
    if not are_images(x, shape):
        return x
    size = [-1, width_of(shape)]
    return tf.reshape(x, size) if tf.is_tensor(x) else np.reshape(x, size)


def as_images(rows: tf.Tensor, shape: Shape) -> tf.Tensor:
    """Rows ``[..., units]`` as images ``[..., *shape]``; as they are without a shape.

    Example:

    >>> as_images(tf.zeros([5, 6]), (2, 3)).shape
    TensorShape([5, 2, 3])
    """
    return rows if shape is None else tf.reshape(rows, [*static_shape(rows)[:-1], *shape])


def shape_of_rows(input_shape: Any, shape: Shape) -> tuple[Any, ...]:
    """The shape of an input, ``[batch, units]`` where it was that of images.

    Raises:
        ValueError: for rows of another length than the shape has units.
    """
    given = tuple(input_shape)
    if shape is None:
        return given
    if given[1:] == shape:
        return given[0], width_of(shape)
    if len(given) == 2 and given[1] not in (None, width_of(shape)):
        raise ValueError(
            f"Data of a layer with visible_shape={shape} are such images, or rows of {width_of(shape)} columns. "
            f"Received: {given[1]} columns"
        )
    return given
