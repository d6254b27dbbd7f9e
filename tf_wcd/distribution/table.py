"""A table of states and their probabilities as a distribution of TensorFlow Probability."""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow_probability as tfp

from tf_wcd.data_checks import check_visible
from tf_wcd.distribution.rbm import RBMDistribution
from tf_wcd.distribution.vector import VectorDistribution
from tf_wcd.evaluation.exact import check_probabilities
from tf_wcd.shapes import static_shape


class TableDistribution(VectorDistribution):
    """Some states, each with its probability; all others have none.

    `tfp.distributions.kl_divergence` between a table and `RBMLayer.distribution` is the exact divergence.

    Args:
        states: ``[n, units]``, all different.
        probabilities: ``[n]``, with sum one.
        dtype: type of the states.
        name: name of the operations.

    Example:

    >>> import tensorflow_probability as tfp
    >>> table = TableDistribution(*tf_wcd.datasets.load("BS09"))
    >>> rbm = tf_wcd.RBMLayer(4, kernel_initializer="zeros")
    >>> rbm.build((None, 9))
    >>> kl = tfp.distributions.kl_divergence(table, rbm.distribution())
    >>> round(float(kl), 4), round(float(table.entropy()), 4)
    (3.5993, 2.6391)
    """

    def __init__(
        self,
        states: Any,
        probabilities: Any,
        dtype: Any = "float32",
        name: str = "Table",
    ) -> None:
        parameters = dict(locals())
        rows = check_visible(states, None, None, "states", dtype=dtype)
        if len(np.unique(rows, axis=0)) != len(rows):
            raise ValueError(f"The states of a table must all differ. Received: {len(rows)} states, some of them equal")
        self._states = tf.constant(rows)
        self._probabilities = tf.constant(check_probabilities(probabilities, len(rows)))
        super().__init__(dtype, parameters, name)

    @property
    def states(self) -> tf.Tensor:
        """The states, ``[n, units]``."""
        return self._states

    @property
    def probabilities(self) -> tf.Tensor:
        """Their probabilities, float64 ``[n]``."""
        return self._probabilities

    @property
    def width(self) -> int:
        return self._states.shape[1]

    def _log_prob(self, x: tf.Tensor) -> tf.Tensor:
        rows = tf.reshape(x, [-1, self._states.shape[1]])
        same = tf.ones([tf.shape(rows)[0], len(self._states)], bool)
        for column in range(self._states.shape[1]):  # one after the other: all at once would take that many times more
            same &= rows[:, column, None] == self._states[None, :, column]
        total = tf.linalg.matvec(tf.cast(same, tf.float64), self._probabilities)
        return tf.reshape(tf.cast(tf.math.log(total), self.dtype), static_shape(x)[:-1])

    def _sample_n(self, n: int | tf.Tensor, seed: Any = None) -> tf.Tensor:
        numbers = tfp.distributions.Categorical(probs=self._probabilities).sample(n, seed=seed)
        return tf.gather(self._states, numbers)

    def _mean(self) -> tf.Tensor:
        mean = tf.linalg.matvec(tf.cast(self._states, tf.float64), self._probabilities, transpose_a=True)
        return tf.cast(mean, self.dtype)

    def _entropy(self) -> tf.Tensor:
        return tf.cast(-self.mean_log_prob(), self.dtype)

    def _default_event_space_bijector(self) -> None:
        return None

    def mean_log_prob(self) -> tf.Tensor:
        """sum p log p, the negative entropy, float64."""
        return tf.reduce_sum(tf.math.xlogy(self._probabilities, self._probabilities))


@tfp.distributions.RegisterKL(TableDistribution, RBMDistribution)
def _kl_table_rbm(table: TableDistribution, model: RBMDistribution, name: str | None = None) -> tf.Tensor:
    """Exact KL(table || RBM), in float64 inside; states without probability have no part in it."""
    with tf.name_scope(name or "kl_table_rbm"):
        log_probabilities = model.wide_log_prob(table.states)
        return tf.cast(table.mean_log_prob() - tf.reduce_sum(table.probabilities * log_probabilities), model.dtype)
