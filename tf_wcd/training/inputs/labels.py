"""Labels in one-hot coding."""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf


def one_hot(labels: Any, classes: int, rows: int, dtype: str) -> np.ndarray:
    """Labels as ``[rows, classes]``, from class numbers or from what is one-hot (or probabilities) already.

    Example:

    >>> one_hot([0, 2], classes=3, rows=2, dtype="float32").tolist()
    [[1.0, 0.0, 0.0], [0.0, 0.0, 1.0]]
    """
    labels = np.asarray(labels)
    if labels.ndim == 2 and labels.shape == (rows, 1):
        labels = labels[:, 0]
    if labels.shape == (rows, classes):
        labels = labels.astype(dtype)
        wrong = ~((labels >= 0).all(axis=1) & np.isclose(labels.sum(axis=1), 1.0, atol=1e-4))
        if wrong.any():
            row = int(wrong.argmax())
            raise ValueError(
                "One-hot labels must be at least 0, with the sum 1 in each row. "
                f"Received: {labels[row].tolist()} in row {row}"
            )
        return labels
    if labels.shape != (rows,) or not np.array_equal(labels, labels.astype("int64")):
        raise ValueError(
            f"Labels must be {rows} class numbers, or have the shape [{rows}, {classes}]. "
            f"Received: shape {labels.shape}, dtype {labels.dtype}"
        )
    if labels.min() < 0 or labels.max() >= classes:
        raise ValueError(f"Labels must be in 0 .. {classes - 1}. Received: {labels.min()} to {labels.max()}")
    return np.eye(classes, dtype=dtype)[labels.astype("int64")]


def one_hot_tensor(labels: tf.Tensor, classes: int, dtype: str) -> tuple[tf.Tensor, tf.Tensor]:
    """`one_hot` of a batch of a data set, and whether each of its rows is a label."""
    labels = tf.convert_to_tensor(labels)
    if labels.shape.rank == 2 and labels.shape[1] == classes:
        labels = tf.cast(labels, dtype)
        whole = tf.abs(tf.reduce_sum(labels, axis=1) - 1.0) <= 1e-3
        return labels, tf.reduce_all(labels >= 0, axis=1) & whole
    labels = tf.reshape(labels, [-1])
    numbers = tf.cast(labels, tf.int32)
    whole = tf.cast(numbers, labels.dtype) == labels
    return tf.one_hot(numbers, classes, dtype=dtype), (numbers >= 0) & (numbers < classes) & whole
