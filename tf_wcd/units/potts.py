"""Categorical units: groups of columns, exactly one of which is 1."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tf_wcd.arguments import check_integer
from tf_wcd.units.base import Unit
from tf_wcd.units.columns import Columns, Padded

SMALLEST_MEAN = 1e-6  # the field of a state that never occurs is large and negative, but not infinite
TOLERANCE = 1e-3  # of the sum of a group's expectations


@keras.saving.register_keras_serializable(package="tf_wcd")
class Potts(Unit):
    """A unit with several states, in one-hot coding: state i has the probability ``softmax(field)_i``.

    Args:
        states: number of states, each of which takes a column; at least 2.

    Example:

    >>> Potts(2).mean(tf.zeros([1, 6])).numpy().tolist()  # three units
    [[0.5, 0.5, 0.5, 0.5, 0.5, 0.5]]
    """

    name = "potts"

    def __init__(self, states: int) -> None:
        self.columns = check_integer("states", states, least=2)

    @property
    def states(self) -> np.ndarray:
        return np.eye(self.columns)

    def _groups(self, values: tf.Tensor) -> tf.Tensor:
        """``[..., units, states]``."""
        units = values.shape[-1] // self.columns
        return tf.reshape(values, tf.concat([tf.shape(values)[:-1], [units, self.columns]], axis=0))

    def cumulant(self, field: tf.Tensor) -> tf.Tensor:
        return tf.reduce_logsumexp(self._groups(field), axis=-1)

    def mean(self, field: tf.Tensor) -> tf.Tensor:
        return tf.reshape(tf.nn.softmax(self._groups(field)), tf.shape(field))

    def variances(self, field: tf.Tensor) -> tf.Tensor:
        mean = self.mean(field)
        return mean * (1.0 - mean)

    def field_of(self, mean: tf.Tensor) -> tf.Tensor:
        return tf.math.log(tf.maximum(mean, SMALLEST_MEAN))

    def sample(self, field: tf.Tensor, uniform: tf.Tensor) -> tf.Tensor:
        # The largest of the fields with Gumbel noise added is that of state i with the probability softmax(field)_i.
        noisy = field - tf.math.log(-tf.math.log(uniform))
        drawn = tf.one_hot(tf.argmax(self._groups(noisy), axis=-1), self.columns, dtype=field.dtype)
        return tf.reshape(drawn, tf.shape(field))

    def sample_columns(self, field: tf.Tensor, uniform: tf.Tensor) -> tf.Tensor:
        return self._largest_of_columns(field - tf.math.log(-tf.math.log(uniform)))

    def _largest_of_columns(self, noisy: tf.Tensor) -> tf.Tensor:
        groups = tf.reshape(noisy, [noisy.shape[0] // self.columns, self.columns, tf.shape(noisy)[1]])
        drawn = tf.one_hot(tf.argmax(groups, axis=1), self.columns, axis=1, dtype=noisy.dtype)
        return tf.reshape(drawn, tf.shape(noisy))

    def padded(self, columns: int, lanes: int) -> Padded:
        rest = -columns % lanes
        return Padded(PaddedPotts(self.columns, rest) if rest else self, columns + rest, np.arange(columns))

    def accepts(self, x: tf.Tensor) -> tf.Tensor:
        groups = self._groups(x)
        whole = tf.abs(tf.reduce_sum(groups, axis=-1, keepdims=True) - 1.0) <= TOLERANCE
        return tf.reshape((groups >= 0.0) & (groups <= 1.0) & whole, tf.shape(x))

    def domain(self) -> str:
        return f"in [0, 1] with the sum 1 in each group of {self.columns} columns"

    def state_domain(self) -> str:
        return f"one 1 in each group of {self.columns} columns and 0 elsewhere"

    def hint(self, low: float, high: float) -> str:
        if low < 0 or high <= 1 or high > self.columns - 1:
            return ""
        return f"; numbers of categories become such columns by np.eye({self.columns})[x].reshape(len(x), -1)"

    def get_config(self) -> dict[str, Any]:
        return {"states": self.columns}


class PaddedPotts(Potts):
    """`Potts` units, followed by columns that are always 0 and belong to no unit.

    Whole units would do, too, but ten labels would take 80 columns to come out at a multiple of 16.

    Args:
        states: number of states of a unit.
        rest: number of columns behind the units.
    """

    def __init__(self, states: int, rest: int) -> None:
        super().__init__(states)
        self.rest = rest

    def check_columns(self, columns: int) -> None:
        super().check_columns(columns - self.rest)

    def describe_columns(self, columns: int) -> Columns:
        units = super().describe_columns(columns - self.rest)
        yes = np.ones(self.rest, bool)
        rest = Columns(np.zeros(self.rest), np.ones(self.rest), yes, yes, np.arange(columns - self.rest, columns))
        return Columns(*(np.concatenate(pair) for pair in zip(units, rest, strict=True)))

    def cumulant(self, field: tf.Tensor) -> tf.Tensor:
        return super().cumulant(field[..., : -self.rest])

    def mean(self, field: tf.Tensor) -> tf.Tensor:
        return tf.concat([super().mean(field[..., : -self.rest]), tf.zeros_like(field[..., -self.rest :])], axis=-1)

    def sample(self, field: tf.Tensor, uniform: tf.Tensor) -> tf.Tensor:
        return tf.linalg.matrix_transpose(
            self.sample_columns(tf.linalg.matrix_transpose(field), tf.linalg.matrix_transpose(uniform))
        )

    def sample_columns(self, field: tf.Tensor, uniform: tf.Tensor) -> tf.Tensor:
        # Functions of single elements are taken of all columns, and what is compared is taken of the units.
        noisy = field - tf.math.log(-tf.math.log(uniform))
        drawn = self._largest_of_columns(noisy[: -self.rest])
        return tf.concat([drawn, tf.zeros_like(field[-self.rest :])], axis=0)

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "rest": self.rest}
