"""The data of pre-training, batch by batch, and what each layer is given of them.

Only batches are in memory: the inputs of a layer are computed from those of the first one as they are needed.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tf_wcd import data_checks
from tf_wcd.arguments import check_integer
from tf_wcd.blocks import index_blocks
from tf_wcd.dbn.passes import keyed_uniforms, pass_up
from tf_wcd.machine import Machine
from tf_wcd.random_bits import subkey
from tf_wcd.units import Unit

INPUTS = ("probabilities", "samples")


@dataclasses.dataclass(frozen=True)
class ArrayStream:
    """Batches of arrays, in an order that depends on the seed and the number of the update alone.

    The passes over the data follow each other without a seam, so that all batches have the same size.

    Attributes:
        x: ``[examples, visible units]``, checked.
        y: ``[examples, classes]`` one-hot labels; ``None`` without labels.
        weights: ``[examples]`` sample weights with mean one.
        batch_size: examples in a batch.
        dtype: type of the batches.
    """

    x: np.ndarray
    y: np.ndarray | None
    weights: np.ndarray
    batch_size: int
    dtype: str

    @property
    def steps_per_epoch(self) -> int:
        return -(-len(self.x) // self.batch_size)

    @property
    def updates_per_epoch(self) -> int:
        return self.steps_per_epoch

    def first_batch_size(self) -> int:
        return self.batch_size

    def numbered(self, seed: int, first_epoch: int) -> tf.data.Dataset:
        """``(number, (x, y, weights))`` without end, from the given epoch on; the number is that of the update."""
        rows, size = len(self.x), self.batch_size
        first_update = first_epoch * self.steps_per_epoch

        def batches() -> Iterator[tuple[Any, ...]]:
            if size == rows:
                while True:
                    yield self._take(slice(None))
            blocks = index_blocks(rows, size, 1, seed, first_update, shuffle=True, endless=True)
            for block in blocks:
                yield self._take(block[0])

        spec = tuple(tf.TensorSpec([size, *a.shape[1:]], a.dtype) for a in self._take(slice(0, 1)))
        return tf.data.Dataset.from_generator(batches, output_signature=spec).enumerate(start=first_update)

    def _take(self, rows: Any) -> tuple[np.ndarray, ...]:
        x = self.x[rows].astype(self.dtype, copy=False)
        return x, np.zeros([len(x), 0], x.dtype) if self.y is None else self.y[rows], self.weights[rows]


@dataclasses.dataclass(frozen=True)
class DatasetStream:
    """Batches of the user's own data set, in its own order.

    Attributes:
        source: yields ``x``, ``(x, y)`` or ``(x, y, sample_weight)``.
        classes: number of labels; 0 without labels.
        steps_per_epoch: batches in an epoch; ``None`` for a pass over the data set.
        dtype: type of the batches.
    """

    source: tf.data.Dataset
    classes: int
    steps_per_epoch: int | None
    dtype: str

    @property
    def updates_per_epoch(self) -> int | None:
        """As far as it is known."""
        known = int(self.source.cardinality())
        return self.steps_per_epoch or (known if known > 0 else None)

    def first_batch_size(self) -> int:
        return int(tf.nest.flatten(next(iter(self.source.take(1))))[0].shape[0])

    def numbered(self, seed: int, first_epoch: int) -> tf.data.Dataset:
        """``(number, (x, y, weights))``, one pass; the number is random, another one at each pass."""

        @tf.autograph.experimental.do_not_convert  # plain TensorFlow already: conversion takes longer than tracing
        def bring(*data: Any) -> tuple[tf.Tensor, ...]:
            x, y, weights = keras.utils.unpack_x_y_sample_weight(data[0] if len(data) == 1 else data)
            x = tf.cast(x, self.dtype)
            rows = tf.shape(x)[0]
            weights = tf.ones([rows], self.dtype) if weights is None else tf.cast(weights, self.dtype)
            if not self.classes:
                return x, tf.zeros([rows, 0], self.dtype), weights
            if y is None:
                raise ValueError(
                    "The top layer has labels, so the data set must yield (x, y) or (x, y, sample_weight). "
                    "Received: no labels"
                )
            return x, one_hot_tensor(y, self.classes, self.dtype), weights

        numbers = tf.data.Dataset.random(seed=(seed + first_epoch) % 2**63, rerandomize_each_iteration=True)
        return tf.data.Dataset.zip(numbers, self.source.map(bring, num_parallel_calls=tf.data.AUTOTUNE))


def stream_of(
    x: Any,
    y: Any,
    sample_weight: Any,
    batch_size: int,
    steps_per_epoch: int | None,
    unit: Unit,
    width: int | None,
    classes: int,
    dtype: str,
) -> ArrayStream | DatasetStream:
    """The stream of what a user passed, checked as far as it can be before the first batch."""
    if isinstance(x, tf.data.Dataset):
        if y is not None or sample_weight is not None:
            raise ValueError(
                "`y` and `sample_weight` go with arrays; a data set yields (x, y, sample_weight). "
                "Received: a tf.data.Dataset with `y` or `sample_weight`"
            )
        return DatasetStream(x, classes, steps_per_epoch, dtype)
    if steps_per_epoch is not None:
        raise ValueError(
            f"`steps_per_epoch` goes with a tf.data.Dataset. Received: steps_per_epoch={steps_per_epoch!r}"
        )
    if isinstance(x, keras.utils.PyDataset | Iterator):
        raise ValueError(f"`x` must be an array or a tf.data.Dataset. Received: {type(x).__name__}")
    batch_size = check_integer("batch_size", batch_size)
    # The array keeps its own type, and batches are converted as they come: there is no second copy of the data.
    x = data_checks.check_visible(x, unit, width, dtype=np.asarray(x).dtype.name)
    weights = np.ones(len(x)) if sample_weight is None else data_checks.check_sample_weight(sample_weight, len(x))
    labels = None
    if classes:
        if y is None:
            raise ValueError(f"The top layer has {classes} labels: pass `y`. Received: y=None")
        labels = one_hot(y, classes, len(x), dtype)
    weights = (weights / weights.mean()).astype(dtype)
    return ArrayStream(x, labels, weights, min(int(batch_size), len(x)), dtype)


def inputs_of_layer(
    numbered: tf.data.Dataset, machines: Sequence[Machine], inputs: str, key: tf.Tensor, with_labels: bool
) -> tf.data.Dataset:
    """What a layer is trained on: batches of the data carried up through the layers below it.

    Args:
        numbered: ``(number, (x, y, weights))``.
        machines: the layers below, at their present parameters, which stay as they are in the result.
        inputs: ``"probabilities"`` or ``"samples"``: what each layer hands to the next.
        key: uint32 [2] for the samples; those of a batch depend on its number alone.
        with_labels: join the labels to the units.
    """

    @tf.autograph.experimental.do_not_convert
    def carry(number: tf.Tensor, batch: tuple[tf.Tensor, tf.Tensor, tf.Tensor]) -> tuple[tf.Tensor, ...]:
        x, y, weights = batch
        word = tf.bitwise.bitwise_and(number, tf.constant(2**32 - 1, tf.int64))
        uniforms = keyed_uniforms(subkey(key, word)) if inputs == "samples" else None
        states = pass_up(machines, x, uniforms)[-1]
        states = tf.concat([states, y], axis=-1) if with_labels else states
        return states, states[:, :1], weights

    return numbered.map(carry, num_parallel_calls=tf.data.AUTOTUNE)


def one_hot(labels: Any, classes: int, rows: int, dtype: str) -> np.ndarray:
    """Labels as ``[rows, classes]``, from class numbers or from what is one-hot (or probabilities) already."""
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


def one_hot_tensor(labels: tf.Tensor, classes: int, dtype: str) -> tf.Tensor:
    """`one_hot` of a batch of a data set."""
    labels = tf.convert_to_tensor(labels)
    if labels.shape.rank == 2 and labels.shape[1] == classes:
        return tf.cast(labels, dtype)
    numbers = tf.cast(tf.reshape(labels, [-1]), tf.int32)
    inside = tf.reduce_all((numbers >= 0) & (numbers < classes))
    check = tf.debugging.Assert(inside, [f"labels must be in 0 .. {classes - 1}. Received: ", numbers])
    with tf.control_dependencies([check] if check is not None else []):
        return tf.one_hot(numbers, classes, dtype=dtype)
