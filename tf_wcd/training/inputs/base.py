"""What the four kinds of training data have in common."""

from __future__ import annotations

import abc
import dataclasses
from collections.abc import Callable, Hashable, Iterator
from typing import Any, NamedTuple

import keras
import numpy as np
import tensorflow as tf

from tf_wcd.data_checks import check_sample_weight, check_visible, known_means
from tf_wcd.images import Shape, as_rows
from tf_wcd.tables import array_of, is_table
from tf_wcd.training.inputs.conditions import check_condition, pair_of
from tf_wcd.training.inputs.labels import one_hot
from tf_wcd.units import Unit
from tf_wcd.units.labelled import with_labels

MAX_BLOCK_BYTES = 2**26  # of batches that are stacked


@dataclasses.dataclass(frozen=True)
class DataSpec:
    """What a model takes as data.

    Attributes:
        unit: type of the visible units.
        width: their number of columns; ``None`` before the model is built.
        classes: number of labels that come as ``y`` and are joined to the columns; 0 without labels.
        dtype: type of the batches.
        names: names of the columns, where the model was trained on a frame.
        missing: whether entries may be unknown, NaN.
        conditions: number of columns of the condition of a conditional RBM; 0 without conditions.
        condition_names: names of these columns, where the model was trained on a frame.
        shape: shape of an example, where the model takes images; ``None`` for rows alone.
    """

    unit: Unit
    width: int | None
    classes: int
    dtype: str
    names: Any = None
    missing: bool = False
    conditions: int = 0
    condition_names: Any = None
    shape: Shape = None

    @property
    def beside(self) -> int:
        """Columns of a row beside those of the data: of the label, or of the condition."""
        return self.classes + self.conditions

    @property
    def options(self) -> dict[str, Any]:
        """What `check_visible` is told of unknown entries and of images."""
        return {"missing": self.missing, "shape": self.shape}

    def with_width(self, width: int) -> DataSpec:
        """The same for data of so many columns.

        Raises:
            ValueError: if the model takes another number of columns.
        """
        if self.width not in (None, width):
            raise ValueError(
                f"`x` must have {self.width} columns, one for each visible unit. Received: {width} columns"
            )
        self.unit.check_columns(width)
        return dataclasses.replace(self, width=width)

    def unpack(self, data: Any) -> tuple[Any, Any, Any]:
        """``x`` as rows, what stands beside it (labels, or the condition; ``None`` if nothing does) and sample weights.

        Args:
            data: ``x``, ``(x, y)`` or ``(x, y, sample_weight)``. In the place of ``y`` may be the condition, unless
                ``x`` is a pair ``[x, condition]`` itself.
        """
        x, y, weights = keras.utils.unpack_x_y_sample_weight(data)
        if self.conditions and isinstance(x, list | tuple):
            if y is not None:
                raise ValueError(f"`y` has no use beside [x, condition]. Received: y of the type {type(y).__name__}")
            x, y = pair_of(x, self.conditions)
        return as_rows(x, self.shape) if hasattr(x, "shape") else x, y, weights

    def packed(self, x: Any, beside: Any, weights: Any) -> tuple[Any, Any, Any]:
        """``(x, y, sample_weight)`` as `fit` takes them: the inverse of `unpack`."""
        return ([x, beside], None, weights) if self.conditions else (x, beside, weights)

    def check_batch(self, data: Any, where: str) -> tuple[np.ndarray, np.ndarray]:
        """A batch, see `unpack`, as rows ``[n, width + beside]`` and weights."""
        x, y, weights = self.unpack(data)
        what = f"x of {where}"
        x = check_visible(x, self.unit, self.width, what, self.dtype, names=self.names, **self.options)
        if weights is None:
            checked = np.ones(len(x), self.dtype)
        else:
            checked = check_sample_weight(weights, len(x)).astype(self.dtype)
        return self.joined(x, y, f" of {where}"), checked

    def joined(self, x: np.ndarray, y: Any, where: str = "") -> np.ndarray:
        """The rows with their labels in one-hot coding, or their condition, where the model takes any."""
        if not self.beside:
            return x
        return np.concatenate([x, self.checked_beside(y, len(x), where)], axis=1)

    def checked_beside(self, y: Any, rows: int, where: str = "") -> np.ndarray:
        """Labels in one-hot coding, or a condition, ``[rows, beside]``; ``where`` is for messages."""
        self.require_beside(y)
        if self.conditions:
            what, names = f"condition{where}", self.condition_names
            return check_condition(y, self.conditions, self.dtype, rows, what, names)
        return self.one_hot(y, rows, f"Labels{where}")

    def one_hot(self, y: Any, rows: int, what: str = "Labels") -> np.ndarray:
        """Labels in one-hot coding; NaN stands for an unknown one where entries may be unknown."""
        return one_hot(y, self.classes, rows, self.dtype, what, self.missing)

    def means(self, rows: np.ndarray, weights: np.ndarray | None = None) -> np.ndarray:
        """Means over the known entries of rows with their labels, float64.

        Args:
            rows: ``[n, width + beside]``.
            weights: ``[n]``; equal if not given.
        """
        return known_means(rows, with_labels(self.unit, self.classes) if self.classes else self.unit, weights)

    def require_beside(self, y: Any) -> None:
        """Raises ValueError where the model takes labels or a condition, and there are none."""
        if self.conditions and y is None:
            raise ValueError(
                f"The layer has {self.conditions} condition{'s' * (self.conditions > 1)}: pass `[x, condition]`. "
                "Received: no condition"
            )
        if self.classes and y is None:
            raise ValueError(f"The model has {self.classes} labels: pass `y`. Received: no labels")

    def refuse_labels(self, y: Any) -> None:
        """Raises ValueError where labels were passed and the model takes none."""
        if self.conditions and y is not None:
            raise ValueError(
                "`y` has no use: pass the condition beside the data, `fit([x, condition])`. "
                f"Received: y of the type {type(y).__name__}"
            )
        if not self.classes and y is not None:
            raise ValueError(
                "`y` has no use: the model has no labels. Leave it out, or make the layer with "
                "`RBMLayer(..., classes=...)`; in pipelines of scikit-learn use `tf_wcd.sklearn.RBMTransformer`. "
                f"Received: y of the type {type(y).__name__}"
            )


