"""Checks of what users pass in. Each error says what was received and what to do."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tf_wcd.units import Unit

# Marks our own messages inside the errors of a `tf.data` pipeline, which wrap them in several lines of their own.
_MARK = "tf_wcd: "


def check_visible(
    x: Any, unit: Unit, width: int | None, what: str = "x", dtype: str = "float32", strict: bool = False
) -> np.ndarray:
    """Visible states as an array ``[rows, width]``.

    Args:
        x: what the user passed.
        unit: type of the visible units.
        width: number of visible units, if known.
        what: name of the argument, for messages.
        dtype: type of the result.
        strict: accept only states of the unit, not values between them.

    Raises:
        ValueError: for anything but a non-empty matrix of the right width with values in the unit's domain.
    """
    x = np.asarray(x)
    if x.dtype == object or not (np.issubdtype(x.dtype, np.number) or x.dtype == bool):
        raise ValueError(f"`{what}` must be an array of numbers. Received: dtype {x.dtype}")
    if x.ndim != 2:
        raise ValueError(
            f"`{what}` must have the shape [examples, visible units]; reshape images to rows. Received: shape {x.shape}"
        )
    if not x.shape[0] or not x.shape[1]:
        raise ValueError(f"`{what}` is empty: at least one example is needed. Received: shape {x.shape}")
    if width is not None and x.shape[1] != width:
        raise ValueError(f"`{what}` must have {width} columns, one for each visible unit. Received: shape {x.shape}")
    x = x.astype(dtype, copy=False)
    low, high = unit.data_range
    # A sum is finite only if all its terms are, and minimum and maximum pass over the data without a copy.
    if not np.isfinite(x.sum(dtype="float64")):
        raise ValueError(f"`{what}` contains NaN or infinite values. Received: {_first(x, ~np.isfinite(x))}")
    if x.min() < low or x.max() > high:
        raise ValueError(
            f"`{what}` must be {unit.domain()} for {unit.name!r} visible units{_hint(unit, x)}. "
            f"Received: {_first(x, (x < low) | (x > high))}"
        )
    if strict and (wrong := unit.no_states(x)).any():
        states = unit.domain().rstrip(",") if unit.values is None else f"{unit.values[0]:g} or {unit.values[1]:g}"
        raise ValueError(f"`{what}` must hold states of {unit.name!r} units, {states}. Received: {_first(x, wrong)}")
    return x


def warn_of_bits(x: np.ndarray, unit: Unit) -> None:
    """Warns of data of 0 and 1 for units of -1 and +1: they are in range, 0 being a mean, but hardly meant."""
    if unit.values == (-1.0, 1.0) and x.min() == 0 and np.isin(x, (0, 1)).all():
        warnings.warn(
            f"All values of `x` are 0 or 1, and {unit.name!r} visible units are -1 or +1: did you mean 2 * x - 1?",
            stacklevel=4,
        )


def check_sample_weight(weights: Any, rows: int, what: str = "sample_weight") -> np.ndarray:
    """Non-negative weights, float64 ``[rows]``, with a positive sum; ``what`` is their name, for messages."""
    weights = np.asarray(weights, "float64")
    if weights.shape == (rows, 1):
        weights = weights[:, 0]
    if weights.shape != (rows,):
        raise ValueError(
            f"`{what}` must have one entry for each of the {rows} examples. Received: shape {weights.shape}"
        )
    if not np.isfinite(weights).all():
        bad = ~np.isfinite(weights)
        raise ValueError(f"`{what}` contains NaN or infinite values. Received: {_first(weights, bad)}")
    if (weights < 0).any():
        raise ValueError(f"`{what}` must not be negative. Received: {_first(weights, weights < 0)}")
    if not weights.sum() > 0:
        raise ValueError(f"`{what}` is zero for every example: at least one must be positive. Received: {rows} zeros")
    return weights


def check_batch(data: Any, unit: Unit, width: int | None, dtype: str, where: str) -> tuple[Any, ...]:
    """A batch of a `PyDataset` or a generator, checked, as ``(x, sample_weight)``; ``None`` without weights."""
    x, _, weights = keras.utils.unpack_x_y_sample_weight(data)
    x = check_visible(x, unit, width, f"x of {where}", dtype)
    if weights is not None:
        weights = check_sample_weight(weights, len(x)).astype(dtype)
    return x, weights


def check_dataset(dataset: tf.data.Dataset, unit: Unit, width: int, dtype: str) -> tf.data.Dataset:
    """The pipeline with every batch checked as it comes, as ``(x, sample_weight)``.

    A bad batch raises `tf.errors.InvalidArgumentError` before any update that uses it; `readable` finds the message.
    """
    low, high = unit.data_range

    @tf.autograph.experimental.do_not_convert  # plain TensorFlow already: conversion takes longer than tracing
    def check(position: tf.Tensor, *data: Any) -> tuple[tf.Tensor, tf.Tensor]:
        x, _, weights = keras.utils.unpack_x_y_sample_weight(data[0] if len(data) == 1 else data)
        if isinstance(x, dict | tuple | list):
            raise ValueError(
                f"A data set for an RBM yields one tensor x, with labels or weights. Received: {type(x).__name__}"
            )
        if x.shape.rank != 2 or x.shape[1] not in (None, width):
            raise ValueError(
                f"Batches must have the shape [examples, {width}], one column for each visible unit; "
                f"batch the data set first, and reshape images to rows. Received: shape {x.shape}"
            )
        x = tf.cast(x, dtype)
        x.set_shape([x.shape[0], width])
        if weights is None:
            weights = tf.ones(tf.shape(x)[:1], dtype)
        weights = tf.reshape(tf.cast(weights, dtype), tf.shape(x)[:1])
        weights.set_shape(x.shape[:1])
        total = tf.reduce_sum(weights)
        extremes = [", minimum ", tf.reduce_min(x), ", maximum ", tf.reduce_max(x)]
        conditions = [
            (tf.shape(x)[:1] > 0, "the batch is empty", []),
            (tf.reduce_all(tf.math.is_finite(x), axis=1), "x contains NaN or infinite values", []),
            (
                tf.reduce_all((x >= low) & (x <= high), axis=1),
                f"x must be {unit.domain()} for '{unit.name}' visible units",
                extremes,
            ),
            (tf.math.is_finite(weights), "sample_weight contains NaN or infinite values", []),
            (weights >= 0, "sample_weight must not be negative", [", minimum ", tf.reduce_min(weights)]),
            (total[None] > 0, "sample_weight is zero for every example of the batch", []),
        ]
        asserts = []
        for good, message, details in conditions:
            row = tf.reduce_sum(tf.cast(tf.math.cumsum(tf.cast(~good, tf.int32)) == 0, tf.int32))  # the first bad one
            where = [". Received: batch ", position, " of the data set, row ", row, " of the batch", *details]
            asserts.append(tf.debugging.Assert(tf.reduce_all(good), [_MARK, message, *where]))
        with tf.control_dependencies([a for a in asserts if a is not None]):
            return tf.identity(x), tf.identity(weights)

    return dataset.enumerate().map(check, num_parallel_calls=tf.data.AUTOTUNE)


def readable(error: tf.errors.OpError) -> ValueError | None:
    """Our own message out of an error of the input pipeline; ``None`` if the error is not one of ours."""
    text = str(error)
    if _MARK not in text:
        return None
    # TensorFlow prints the pieces of the message as [piece] [piece] ... in one line.
    pieces = text[text.index(_MARK) :].splitlines()[0].rpartition("]")[0]
    return ValueError("".join(pieces.split("] [")[1:]))


class CheckedPyDataset(keras.utils.PyDataset):
    """A `PyDataset` with every batch checked as it comes."""

    def __init__(self, source: keras.utils.PyDataset, check: Callable[[Any, str], tuple[Any, ...]]) -> None:
        super().__init__(
            workers=source.workers, use_multiprocessing=source.use_multiprocessing, max_queue_size=source.max_queue_size
        )
        self._source, self._check = source, check

    @property
    def num_batches(self) -> int | None:
        return self._source.num_batches

    def __getitem__(self, index: int) -> tuple[Any, ...]:
        return self._check(self._source[index], f"batch {index}")

    def on_epoch_begin(self) -> None:
        self._source.on_epoch_begin()

    def on_epoch_end(self) -> None:
        self._source.on_epoch_end()


def checked_generator(source: Iterator[Any], check: Callable[[Any, str], tuple[Any, ...]]) -> Iterator[tuple[Any, ...]]:
    """A generator of batches with every batch checked as it comes."""
    for index, data in enumerate(source):
        yield check(data, f"batch {index}")


def _first(values: np.ndarray, bad: np.ndarray) -> str:
    """The first bad entry and where it is."""
    where = tuple(int(i) for i in np.argwhere(bad)[0])
    return f"{values[where]} at {list(where)} ({int(bad.sum())} such values)"


def _hint(unit: Unit, x: np.ndarray) -> str:
    if unit.name == "bernoulli" and x.min() >= 0 and x.max() <= 255:
        return "; divide grey levels by 255"
    if unit.name == "bernoulli" and x.min() >= -1 and x.max() <= 1:
        return "; for states -1 and +1 use visible_type='spin'"
    return ""
