"""`tf.data`: batches checked in the pipeline, and stacked into blocks."""

from __future__ import annotations

import gc
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from tf_wcd import replicas
from tf_wcd.training.inputs.base import (
    MAX_BLOCK_BYTES,
    DataSpec,
    Feed,
    Input,
    as_triple,
    shape_of_batch,
    stacked_blocks,
)
from tf_wcd.training.inputs.conditions import condition_tensor
from tf_wcd.training.inputs.labels import one_hot_tensor
from tf_wcd.units import Unit

# Marks our own messages inside the errors of a pipeline, which wrap them in several lines.
_MARK = "tf_wcd: "


class DatasetInput(Input):
    """A `tf.data.Dataset` of batches ``x``, ``(x, y)`` or ``(x, y, sample_weight)``, in the order that it has.

    Args:
        dataset: the batches.
        spec: what the model takes.
        steps_per_epoch: batches in an epoch; ``None`` for a pass over the data set.
    """

    def __init__(self, dataset: tf.data.Dataset, spec: DataSpec, steps_per_epoch: int | None = None) -> None:
        self.source, self.steps_per_epoch = dataset, steps_per_epoch
        first = next(iter(dataset.take(1)), None)
        if first is None:
            raise ValueError("The data set is empty: at least one batch is needed. Received: 0 batches")
        x, y, _ = spec.unpack(first)
        self.batch_size, self.width = shape_of_batch(x)
        self.spec = spec.with_width(self.width)
        spec.require_beside(y)
        self._first = first

    @property
    def updates_per_epoch(self) -> int | None:
        known = int(self.source.cardinality())
        return self.steps_per_epoch or (known if known > 0 else None)

    def looked_at(self) -> np.ndarray:
        return np.asarray(self.spec.unpack(self._first)[0], "float64")

    def means(self) -> np.ndarray:
        x, y, _ = self.spec.unpack(self._first)
        rows = np.asarray(x, "float64")
        if self.spec.classes:
            labels, _ = one_hot_tensor(y, self.spec.classes, "float64", self.spec.missing)
            rows = np.concatenate([rows, labels], axis=1)
        elif self.spec.conditions:
            rows = np.concatenate([rows, np.asarray(condition_tensor(y, self.spec.conditions, "float64"))], axis=1)
        return self.spec.means(rows)

    def checked(self) -> tf.data.Dataset:
        """Batches ``(rows, weights)``, each checked as it comes."""
        return check_dataset(self.source, self.spec, self.width)

    def feed(self, model: Any) -> Feed:
        checked, updates = self.checked(), self.updates_per_epoch
        if model.distribute_strategy.num_replicas_in_sync > 1:
            if self.steps_per_epoch is None and updates is not None:
                checked = checked.repeat()
            return Feed(replicas.distributed(checked.map(as_triple), model.distribute_strategy), updates)
        per_call = model.updates_per_call(updates, self.batch_size)
        stacked = stacked_dataset(checked, per_call, self.batch_size, updates)
        if updates is not None and self.steps_per_epoch is None:
            # Keras counts the elements of what it is given: it gets the number of updates instead, pass by pass.
            stacked = stacked.repeat()
        return Feed(stacked, updates, blocks=stacked_blocks(per_call))

    def evaluation(self) -> dict[str, Any]:
        return {"x": self.checked().map(as_triple)}

    def numbered(self, seed: int, first_epoch: int) -> tf.data.Dataset:
        """``(number, rows, weights)``, one pass; the number is random, another one at each pass."""
        numbers = tf.data.Dataset.random(seed=(seed + first_epoch) % 2**63, rerandomize_each_iteration=True)
        plain = tf.autograph.experimental.do_not_convert
        return tf.data.Dataset.zip(numbers, self.checked()).map(plain(lambda number, batch: (number, *batch)))