class Blocks(NamedTuple):
    """The data of the compiled loop: blocks, each of which holds the batches of several consecutive updates.

    Attributes:
        updates_per_call: updates in a call of the compiled loop.
        fetch: ``fetch(block, i)`` gives the rows and sample weights of update i of a block, inside the loop.
        kind: equal for functions ``fetch`` that are the same, so that the loop is compiled once for them.
        start: starts an iterator over the blocks, with a new one at the beginning of each epoch; ``None`` if the data
            set of the feed yields them, each with the number of its updates behind it.
        variables: those that ``fetch`` reads.
    """

    updates_per_call: int
    fetch: Callable[[Any, tf.Tensor], tuple[tf.Tensor, tf.Tensor]]
    kind: Hashable
    start: Callable[[], Iterator[np.ndarray]] | None = None
    variables: tuple[tf.Variable, ...] = ()


class Feed(NamedTuple):
    """How Keras' `fit` is run.

    Attributes:
        dataset: what Keras is given as data.
        steps_per_epoch: updates in an epoch, as Keras counts them; ``None`` for a pass over the data set.
        shuffle: whether Keras shuffles.
        blocks: how the compiled loop gets its data; ``None`` where Keras runs step by step.
        close: called when the training ends.
    """

    dataset: Any
    steps_per_epoch: int | None
    shuffle: bool = False
    blocks: Blocks | None = None
    close: Callable[[], None] = lambda: None


class Input(abc.ABC):
    """Data of one kind, checked as far as it can be before the first update.

    Attributes:
        spec: what the model takes.
        batch_size: examples in the first batch.
        width: columns of the data, labels and conditions aside.
        names: names of the columns of a frame; ``None`` of other data.
        condition_names: names of the columns of a condition that is a frame.
    """

    spec: DataSpec
    batch_size: int
    width: int
    names: tuple[str, ...] | None = None
    condition_names: tuple[str, ...] | None = None

    @property
    @abc.abstractmethod
    def updates_per_epoch(self) -> int | None:
        """Updates in an epoch, as far as it is known."""

    @abc.abstractmethod
    def looked_at(self) -> np.ndarray:
        """Rows that tell what kind of data these are, ``[n, width]``: all examples, or the first batch, unchecked."""

    @abc.abstractmethod
    def means(self) -> np.ndarray:
        """Means of the columns, float64: of all examples, or of the first batch."""

    @abc.abstractmethod
    def feed(self, model: Any) -> Feed:
        """The data as the training of a model is run on them."""

    @abc.abstractmethod
    def evaluation(self) -> dict[str, Any]:
        """Arguments for Keras' `evaluate`: batches ``(rows, anything, sample weights)``."""


def stacked_blocks(updates_per_call: int) -> Blocks:
    """Blocks that are the batches themselves, stacked: a data set yields them, with the number of updates behind."""
    return Blocks(updates_per_call, lambda block, i: (block[0][i], block[1][i]), "stacked")


@tf.autograph.experimental.do_not_convert
def as_triple(rows: tf.Tensor, weights: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """``(x, y, sample_weight)`` with something in the place of targets, which Keras needs to see the weights."""
    return rows, rows[:, :1], weights


def shape_of_batch(x: Any) -> tuple[int, int]:
    """Numbers of examples and of columns of a batch; categorical columns of a frame have one for each category."""
    if is_table(x):
        x = array_of(x)
    if isinstance(x, dict | tuple | list) or len(x.shape) != 2:
        shape = getattr(x, "shape", type(x).__name__)
        several = len(getattr(x, "shape", ())) > 2
        images = "reshape images to rows, by tf.reshape(x, [len(x), -1]), or make the layer with `visible_shape`"
        hint = images if several else "batch the data set first"
        raise ValueError(f"Batches must have the shape [examples, visible units]; {hint}. Received: {shape}")
    return int(x.shape[0]), int(x.shape[1])
