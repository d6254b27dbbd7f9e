"""Many updates in one compiled call: the data come in blocks of whole updates.

A block holds the batches of several consecutive updates, stacked along its first axis: row numbers of data that lie on
the device already (arrays), or the batches themselves (`tf.data`). `BlockRunner` hands blocks to a compiled loop.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import tensorflow as tf

MAX_STACK_BYTES = 2**26
SECONDS_PER_CALL = 0.5


class ResidentData:
    """Arrays kept on the device during `fit`, reachable from a compiled function without being part of it."""

    def __init__(self, width: int, dtype: str) -> None:
        self.visible = tf.Variable(np.zeros([0, width], dtype), trainable=False, shape=[None, width])
        self.weights = tf.Variable(np.zeros([0], dtype), trainable=False, shape=[None])

    def fill(self, visible: np.ndarray, weights: np.ndarray) -> None:
        self.visible.assign(visible)
        self.weights.assign(weights)

    def clear(self) -> None:
        self.fill(self.visible[:0], self.weights[:0])


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

    Each pass over the data takes the rows in an order of its own. With ``endless`` the passes follow each other without
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


def ticks() -> tf.data.Dataset:
    """A data set without end or content, for Keras to count its steps by where the blocks come from elsewhere."""
    return tf.data.Dataset.from_tensors(0).repeat()


def row_batches(x: np.ndarray, y: np.ndarray, blocks: Callable[[], Iterator[np.ndarray]]) -> tf.data.Dataset:
    """Batches of two arrays' rows in the order of blocks of one update each, see `index_blocks`."""

    def batches() -> Iterator[tuple[np.ndarray, np.ndarray]]:
        for block in blocks():
            # Copies always: TensorFlow may compute in the memory of arrays that it is handed.
            yield (x[block[0]], y[block[0]]) if block.shape[1] else (x.copy(), y.copy())

    spec = tuple(tf.TensorSpec([None, *a.shape[1:]], a.dtype) for a in (x, y))
    return tf.data.Dataset.from_generator(batches, output_signature=spec).prefetch(2)


def stacked_dataset(
    dataset: tf.data.Dataset, updates_per_block: int, batch_size: int, updates_per_epoch: int | None = None
) -> tf.data.Dataset:
    """Batches ``(x, weights)`` stacked into blocks ``(x, weights, updates)``, as large as memory allows, fetched ahead.

    Every epoch begins with a new block, see `index_blocks`. Batches of different sizes are in blocks of their own. A
    block with fewer updates than the others is filled up to their shape, for which the training is compiled already;
    ``updates`` says how many it has.

    Args:
        dataset: the batches.
        updates_per_block: most updates in a block.
        batch_size: examples in the first batch; others may be smaller.
        updates_per_epoch: updates after which an epoch ends; ``None`` if it ends with the data set.
    """
    x_spec = dataset.element_spec[0]
    batch_bytes = max(1, batch_size * x_spec.shape[1] * x_spec.dtype.size)
    most = max(1, min(updates_per_block, MAX_STACK_BYTES // batch_bytes, updates_per_epoch or updates_per_block))
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

    def fill_up(numbers: tf.Tensor, batches: tuple[tf.Tensor, tf.Tensor]) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        updates = tf.size(numbers)
        x, weights = (tf.pad(a, [[0, most - updates], *[[0, 0]] * (a.shape.rank - 1)]) for a in batches)
        return tf.ensure_shape(x, [most, *x.shape[1:]]), tf.ensure_shape(weights, [most, *weights.shape[1:]]), updates

    if most == 1:  # quicker than windows of one
        return dataset.map(plain(lambda x, weights: (x[None], weights[None], 1))).prefetch(2)
    windows = dataset.enumerate().group_by_window(plain(block_of), plain(stack), window_size_func=plain(size_of))
    return windows.map(plain(fill_up)).prefetch(2)


def automatic_updates_per_call(updates_per_epoch: int | None, flops_per_update: float) -> int:
    """Updates per compiled call: about half a second's worth, and if possible a divisor of an epoch's.

    Example:

    >>> automatic_updates_per_call(2000, 1e5)
    2000
    >>> automatic_updates_per_call(600, 4e8)
    120
    """
    # A rough guess of the time of an update on two CPU cores is enough: an order of magnitude matters, a factor does
    # not.
    seconds = 2e-5 + flops_per_update / 1e11
    limit = max(1, int(SECONDS_PER_CALL / seconds))
    if updates_per_epoch is None:
        return min(limit, 100)
    if updates_per_epoch <= limit:
        return updates_per_epoch
    return next(n for n in range(limit, 0, -1) if updates_per_epoch % n == 0 or n <= limit // 2)


class BlockRunner:
    """Draws blocks and runs their updates, so many at each call as Keras counts.

    Args:
        run: ``run(block, start, stop)`` does the updates ``start .. stop - 1`` of a block and returns the logs.
        updates_per_call: updates at each call.
        updates_per_epoch: updates in a Keras epoch; ``None`` if the length of the data set is not known.
        blocks: starts an iterator over the blocks, with a new one at the beginning of each epoch; asked at the first
            update, when callbacks have restored what they restore. ``None`` if Keras' own iterator yields them, each
            with the number of its updates behind it.
    """

    def __init__(
        self,
        run: Callable[..., dict[str, Any]],
        updates_per_call: int,
        updates_per_epoch: int | None,
        blocks: Callable[[], Iterator[np.ndarray]] | None = None,
    ) -> None:
        self._run = run
        self._blocks = blocks
        self._source: Any = None
        self._updates_per_call = updates_per_call
        self._updates_per_epoch = updates_per_epoch
        self._left_in_epoch = updates_per_epoch
        self._iterator: Any = None
        self._block: Any = None
        self._start = self._length = 0

    def __call__(self, iterator: Any) -> dict[str, Any]:
        if iterator is not self._iterator:
            self._iterator, self._start, self._length = iterator, 0, 0
            self._source = iterator if self._blocks is None else map(tf.constant, self._blocks())
            self._left_in_epoch = self._updates_per_epoch
        quota = (
            self._updates_per_call if self._left_in_epoch is None else min(self._updates_per_call, self._left_in_epoch)
        )
        logs: dict[str, Any] = {}
        done = 0
        while done < quota:
            if self._start == self._length:
                try:
                    self._next_block()
                except StopIteration:
                    if done:
                        break
                    raise
            stop = min(self._length, self._start + quota - done)
            logs = self._run(self._block, tf.constant(self._start), tf.constant(stop))
            done += stop - self._start
            self._start = stop
        if self._left_in_epoch is not None:
            self._left_in_epoch -= done
            if self._left_in_epoch == 0:
                self._left_in_epoch = self._updates_per_epoch
                self._start = self._length  # the next epoch begins with a block of its own
        return logs

    def _next_block(self) -> None:
        if self._blocks is None:
            *self._block, length = next(self._source)
            self._start, self._length = 0, int(length)
        else:
            self._block = next(self._source)
            self._start, self._length = 0, int(self._block.shape[0])