def check_dataset(dataset: tf.data.Dataset, spec: DataSpec, width: int) -> tf.data.Dataset:
    """The pipeline with every batch checked as it comes, as ``(rows, weights)``: labels are joined to the columns.

    A bad batch raises `tf.errors.InvalidArgumentError` before any update that uses it; `with_readable_errors` makes a
    ValueError of it.
    """
    unit, dtype = spec.unit, spec.dtype

    @tf.autograph.experimental.do_not_convert  # plain TensorFlow already: conversion takes longer than tracing
    def check(position: tf.Tensor, *data: Any) -> tuple[tf.Tensor, tf.Tensor]:
        x, y, weights = spec.unpack(data[0] if len(data) == 1 else data)
        if isinstance(x, dict | tuple | list):
            raise ValueError(
                f"A data set for an RBM yields one tensor x, with labels or weights. Received: {type(x).__name__}"
            )
        if x.shape.rank != 2 or x.shape[1] not in (None, width):
            raise ValueError(
                f"Batches must have the shape [examples, {width}], one column for each visible unit; "
                "batch the data set first, and reshape images to rows, or make the layer with `visible_shape`. "
                f"Received: shape {x.shape}"
            )
        x = tf.cast(x, dtype)
        x.set_shape([x.shape[0], width])
        if weights is None:
            weights = tf.ones(tf.shape(x)[:1], dtype)
        weights = tf.reshape(tf.cast(weights, dtype), tf.shape(x)[:1])
        weights.set_shape(x.shape[:1])
        conditions = [*_conditions_of_rows(x, unit, spec.missing), *_conditions_of_weights(weights)]
        rows = x
        if spec.classes:
            labels, good = one_hot_tensor(y, spec.classes, dtype, spec.missing)
            conditions.append(
                Condition(
                    good,
                    f"labels must be in 0 .. {spec.classes - 1}, or one-hot",
                    lambda: [", minimum ", tf.reduce_min(y), ", maximum ", tf.reduce_max(y)],
                )
            )
            rows = tf.concat([x, labels], axis=1)
        elif spec.conditions:
            condition = condition_tensor(y, spec.conditions, dtype)
            finite, message = tf.math.is_finite(condition), "condition contains NaN or infinite values"
            conditions.append(Condition.of_entries(finite, condition, message))
            rows = tf.concat([x, condition], axis=1)
        with tf.control_dependencies([_all_hold(conditions, position)]):
            return tf.identity(rows), tf.identity(weights)

    return dataset.enumerate().map(check, num_parallel_calls=tf.data.AUTOTUNE)


def known_entries(x: tf.Tensor, unit: Unit) -> tuple[tf.Tensor, tf.Tensor]:
    """The rows of a batch with the middle of the range for NaN, and where a unit is unknown as its first column is."""
    unknown, columns = tf.math.is_nan(x), unit.describe_columns(x.shape[1])
    together = unknown == tf.gather(unknown, columns.first, axis=1)
    return tf.where(unknown, tf.constant(unit.midpoints(x.shape[1]), x.dtype), x), together


class Condition(NamedTuple):
    """What must hold of a batch.

    Attributes:
        good: whether it holds, of each row.
        message: what to say if not.
        details: pieces of what follows the number of the row, made only where it does not hold.
    """

    good: tf.Tensor
    message: str
    details: Callable[[], list[Any]] = list

    @classmethod
    def of_entries(
        cls, good: tf.Tensor, values: tf.Tensor, message: str, details: Callable[[], list[Any]] = list
    ) -> Condition:
        """What must hold of every entry of a matrix; the first one of which it does not is named."""

        def place() -> list[Any]:
            first = tf.argmin(tf.cast(tf.reshape(good, [-1]), tf.int32), output_type=tf.int32)
            return [", column ", first % values.shape[1], ": ", tf.reshape(values, [-1])[first], *details()]

        return cls(tf.reduce_all(good, axis=1), message, place)


def _conditions_of_rows(x: tf.Tensor, unit: Unit, missing: bool) -> list[Condition]:
    known, together = known_entries(x, unit) if missing else (x, None)
    conditions = [
        Condition(tf.shape(x)[:1] > 0, "the batch is empty"),
        Condition.of_entries(
            tf.math.is_finite(known), known, f"x contains {'' if missing else 'NaN or '}infinite values"
        ),
        Condition.of_entries(
            unit.accepts(known),
            known,
            f"x must be {unit.domain()} for '{unit.name}' visible units",
            lambda: [", minimum ", tf.reduce_min(known), ", maximum ", tf.reduce_max(known)],
        ),
    ]
    if together is not None:
        in_part = "x must be unknown (NaN) in all columns of a unit or in none"
        conditions.insert(2, Condition.of_entries(together, x, in_part))
    return conditions


def _conditions_of_weights(weights: tf.Tensor) -> list[Condition]:
    return [
        Condition(tf.math.is_finite(weights), "sample_weight contains NaN or infinite values"),
        Condition(weights >= 0, "sample_weight must not be negative", lambda: [", minimum ", tf.reduce_min(weights)]),
        Condition(tf.reduce_sum(weights)[None] > 0, "sample_weight is zero for every example of the batch"),
    ]


def _all_hold(conditions: Sequence[Condition], position: tf.Tensor) -> tf.Tensor:
    """True, or the error of the first condition that does not hold. What the errors say costs good batches nothing."""

    def complain() -> tf.Tensor:
        asserts: list[Any] = []
        for good, message, details in conditions:
            row = tf.reduce_sum(tf.cast(tf.math.cumsum(tf.cast(~good, tf.int32)) == 0, tf.int32))  # the first bad one
            with tf.control_dependencies(asserts):  # what is found in a batch is looked for where it is not empty
                where = [". Received: batch ", position, " of the data set, row ", row, " of the batch", *details()]
                asserts = [tf.debugging.Assert(tf.reduce_all(good), [_MARK, message, *where])]
        with tf.control_dependencies(asserts):
            return tf.constant(False)

    every = tf.reduce_all(tf.stack([tf.reduce_all(condition.good) for condition in conditions]))
    return tf.cond(every, lambda: tf.constant(True), complain)


