"""`keras.utils.PyDataset`: batches checked as they come; Keras runs its workers."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np

from tf_wcd.tables import array_of
from tf_wcd.training.inputs.base import DataSpec, Feed, Input, shape_of_batch


class PyDatasetInput(Input):
    """A `PyDataset` of batches ``x``, ``(x, y)`` or ``(x, y, sample_weight)``.

    Args:
        dataset: the batches.
        spec: what the model takes.
        steps_per_epoch: batches in an epoch; ``None`` for a pass over the data set.
        shuffle: take the batches in another order at each pass.
    """

    def __init__(
        self,
        dataset: keras.utils.PyDataset,
        spec: DataSpec,
        steps_per_epoch: int | None = None,
        shuffle: bool = True,
    ) -> None:
        x, y, _ = spec.unpack(dataset[0])
        self.batch_size, self.width = shape_of_batch(x)
        self.spec = spec.with_width(self.width)
        spec.require_beside(y)
        self.checked, self._first = CheckedPyDataset(dataset, self.spec), x
        self.steps_per_epoch, self.shuffle = steps_per_epoch, shuffle

    @property
    def updates_per_epoch(self) -> int | None:
        return self.steps_per_epoch or self.checked.num_batches

    def looked_at(self) -> np.ndarray:
        return array_of(self._first)

    def means(self) -> np.ndarray:
        return self.spec.means(self.checked[0][0])

    def feed(self, model: Any) -> Feed:
        return Feed(self.checked, self.steps_per_epoch, shuffle=self.shuffle)

    def evaluation(self) -> dict[str, Any]:
        return {"x": self.checked}


class CheckedPyDataset(keras.utils.PyDataset):
    """A `PyDataset` with every batch checked as it comes, as ``(rows, anything, sample weights)``."""

    def __init__(self, source: keras.utils.PyDataset, spec: DataSpec) -> None:
        super().__init__(
            workers=source.workers, use_multiprocessing=source.use_multiprocessing, max_queue_size=source.max_queue_size
        )
        self._source, self._spec = source, spec

    @property
    def num_batches(self) -> int | None:
        return self._source.num_batches

    def __getitem__(self, index: int) -> tuple[Any, ...]:
        rows, weights = self._spec.check_batch(self._source[index], f"batch {index}")
        return rows, rows[:, :1], weights

    def on_epoch_begin(self) -> None:
        self._source.on_epoch_begin()

    def on_epoch_end(self) -> None:
        self._source.on_epoch_end()
