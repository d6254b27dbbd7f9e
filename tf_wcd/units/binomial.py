"""Counts up to a largest one."""

from __future__ import annotations

import math
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tf_wcd.arguments import check_integer
from tf_wcd.units.base import Unit

UNROLLED = 16  # up to so many steps are written out, where a loop would cost more than they do


@keras.saving.register_keras_serializable(package="tf_wcd")
class Binomial(Unit):
    """A count from 0 to n: that of n coins, each of which is 1 with the probability ``sigmoid(field)``.

    It takes numbers of successes, ratings on a scale, and grey levels (``n=255``). One unit has as many parameters as a
    binary one.

    Args:
        n: the largest count, at least 1.

    Example:

    >>> float(Binomial(10).mean(tf.constant(0.0)))
    5.0
    """

    name = "binomial"

    def __init__(self, n: int) -> None:
        self.n = check_integer("n", n)
        self.values = tuple(float(count) for count in range(self.n + 1))

    def _log_coefficients(self) -> np.ndarray:
        log_factorials = np.array([math.lgamma(count + 1.0) for count in range(self.n + 1)])
        return log_factorials[-1] - log_factorials - log_factorials[::-1]

    def base_energy(self, states: tf.Tensor) -> tf.Tensor:
        """Minus the log of the number of ways to get a count; expectations have what lies between."""
        total = math.lgamma(self.n + 1.0)
        return tf.math.lgamma(states + 1.0) + tf.math.lgamma(self.n + 1.0 - states) - total

    def cumulant(self, field: tf.Tensor) -> tf.Tensor:
        return self.n * tf.nn.softplus(field)

    def mean(self, field: tf.Tensor) -> tf.Tensor:
        return self.n * tf.sigmoid(field)

    def field_of(self, mean: tf.Tensor) -> tf.Tensor:
        return tf.math.log(mean) - tf.math.log(self.n - mean)

    def sample(self, field: tf.Tensor, uniform: tf.Tensor) -> tf.Tensor:
        # The number of counts whose cumulative probability is below the random number. Where most coins are 1, the
        # others are counted: so the first terms are the large ones, and there is nothing to cancel.
        logit = -tf.abs(field)
        mirrored = tf.where(field > 0.0, 1.0 - uniform, uniform)
        log_none = -self.n * tf.nn.softplus(logit)
        coefficients = tf.constant(self._log_coefficients(), field.dtype)

        def step(count: Any, below: tf.Tensor, drawn: tf.Tensor) -> tuple[Any, tf.Tensor, tf.Tensor]:
            below += tf.exp(coefficients[count] + tf.cast(count, field.dtype) * logit + log_none)
            return count + 1, below, drawn + tf.cast(mirrored > below, field.dtype)

        state = (0, tf.zeros_like(logit), tf.zeros_like(logit))
        if self.n <= UNROLLED:
            for _ in range(self.n):
                state = step(*state)
        else:
            start = (tf.constant(0), *state[1:])
            state = tf.while_loop(lambda count, *_: count < self.n, step, start, parallel_iterations=1)
        return tf.where(field > 0.0, self.n - state[2], state[2])

    def entropy(self, field: tf.Tensor) -> tf.Tensor:
        counts = tf.constant(self.values, field.dtype)
        ways = tf.constant(self._log_coefficients(), field.dtype)
        log_prob = tf.nn.log_softmax(ways + field[..., None] * counts)
        return -tf.reduce_sum(tf.exp(log_prob) * log_prob, axis=[-2, -1])

    def are_states(self, x: tf.Tensor) -> tf.Tensor:
        return (x == tf.round(x)) & (x >= 0.0) & (x <= float(self.n))

    def state_domain(self) -> str:
        return f"integers from 0 to {self.n}"

    def hint(self, low: float, high: float) -> str:
        return f"; `Binomial({int(np.ceil(high))})` takes counts up to {high:g}" if low >= 0 else ""

    def get_config(self) -> dict[str, Any]:
        return {"n": self.n}