def with_readable_errors(call: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """The result of a call, with the errors of our own checks inside a pipeline as ValueErrors.

    They are raised when TensorFlow's errors are gone, and with these the iterators in their tracebacks: one that reads
    a Python generator and lives on till the interpreter ends can wait for it there without end.
    """
    try:
        return call(*args, **kwargs)
    except tf.errors.InvalidArgumentError as error:
        message = _our_message(str(error))
        if message is None:
            raise
    gc.collect()  # tracebacks refer to themselves
    raise ValueError(message)


def _our_message(text: str) -> str | None:
    """Our message in the text of an error of a pipeline; ``None`` if the error is not one of ours."""
    if _MARK in text:
        # TensorFlow prints the pieces of the message as [piece] [piece] ... in one line.
        pieces = text[text.index(_MARK) :].splitlines()[0].rpartition("]")[0]
        return "".join(pieces.split("] [")[1:])
    if DataSpec.check_batch.__name__ in text:
        # Batches of Python are checked in Python, whose traceback TensorFlow prints; the last line is the error.
        errors = [line for line in text.splitlines() if line.startswith("ValueError: ")]
        return errors[-1].removeprefix("ValueError: ") if errors else None
    return None


def stacked_dataset(
    dataset: tf.data.Dataset, updates_per_block: int, batch_size: int, updates_per_epoch: int | None = None
) -> tf.data.Dataset:
    """Batches ``(x, weights)`` stacked into blocks ``(x, weights, updates)``, as large as memory allows, fetched ahead.

    Every epoch begins with a new block, see `index_blocks`. Batches of different sizes are in different blocks. A block
    with fewer updates than the others is padded to their shape, for which the training is compiled already; ``updates``
    says how many it has.

    Args:
        dataset: the batches.
        updates_per_block: most updates in a block.
        batch_size: examples in the first batch; others may be smaller.
        updates_per_epoch: updates after which an epoch ends; ``None`` if it ends with the data set.
    """
    x_spec = dataset.element_spec[0]
    batch_bytes = max(1, batch_size * x_spec.shape[1] * x_spec.dtype.size)
    most = max(1, min(updates_per_block, MAX_BLOCK_BYTES // batch_bytes, updates_per_epoch or updates_per_block))
    epoch = updates_per_epoch or most
    blocks = -(-epoch // most)

    def block_of(update: tf.Tensor, _: Any) -> tf.Tensor:
        return update // epoch * blocks + update % epoch // most

    def size_of(block: tf.Tensor) -> tf.Tensor:
        return tf.minimum(tf.constant(most, tf.int64), epoch - block % blocks * most)

    def rows_of(_: tf.Tensor, batch: tuple[tf.Tensor, tf.Tensor]) -> tf.Tensor:
        # Groups come in the order of their keys: larger batches first, as they came.
        return -tf.shape(batch[0], out_type=tf.int64)[0]

    plain = tf.autograph.experimental.do_not_convert

    def stack(_: tf.Tensor, same_block: tf.data.Dataset) -> tf.data.Dataset:
        if x_spec.shape[0] is not None:
            return same_block.batch(most)
        return same_block.group_by_window(plain(rows_of), plain(lambda _, same: same.batch(most)), window_size=most)

    def pad(*batches: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        updates = tf.shape(batches[0])[0]

        def padded() -> tuple[tf.Tensor, ...]:
            return tuple(tf.pad(a, [[0, most - updates], *[[0, 0]] * (a.shape.rank - 1)]) for a in batches)

        x, weights = tf.cond(updates < most, padded, lambda: batches)
        return tf.ensure_shape(x, [most, *x.shape[1:]]), tf.ensure_shape(weights, [most, *weights.shape[1:]]), updates

    if most == 1:  # quicker than windows of one
        return dataset.map(plain(lambda x, weights: (x[None], weights[None], 1))).prefetch(2)
    if x_spec.shape[0] is not None and updates_per_epoch is not None and epoch % most == 0:
        return dataset.batch(most).map(plain(pad)).prefetch(2)  # all blocks but the last are alike: nothing to sort
    windows = dataset.enumerate().group_by_window(plain(block_of), plain(stack), window_size_func=plain(size_of))
    return windows.map(plain(lambda _, batches: pad(*batches))).prefetch(2)
