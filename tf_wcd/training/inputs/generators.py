"""Python generators: batches checked as they come, each used once."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
import tensorflow as tf

from tf_wcd import replicas
from tf_wcd.tables import array_of
from tf_wcd.training.inputs.base import Blocks, DataSpec, Feed, Input, as_triple, shape_of_batch


class GeneratorInput(Input):
    """A generator of batches ``x``, ``(x, y)`` or ``(x, y, sample_weight)``.

    Args:
        generator: the batches.
        spec: what the model takes.
        steps_per_epoch: batches in an epoch; ``None`` for all of them.
    """

    def __init__(self, generator: Iterator[Any], spec: DataSpec, steps_per_epoch: int | None = None) -> None:
        first = next(generator, None)
        if first is None:
            raise ValueError("The generator is empty: at least one batch is needed.")
        x, y, _ = spec.unpack(first)
        self.steps_per_epoch = steps_per_epoch
        self.batch_size, self.width = shape_of_batch(x)
        self.spec = spec.with_width(self.width)
        spec.require_beside(y)
        self._first, self._batches = first, itertools.chain([first], generator)

    @property
    def updates_per_epoch(self) -> int | None:
        return self.steps_per_epoch

    def looked_at(self) -> np.ndarray:
        return array_of(self.spec.unpack(self._first)[0])

    def means(self) -> np.ndarray:
        return self.spec.means(self.spec.check_batch(self._first, "batch 0")[0])

    def checked(self) -> tf.data.Dataset:
        """Batches ``(rows, weights)``, each checked as it comes."""

        def check() -> Iterator[tuple[np.ndarray, np.ndarray]]:
            for index, batch in enumerate(self._batches):
                yield self.spec.check_batch(batch, f"batch {index}")

        spec = (
            tf.TensorSpec([None, self.width + self.spec.beside], self.spec.dtype),
            tf.TensorSpec([None], self.spec.dtype),
        )
        return tf.data.Dataset.from_generator(check, output_signature=spec)

    def feed(self, model: Any) -> Feed:
        updates = self.steps_per_epoch
        if model.distribute_strategy.num_replicas_in_sync > 1:
            return Feed(replicas.distributed(self.checked().map(as_triple), model.distribute_strategy), updates)
        # One update in a call, and nothing fetched ahead: a batch that is drawn is used.
        one = tf.autograph.experimental.do_not_convert(lambda rows, weights: (rows[None], weights[None], 1))
        blocks = Blocks(1, lambda block, i: (block[0][i], block[1][i]), "stacked")
        return Feed(self.checked().map(one), updates, blocks=blocks)

    def evaluation(self) -> dict[str, Any]:
        return {"x": self.checked().map(as_triple)}
