"""The kinds of data that models train on, one module for each."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import keras
import tensorflow as tf

from tf_wcd.training.inputs.arrays import ArrayInput
from tf_wcd.training.inputs.base import DataSpec, Feed, Input
from tf_wcd.training.inputs.datasets import DatasetInput, with_readable_errors
from tf_wcd.training.inputs.generators import GeneratorInput
from tf_wcd.training.inputs.py_datasets import PyDatasetInput

__all__ = [
    "ArrayInput",
    "DataSpec",
    "DatasetInput",
    "Feed",
    "GeneratorInput",
    "Input",
    "PyDatasetInput",
    "input_of",
    "is_stream",
    "with_readable_errors",
]


def is_stream(x: Any) -> bool:
    """Whether batches come with their labels and weights: from anything but an array."""
    return isinstance(x, tf.data.Dataset | keras.utils.PyDataset | Iterator)


def input_of(
    x: Any,
    y: Any,
    sample_weight: Any,
    spec: DataSpec,
    batch_size: int | None = None,
    steps_per_epoch: int | None = None,
    shuffle: bool = True,
) -> Input:
    """The data of the kind that the user passed.

    Args:
        x: an array, a `tf.data.Dataset`, a `keras.utils.PyDataset` or a generator.
        y: labels of an array.
        sample_weight: weights of an array's examples.
        spec: what the model takes.
        batch_size: examples in a batch of an array.
        steps_per_epoch: updates in an epoch.
        shuffle: take examples, or batches of a `PyDataset`, in another order at each pass.
    """
    for name, value in (("y", y), ("sample_weight", sample_weight)):
        if is_stream(x) and value is not None:
            raise ValueError(
                f"`{name}` goes with arrays; a data set yields (x, y, sample_weight). "
                f"Received: x of type {type(x).__name__} and `{name}`"
            )
    if isinstance(x, tf.data.Dataset):
        return DatasetInput(x, spec, steps_per_epoch)
    if isinstance(x, keras.utils.PyDataset):
        return PyDatasetInput(x, spec, steps_per_epoch, shuffle)
    if isinstance(x, Iterator):
        return GeneratorInput(x, spec, steps_per_epoch)
    return ArrayInput(x, y, sample_weight, spec, batch_size, steps_per_epoch, shuffle)
