"""RBMs that join labels to their data: rows with and without the columns of the labels."""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf

from tf_wcd import data_checks
from tf_wcd.sampling.passes import label_log_prob, label_log_weights, reconstruction, top_hidden_mean
from tf_wcd.training.inputs import DataSpec
from tf_wcd.training.machine_model import MachineModel

ROWS_AT_A_TIME = 1000


class LabelledModel(MachineModel):
    """One RBM, or several along leading axes, with labels among the visible units where ``classes`` says so.

    Data are rows without labels, and `fit` and `evaluate` take these with ``y``. Functions of *states* (`energy`, all
    of `tf_wcd.evaluation`, callbacks, `start_chains`) see the joint model of data and labels: rows of `with_labels`.
    """

    def data_spec(self) -> DataSpec:
        return DataSpec(
            unit=self.data_unit,
            width=self.known_data_width,
            classes=self.classes,
            dtype=self.variable_dtype,
            names=self.feature_names_in_,
            missing=bool(self.missing),
            shape=self.visible_shape,
        )

    def require_classes(self, received: str) -> None:
        """Raises ValueError if the model has no labels."""
        if not self.classes:
            raise ValueError(
                f"The model has no labels: make it with `RBMLayer(..., classes=...)`. Received: {received}"
            )

    def with_labels(self, x: Any, y: Any) -> np.ndarray:
        """States of all visible units: the data, and the labels in one-hot coding in the last columns.

        Args:
            x: ``[n, columns of the data]``.
            y: labels, class numbers or one-hot.

        Returns:
            ``[n, columns of the data + classes]``, for `tf_wcd.evaluation.log_prob` say.

        Example:

        >>> rbm = tf_wcd.RBMLayer(4, classes=3, seed=0)
        >>> rbm.with_labels([[0, 1], [1, 1]], [2, 0]).tolist()
        [[0.0, 1.0, 0.0, 0.0, 1.0], [1.0, 1.0, 1.0, 0.0, 0.0]]
        """
        self.require_classes("classes=None")
        x = self.checked_data(x)
        return self.data_spec().joined(x, y)

    def label_log_prob(self, x: Any) -> tf.Tensor:
        """Logarithm of the probability of each label given the data: exact, log softmax(-F(x, label)).

        Args:
            x: ``[n, columns of the data]``.

        Returns:
            ``[n, classes]``; of an ensemble ``[count, n, classes]``.

        Example:

        >>> rbm = tf_wcd.RBMLayer(4, classes=2, kernel_initializer="zeros")
        >>> np.exp(rbm.label_log_prob([[0, 1]])).round(3).tolist()
        [[0.5, 0.5]]
        """
        self.require_classes("classes=None")
        x, machine = self.checked_data(x), self.machine()
        starts = range(0, len(x), ROWS_AT_A_TIME)
        parts = [label_log_prob(machine, tf.constant(x[start : start + ROWS_AT_A_TIME])) for start in starts]
        return tf.concat(parts, axis=-2)

    def free_energy(self, x: Any) -> tf.Tensor:
        """F(x) = -log sum_h exp(-Energy(x, h)), ``[n]`` for x ``[n, visible units]``.

        With ``classes``, rows without labels have the free energy of the data, in which the labels are summed over,
        too; rows of `with_labels` have that of data and label.
        """
        if self._lacks_labels(x):
            x = self.visible_tensor(x, labels=False)
            return -tf.reduce_logsumexp(label_log_weights(self.machine(), x), axis=-1)
        return super().free_energy(x)

    def reconstruct(self, x: Any) -> tf.Tensor:
        """E[x | E[h | x]], ``[n, visible units]`` for x of the same shape.

        With ``classes``, rows may come without labels, which then are summed over in E[h | x].
        """
        if self._lacks_labels(x):
            rows = self.visible_tensor(x, labels=False)
            return self.shaped_as(x, reconstruction([self.machine()], [], rows))
        return super().reconstruct(x)

    def hidden_mean_of_data(self, inputs: tf.Tensor) -> tf.Tensor:
        """E[h | x] of rows without labels, which are summed over."""
        mean = top_hidden_mean(self.machine(), tf.cast(inputs, self.variable_dtype))
        return tf.cast(mean, self.compute_dtype)

    def start_at_means(self, x: Any) -> None:
        """Sets the visible bias to that of units without weights that have the means of the data.

        Call it before the first `fit` where some units are nearly always off, or on, as the pixels of images are
        (Hinton 2012): hidden units that learn to switch them off are lost for anything else.

        Args:
            x: ``[examples, visible units]``; the training data.

        Example:

        >>> rbm = tf_wcd.RBMLayer(3, kernel_initializer="zeros")
        >>> rbm.start_at_means([[0, 1], [0, 0], [0, 1], [0, 1]])
        >>> [round(float(mean), 2) for mean in rbm.reconstruct([[0, 0]])[0]]
        [0.01, 0.75]
        """
        x = self.checked_visible(x, missing=bool(self.missing))
        means = data_checks.known_means(x, self.visible_unit)[None].astype(self.variable_dtype)
        bias = self.plain_machine().visible.bias_of_means(means)[..., 0, :]
        self.visible_bias.assign(tf.broadcast_to(bias, self.visible_bias.shape))

    def _lacks_labels(self, x: Any) -> bool:
        """Whether the rows are data of a model with labels, without these; before the model is built, they are."""
        if not self.classes:
            return False
        return not self.built or tuple(np.shape(x))[-1:] != (self.num_visible,)
