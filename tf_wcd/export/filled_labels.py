"""Units with labels beside them, as a served model lays them out."""

from __future__ import annotations

import numpy as np
import tensorflow as tf

from tf_wcd.units import Labelled
from tf_wcd.units.labelled import SMALLEST_MEAN


class FilledLabels:
    """The unit type of a layer with labels, both parts filled up: ``[own units, filler, labels, filler]``.

    Args:
        unit: the layer's own unit type.
        own: number of units beside the labels, with those that fill them up.
        labels: number of labels, with those that fill them up; these are never drawn.
    """

    def __init__(self, unit: Labelled, own: int, labels: int) -> None:
        self.base, self.own, self.labels = unit.base_unit, own, labels
        self.values, self.midpoint, self.data_range = unit.base_unit.values, unit.midpoint, unit.data_range
        self._never = np.where(np.arange(labels) < unit.classes, 0.0, -np.inf)

    def sample(self, field: tf.Tensor, uniform: tf.Tensor, axis: int = -1) -> tf.Tensor:
        """States along the given axis; exactly one of the labels is 1."""
        own_field, label_field = tf.split(field, [self.own, self.labels], axis=axis)
        own_uniform, label_uniform = tf.split(uniform, [self.own, self.labels], axis=axis)
        never = tf.constant(self._never, field.dtype)
        # The largest of the fields with Gumbel noise added is label i with the probability softmax(field)_i.
        noisy = label_field + (never[:, None] if axis == 0 else never) - tf.math.log(-tf.math.log(label_uniform))
        label = tf.one_hot(tf.argmax(noisy, axis=axis), self.labels, axis=axis, dtype=field.dtype)
        return tf.concat([self.base.sample(own_field, own_uniform), label], axis=axis)

    def field_of(self, mean: tf.Tensor) -> tf.Tensor:
        """The field at which the units have these means, ``[rows, units]``."""
        own, labels = mean[:, : self.own], mean[:, self.own :]
        return tf.concat([self.base.field_of(own), tf.math.log(tf.maximum(labels, SMALLEST_MEAN))], axis=1)

    def mean(self, own_field: tf.Tensor) -> tf.Tensor:
        """Expected states of the units beside the labels, which are all that is answered."""
        return self.base.mean(own_field)
