"""Arrays: kept on the device, shuffled by row numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import tensorflow as tf

from tf_wcd import replicas
from tf_wcd.data_checks import check_sample_weight, check_visible
from tf_wcd.shapes import with_shape
from tf_wcd.tables import table_of
from tf_wcd.training.inputs.base import MAX_BLOCK_BYTES, Blocks, DataSpec, Feed, Input, as_triple, stacked_blocks
from tf_wcd.training.inputs.conditions import pair_of

DEFAULT_BATCH_SIZE = 32
MAX_RESIDENT_BYTES = 2**31  # larger data are not put on the device as a whole
ROWS_AT_A_TIME = 2**14


class ArrayInput(Input):
    """Arrays of examples, labels and weights.

    Args:
        x: ``[examples, visible units]``; ``[x, condition]`` where the model takes a condition.
        y: labels, where the model takes any; else ``None``.
        sample_weight: ``[examples]``; equal if not given.
        spec: what the model takes.
        batch_size: examples in a batch, 32 if not given, at most all.
        steps_per_epoch: updates in an epoch: then the passes over the data follow each other without end, and all
            batches are full. Without it an epoch is one pass, which ends with a smaller batch if the batch size does
            not divide the examples.
        shuffle: take the examples in another order at each pass.
    """

    def __init__(
        self,
        x: Any,
        y: Any,
        sample_weight: Any,
        spec: DataSpec,
        batch_size: int | None = None,
        steps_per_epoch: int | None = None,
        shuffle: bool = True,
    ) -> None:
        spec.refuse_labels(y)
        beside, self.condition_names = y, None
        if spec.conditions:
            x, beside = pair_of(x, spec.conditions)
            beside = table_of(beside, "condition")
            self.condition_names = beside.names
        # The arrays keep their type, and batches are converted as they come: there is no second copy of the data.
        table = table_of(x)
        self.names = table.names
        self.x = check_visible(table, spec.unit, spec.width, dtype=None, names=spec.names, **spec.options)
        rows = len(self.x)
        self.spec = spec.with_width(self.x.shape[1])
        self.beside = spec.checked_beside(beside, rows) if spec.beside else None
        self.weights = np.ones(rows) if sample_weight is None else check_sample_weight(sample_weight, rows)
        self.batch_size = min(int(batch_size or DEFAULT_BATCH_SIZE), rows)
        self.width = self.x.shape[1]
        self.steps_per_epoch, self.shuffle = steps_per_epoch, shuffle

    def split(self, validation_split: float) -> tuple[ArrayInput, tuple[Any, ...]]:
        """The first part of the examples, and the rest as validation data."""
        rows = len(self.x)
        first = int(rows * (1 - validation_split))
        if not 0 < validation_split < 1 or not 0 < first < rows:
            raise ValueError(
                f"`validation_split` must leave examples on both sides. Received: {validation_split} of {rows} examples"
            )
        for part, own in (("training", self.weights[:first]), ("validation", self.weights[first:])):
            check_sample_weight(own, len(own), f"sample_weight of the {part} part")
        x, y, weights = (
            (None, None) if a is None else (a[:first], a[first:]) for a in (self.x, self.beside, self.weights)
        )
        parts = [self.spec.packed(x[i], y[i], weights[i]) for i in (0, 1)]
        training = ArrayInput(*parts[0], self.spec, self.batch_size, self.steps_per_epoch, self.shuffle)
        training.names, training.condition_names = self.names, self.condition_names
        return training, parts[1]

    @property
    def updates_per_epoch(self) -> int:
        return self.steps_per_epoch or -(-len(self.x) // self.batch_size)

    def looked_at(self) -> np.ndarray:
        return self.x

    def means(self) -> np.ndarray:
        if self.spec.missing:
            return self.spec.means(self.rows(), self.weights)
        total = np.zeros(self.width + self.spec.beside)
        for start in range(0, len(self.x), ROWS_AT_A_TIME):
            chunk = slice(start, start + ROWS_AT_A_TIME)
            total += self.weights[chunk].astype(self.spec.dtype) @ self.rows(chunk)
        return total / self.weights.sum()

    def rows(self, chosen: Any = slice(None)) -> np.ndarray:
        """The chosen examples, with their labels or their condition, in the model's type; a copy."""
        x = self.x[chosen].astype(self.spec.dtype)
        return x if self.beside is None else np.concatenate([x, self.beside[chosen]], axis=1)

    def scaled_weights(self) -> np.ndarray:
        """The sample weights, rescaled to mean one."""
        return (self.weights / self.weights.mean()).astype(self.spec.dtype)

    def feed(self, model: Any) -> Feed:
        seed, updates = int(model.seed_generator.state.numpy()[0]), self.updates_per_epoch

        def blocks(updates_per_block: int) -> Iterator[np.ndarray]:
            return index_blocks(
                rows=len(self.x),
                batch_size=self.batch_size,
                updates_per_block=updates_per_block,
                seed=seed,
                first_update=model.first_update,
                shuffle=self.shuffle,
                endless=self.steps_per_epoch is not None,
                updates_per_epoch=updates,
            )

        if model.distribute_strategy.num_replicas_in_sync > 1:
            batches = self.batches(lambda: blocks(1)).map(as_triple)
            return Feed(replicas.distributed(batches, model.distribute_strategy), updates)
        per_call = model.updates_per_call(updates, self.batch_size)
        row_bytes = (self.width + self.spec.beside) * np.dtype(self.spec.dtype).itemsize
        if len(self.x) * row_bytes > MAX_RESIDENT_BYTES:
            most = max(1, min(per_call, MAX_BLOCK_BYTES // (self.batch_size * row_bytes)))
            return Feed(self.stacked(lambda: blocks(most)), updates, blocks=stacked_blocks(per_call))
        resident = model.resident_data(self.width + self.spec.beside)
        resident.fill(self.rows(), self.scaled_weights())
        whole = len(self.x) if self.batch_size == len(self.x) else None
        source = Blocks(
            updates_per_call=per_call,
            fetch=resident.fetch(whole),
            kind=("resident", whole),
            start=lambda: blocks(per_call),
            variables=(resident.visible, resident.weights),
        )
        return Feed(ticks(), updates, blocks=source, close=resident.clear)

    def stacked(self, blocks: Callable[[], Iterator[np.ndarray]]) -> tf.data.Dataset:
        """Blocks ``(rows, weights, updates)`` in the order of blocks of row numbers, fetched ahead.

        They are cut from the arrays as they are needed: the device holds a few of them and never all of the data.
        """
        weights = self.scaled_weights()
        whole = np.arange(len(self.x))

        def generate() -> Iterator[tuple[Any, ...]]:
            for block in blocks():
                chosen = block if block.shape[1] else np.tile(whole, [len(block), 1])
                rows = self.rows(chosen.ravel())
                yield rows.reshape(*chosen.shape, -1), weights[chosen], np.int32(len(block))

        dtype, width = self.spec.dtype, self.width + self.spec.beside
        shapes = (
            tf.TensorSpec([None, None, width], dtype),
            tf.TensorSpec([None, None], dtype),
            tf.TensorSpec([], "int32"),
        )
        return tf.data.Dataset.from_generator(generate, output_signature=shapes).prefetch(1)

    def batches(self, blocks: Callable[[], Iterator[np.ndarray]]) -> tf.data.Dataset:
        """Batches ``(rows, weights)`` in the order of blocks of one update each, see `index_blocks`."""
        weights = self.scaled_weights()
        return row_batches(lambda chosen: (self.rows(chosen), weights[chosen]), blocks)

    def evaluation(self) -> dict[str, Any]:
        rows = self.rows()
        weights = self.weights.astype(self.spec.dtype)
        return {"x": rows, "y": rows[:, :1], "sample_weight": weights, "batch_size": self.batch_size}

    def numbered(self, seed: int, first_epoch: int) -> tf.data.Dataset:
        """``(number, rows, weights)`` without end, from the given epoch on; the number is that of the update."""
        first, size = first_epoch * self.updates_per_epoch, self.batch_size

        def blocks() -> Iterator[np.ndarray]:
            return index_blocks(len(self.x), size, 1, seed, first, shuffle=True, endless=True)

        numbered = self.batches(blocks).enumerate(start=first)
        plain = tf.autograph.experimental.do_not_convert

        def full(number: tf.Tensor, batch: tuple[tf.Tensor, tf.Tensor]) -> tuple[tf.Tensor, ...]:
            rows, weights = batch
            return number, tf.ensure_shape(rows, [size, rows.shape[1]]), tf.ensure_shape(weights, [size])

        return numbered.map(plain(full))


class ResidentData:
    """Arrays kept on the device during `fit`, reachable from a compiled function without being part of it."""

    def __init__(self, width: int, dtype: str) -> None:
        self.visible = tf.Variable(np.zeros([0, width], dtype), trainable=False, shape=[None, width])
        self.weights = tf.Variable(np.zeros([0], dtype), trainable=False, shape=[None])

    def fill(self, visible: np.ndarray, weights: np.ndarray) -> None:
        """Puts the data there."""
        self.visible.assign(visible)
        self.weights.assign(weights)

    def fetch(self, whole: int | None) -> Callable[[tf.Tensor, tf.Tensor], tuple[tf.Tensor, tf.Tensor]]:
        """Rows and weights of an update, by the row numbers of a block; see `Blocks`.

        Args:
            whole: number of rows, where each batch is all of them; ``None`` otherwise.
        """

        def chosen(block: tf.Tensor, i: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
            if whole is None:
                return tf.gather(self.visible, block[i]), tf.gather(self.weights, block[i])
            width = self.visible.shape[1]
            return with_shape(self.visible, [whole, width]), with_shape(self.weights, [whole])

        return chosen

    def clear(self) -> None:
        """Gives the memory back."""
        self.fill(self.visible[:0], self.weights[:0])


def ticks() -> tf.data.Dataset:
    """A data set without end or content, for Keras to count its steps by where the blocks come from elsewhere."""
    return tf.data.Dataset.from_tensors(0).repeat()


def row_batches(
    take: Callable[[Any], tuple[np.ndarray, ...]], blocks: Callable[[], Iterator[np.ndarray]]
) -> tf.data.Dataset:
    """Batches of arrays' rows in the order of blocks of one update each.

    Args:
        take: ``take(chosen)`` gives the chosen rows of each array.
        blocks: starts an iterator over blocks, see `index_blocks`.
    """

    def generate() -> Iterator[tuple[np.ndarray, ...]]:
        for block in blocks():
            rows = take(block[0] if block.shape[1] else slice(None))
            # Copies always: TensorFlow may compute in the memory of arrays that it is handed.
            yield tuple(array.copy() if array.base is not None else array for array in rows)

    spec = tuple(tf.TensorSpec([None, *array.shape[1:]], array.dtype) for array in take(slice(0, 1)))
    return tf.data.Dataset.from_generator(generate, output_signature=spec).prefetch(2)


def index_blocks(
    rows: int,
    batch_size: int,
    updates_per_block: int,
    seed: int,
    first_update: int,
    shuffle: bool,
    endless: bool,
    updates_per_epoch: int | None = None,
) -> Iterator[np.ndarray]:
    """Blocks of row numbers, int32 ``[updates, batch]``, without end: a pure function of the seed and the first update.

    Each pass over the data takes the rows in another order. With ``endless`` the passes follow each other without
    a seam and all batches are full; otherwise each pass ends with a smaller batch if the batch size does not divide the
    rows.

    Every epoch of ``updates_per_epoch`` begins with a new block, so that a run that goes on at an epoch gets the blocks
    that it would have got: the last update of a compiled call is rounded in another way than the others. What the last
    block of an epoch has too much comes again.

    A batch of the whole data needs no order: its row numbers are left out (``[updates, 0]``).
    """
    if batch_size == rows:
        while True:
            yield np.zeros([updates_per_block, 0], "int32")

    def order(number: int) -> np.ndarray:
        if not shuffle:
            return np.arange(rows, dtype="int32")
        return np.random.Generator(np.random.Philox(key=[seed, number])).permutation(rows).astype("int32")

    if endless:
        number, offset = divmod(first_update * batch_size, rows)
        pending = order(number)[offset:]
        need = updates_per_block * batch_size
        left = updates_per_epoch
        while True:
            parts = [pending]
            while sum(map(len, parts)) < need:
                number += 1
                parts.append(order(number))
            stream = np.concatenate(parts)
            yield stream[:need].reshape(updates_per_block, batch_size)
            used = updates_per_block
            if left is not None:
                used = min(left, used)
                left = left - used or updates_per_epoch
            pending = stream[used * batch_size :]

    full, rest = divmod(rows, batch_size)
    number = -(-first_update // (full + bool(rest)))
    while True:
        stream = order(number)
        batches = stream[: full * batch_size].reshape(full, batch_size)
        for start in range(0, full, updates_per_block):
            yield batches[start : start + updates_per_block]
        if rest:
            yield stream[-rest:].reshape(1, rest)
        number += 1
