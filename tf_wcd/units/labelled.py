"""A layer of one kind of units with a group of label units beside it."""

from __future__ import annotations

import dataclasses
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tf_wcd.arguments import check_integer
from tf_wcd.units.base import Unit
from tf_wcd.units.bernoulli import Bernoulli
from tf_wcd.units.spin import Spin

_BASES: dict[str, Unit] = {unit.name: unit for unit in (Bernoulli(), Spin())}
SMALLEST_MEAN = 1e-6  # the field of a label that never occurs is large and negative, but not infinite


@keras.saving.register_keras_serializable(package="tf_wcd")
@dataclasses.dataclass(frozen=True)
class Labelled(Unit):
    """Units of one kind, followed by one group of softmax units: exactly one of the last ``classes`` columns is 1.

    It joins labels to the data of an RBM, or to the units that the top RBM of a Deep Belief Network sees. The label
    has the probabilities softmax(field), and the group counts as one variable with ``classes`` states.

    Args:
        base: the units beside the labels: ``"bernoulli"`` or ``"spin"``.
        classes: number of labels, at least 2.

    Example:

    >>> unit = Labelled("bernoulli", classes=3)
    >>> unit.mean(tf.zeros([1, 5])).numpy().round(3).tolist()
    [[0.5, 0.5, 0.3330000042915344, 0.3330000042915344, 0.3330000042915344]]
    """

    name = "labelled"  # type: ignore[misc]

    base: str = "bernoulli"
    classes: int = 10

    def __post_init__(self) -> None:
        if self.base not in _BASES:
            raise ValueError(f"`base` must be one of {sorted(_BASES)}. Received: base={self.base!r}")
        check_integer("classes", self.classes, least=2)

    @property
    def base_unit(self) -> Unit:
        return _BASES[self.base]

    @property
    def data_range(self) -> tuple[float, float]:  # type: ignore[override]
        return self.base_unit.data_range

    @property
    def midpoint(self) -> float:  # type: ignore[override]
        return self.base_unit.midpoint

    def _split(self, values: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        return values[..., : -self.classes], values[..., -self.classes :]

    def cumulant(self, field: tf.Tensor) -> tf.Tensor:
        """The cumulant of the whole group of labels, in equal shares for each of its units."""
        own, labels = self._split(field)
        group = tf.reduce_logsumexp(labels, axis=-1, keepdims=True) / self.classes
        return tf.concat([self.base_unit.cumulant(own), tf.broadcast_to(group, tf.shape(labels))], axis=-1)

    def total_cumulant(self, field: tf.Tensor) -> tf.Tensor:
        own, labels = self._split(field)
        return self.base_unit.total_cumulant(own) + tf.reduce_logsumexp(labels, axis=-1)

    def mean(self, field: tf.Tensor) -> tf.Tensor:
        own, labels = self._split(field)
        return tf.concat([self.base_unit.mean(own), tf.nn.softmax(labels)], axis=-1)

    def field_of(self, mean: tf.Tensor) -> tf.Tensor:
        own, labels = self._split(mean)
        return tf.concat([self.base_unit.field_of(own), tf.math.log(tf.maximum(labels, SMALLEST_MEAN))], axis=-1)

    def sample(self, field: tf.Tensor, uniform: tf.Tensor) -> tf.Tensor:
        own, labels = self._split(field)
        own_uniform, label_uniform = self._split(uniform)
        # The largest of the fields with Gumbel noise added is label i with the probability softmax(field)_i.
        noisy = labels - tf.math.log(-tf.math.log(label_uniform))
        label = tf.one_hot(tf.argmax(noisy, axis=-1), self.classes, dtype=field.dtype)
        return tf.concat([self.base_unit.sample(own, own_uniform), label], axis=-1)

    def domain(self) -> str:
        return f"{self.base_unit.domain()}, with one of the last {self.classes} columns 1 and the others 0,"

    def no_states(self, x: np.ndarray) -> np.ndarray:
        own, labels = x[..., : -self.classes], x[..., -self.classes :]
        one_hot = np.isin(labels, (0, 1)).all(axis=-1, keepdims=True) & (labels.sum(axis=-1, keepdims=True) == 1)
        return np.concatenate([self.base_unit.no_states(own), np.broadcast_to(~one_hot, labels.shape)], axis=-1)

    def get_config(self) -> dict[str, Any]:
        return {"base": self.base, "classes": self.classes}


def number_of_labels(unit: Unit) -> int:
    """How many of the last units are labels; 0 without labels.

    Example:

    >>> number_of_labels(Labelled("spin", classes=3)), number_of_labels(Spin())
    (3, 0)
    """
    return unit.classes if isinstance(unit, Labelled) else 0
