"""Many updates in one compiled call.

The data come in blocks, which hold the batches of several consecutive updates, stacked along the first axis: row
numbers of data that lie on the device already (arrays), or the batches themselves (`tf.data`). `BlockRunner` hands the
blocks to the compiled loop.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Protocol

import numpy as np
import tensorflow as tf

SECONDS_PER_CALL = 0.5


class Updating(Protocol):
    """What the loop needs of a model."""

    def next_update(self, rows: tf.Tensor, sample_weight: tf.Tensor) -> Any:
        """Computes the next update, with the next random numbers; no parameter changes."""

    def apply_update(self, update: Any) -> None:
        """Moves the parameters, and all state, one step."""

    def record(self, update: Any) -> dict[str, tf.Tensor]:
        """Puts the measures of an update into the metrics, and returns the logs."""


def run_updates(
    model: Updating, fetch: Callable[..., Any], block: Any, start: tf.Tensor, stop: tf.Tensor
) -> dict[str, tf.Tensor]:
    """The updates ``start .. stop - 1`` of a block; returns the logs.

    Args:
        model: what learns.
        fetch: ``fetch(block, i)``, see `tf_wcd.training.inputs.base.Blocks`.
        block: the data of several updates.
        start: number of the first update in the block.
        stop: number behind the last one.
    """

    def body(i: tf.Tensor) -> list[tf.Tensor]:
        model.apply_update(model.next_update(*fetch(block, i)))
        return [i + 1]

    # Measures are taken at the last update only: the others do no work for them.
    (last,) = tf.while_loop(lambda i: i < stop - 1, body, [start], parallel_iterations=1)
    update = model.next_update(*fetch(block, last))
    logs = model.record(update)
    model.apply_update(update)
    return logs


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
        compiled: makes ``run(block, start, stop)``, which does the updates ``start .. stop - 1`` of a block and returns
            the logs; asked at the first update, when callbacks have restored what they restore.
        updates_per_call: updates at each call.
        updates_per_epoch: updates in a Keras epoch; ``None`` if the length of the data set is not known.
        blocks: starts an iterator over the blocks, with a new one at the beginning of each epoch; asked at the first
            update, too. ``None`` if Keras' own iterator yields them, each with the number of its updates behind it.
    """

    def __init__(
        self,
        compiled: Callable[[], Callable[..., dict[str, Any]]],
        updates_per_call: int,
        updates_per_epoch: int | None,
        blocks: Callable[[], Iterator[np.ndarray]] | None = None,
    ) -> None:
        self._compiled = compiled
        self._run: Callable[..., dict[str, Any]] | None = None
        self._blocks = blocks
        self._source: Any = None
        self._updates_per_call = updates_per_call
        self._updates_per_epoch = updates_per_epoch
        self._left_in_epoch = updates_per_epoch
        self._iterator: Any = None
        self._block: Any = None
        self._start = self._length = 0

    def __call__(self, iterator: Any) -> dict[str, Any]:
        if self._run is None:
            self._run = self._compiled()
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
                self._start = self._length  # the next epoch begins with a new block
        return logs

    def _next_block(self) -> None:
        if self._blocks is None:
            *self._block, length = next(self._source)
            self._start, self._length = 0, int(length)
        else:
            self._block = next(self._source)
            self._start, self._length = 0, int(self._block.shape[0])
