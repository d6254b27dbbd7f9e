"""Python generators: batches checked as they come, each used once."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import keras
import numpy as np

from tf_wcd.training.inputs.base import DataSpec, Feed, Input, shape_of_batch


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
        x, y, _ = keras.utils.unpack_x_y_sample_weight(first)
        self.updates = steps_per_epoch
        self.batch_size, self.width = shape_of_batch(x)
        self.spec = spec.with_width(self.width)
        spec.require_labels(y)
        self._first, self._rest = first, generator

    @property
    def updates_per_epoch(self) -> int | None:
        return self.updates

    def means(self) -> np.ndarray:
        data = keras.utils.unpack_x_y_sample_weight(self._first)
        return self.spec.check_batch(*data, "batch 0")[0].mean(0, dtype="float64")

    def checked(self) -> Iterator[tuple[Any, ...]]:
        """Batches ``(rows, anything, sample weights)``."""
        for index, batch in enumerate(itertools.chain([self._first], self._rest)):
            rows, weights = self.spec.check_batch(*keras.utils.unpack_x_y_sample_weight(batch), f"batch {index}")
            yield rows, rows[:, :1], weights

    def feed(self, model: Any) -> Feed:
        return Feed(self.checked(), self.updates)

    def evaluation(self) -> dict[str, Any]:
        return {"x": self.checked()}
