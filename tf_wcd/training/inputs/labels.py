"""Labels in one-hot coding."""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf

from tf_wcd.tables import array_of, is_sparse, table_of


def one_hot(
    labels: Any, classes: int, rows: int, dtype: str, what: str = "Labels", missing: bool = False
) -> np.ndarray:
    """Labels as ``[rows, classes]``, from class numbers or from what is one-hot (or probabilities) already.

    Args:
        labels: what the user passed.
        classes: number of classes.
        rows: number of examples.
        dtype: type of the result.
        what: what they are, for messages.
        missing: whether a label may be NaN, unknown, which gives a row of NaN.

    Example:

    >>> one_hot([0, 2], classes=3, rows=2, dtype="float32").tolist()
    [[1.0, 0.0, 0.0], [0.0, 0.0, 1.0]]
    """
    labels = _array_of_labels(labels, classes, what)
    if labels.ndim == 2 and labels.shape == (rows, 1):
        labels = labels[:, 0]
    if missing and labels.dtype.kind == "f" and labels.shape in ((rows, classes), (rows,)):
        return _with_unknown(labels, classes, dtype, what)
    if labels.dtype.kind not in "biuf" or labels.shape not in ((rows, classes), (rows,)):
        raise ValueError(
            f"{what} must be {rows} class numbers, or have the shape [{rows}, {classes}]. "
            f"Received: shape {labels.shape}, dtype {labels.dtype}"
        )
    if labels.ndim == 2:
        labels = labels.astype(dtype)
        wrong = ~((labels >= 0).all(axis=1) & np.isclose(labels.sum(axis=1), 1.0, atol=1e-4))
        if wrong.any():
            row = int(wrong.argmax())
            raise ValueError(
                f"{what} in one-hot coding must be at least 0, with the sum 1 in each row. "
                f"Received: {labels[row].tolist()} in row {row}"
            )
        return labels
    numbers = labels.astype("float64")
    wrong = ~((numbers >= 0) & (numbers < classes) & (numbers == np.trunc(numbers)))
    if wrong.any():
        row = int(wrong.argmax())
        raise ValueError(f"{what} must be class numbers in 0 .. {classes - 1}. Received: {labels[row]} in row {row}")
    return np.eye(classes, dtype=dtype)[labels.astype("int64")]


def _array_of_labels(labels: Any, classes: int, what: str) -> np.ndarray:
    """Labels as an array; of a column of a frame, which may be of a nullable type, too."""
    if is_sparse(labels) or isinstance(labels, np.ma.MaskedArray):
        return array_of(labels, what)
    if not hasattr(labels, "to_frame"):
        return np.asarray(labels)
    if getattr(labels.dtype, "kind", "O") not in "biuf" or hasattr(labels.dtype, "categories"):
        raise ValueError(
            f"{what} must be class numbers in 0 .. {classes - 1}; of names these are y.astype('category').cat.codes. "
            f"Received: a column of the type {labels.dtype}, {labels.name!r}"
        )
    return table_of(labels.to_frame(), what).values[:, 0]


def _with_unknown(labels: np.ndarray, classes: int, dtype: str, what: str) -> np.ndarray:
    """`one_hot` of labels some of which may be NaN, all columns of them where they are one-hot."""
    unknown = np.isnan(labels) if labels.ndim == 1 else np.isnan(labels).all(axis=1)
    stand_in = 0.0 if labels.ndim == 1 else np.eye(1, classes)
    known = np.where(unknown.reshape(-1, *[1] * (labels.ndim - 1)), stand_in, labels)
    coded = one_hot(known, classes, len(labels), dtype, what)
    coded[unknown] = np.nan
    return coded


def one_hot_for_all(labels: Any, classes: int, rows: int, dtype: str) -> np.ndarray:
    """`one_hot`, where one class number may stand for all rows."""
    labels = np.asarray(labels)
    return one_hot(np.full(rows, labels) if labels.ndim == 0 else labels, classes, rows, dtype, what="`labels`")


def one_hot_tensor(labels: tf.Tensor, classes: int, dtype: str, missing: bool = False) -> tuple[tf.Tensor, tf.Tensor]:
    """`one_hot` of a batch of a data set, and whether each of its rows is a label, or may be missing."""
    labels = tf.convert_to_tensor(labels)
    if missing and labels.dtype.is_floating:
        nothing = tf.reshape(tf.math.is_nan(labels), [tf.shape(labels)[0], -1])
        unknown, partly = tf.reduce_all(nothing, axis=1), tf.reduce_any(nothing, axis=1)
        known = tf.where(tf.math.is_nan(labels), tf.zeros_like(labels), labels)
        coded, good = one_hot_tensor(known, classes, dtype)
        return tf.where(unknown[:, None], tf.constant(np.nan, dtype), coded), (good & ~partly) | unknown
    if labels.shape.rank == 2 and labels.shape[1] == classes:
        labels = tf.cast(labels, dtype)
        whole = tf.abs(tf.reduce_sum(labels, axis=1) - 1.0) <= 1e-3
        return labels, tf.reduce_all(labels >= 0, axis=1) & whole
    labels = tf.reshape(labels, [-1])
    numbers = tf.cast(labels, tf.int32)
    whole = tf.cast(numbers, labels.dtype) == labels
    return tf.one_hot(numbers, classes, dtype=dtype), (numbers >= 0) & (numbers < classes) & whole
