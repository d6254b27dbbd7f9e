"""A normal density on the half line x >= 0, in a field f: ``exp(f x - x**2 / 2)``. Rectified units are made of it.

With the Mills ratio ``M(t) = P(N > t) / density(t)`` of the standard normal distribution, everything follows from one
function, ``r(t) = 1 / M(t) - t`` for t >= 0. It falls from 0.8 at 0 like 1 / t, has no cancellation in any of its uses,
and is the mean of the density in the field -t.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

MIDDLE, DEGREE = 3.0, 12  # of a polynomial in (t - 3) / (t + 3), which is right to the precision of float32
SPLIT, TERMS = 6.0, 16  # where the continued fraction of so many terms takes over, in float64
HALLEY_STEPS = 2  # enough for random numbers of 23 bits
MIDPOINT = math.sqrt(2.0 / math.pi)  # the mean in no field
SMALLEST_MEAN = 0.01  # units that are always 0 have a field of about -100, not an infinite one


@functools.cache
def _coefficients() -> tuple[float, ...]:
    """Of the polynomial for ``(t + 1) r(t)``, that of the highest power first."""

    def scaled(z: float) -> float:
        t = MIDDLE * (1.0 + z) / (1.0 - z)
        if t > MIDDLE:
            return (t + 1.0) * _fraction(t, 200)
        mills = math.sqrt(0.5 * math.pi) * math.erfc(t * math.sqrt(0.5)) * math.exp(0.5 * t * t)
        return (t + 1.0) * (1.0 / mills - t)

    series = np.polynomial.chebyshev.chebinterpolate(np.vectorize(scaled), DEGREE)
    return tuple(np.polynomial.chebyshev.cheb2poly(series)[::-1].tolist())


def _fraction(t: Any, terms: int) -> Any:
    """r(t) for large t, by Laplace's continued fraction ``1 / (t + 2 / (t + 3 / ...))``."""
    rest = t
    for number in range(terms, 1, -1):
        rest = t + number / rest
    return 1.0 / rest


def _single_excess(t: tf.Tensor) -> tf.Tensor:
    """r(t) for t >= 0, to the precision of float32."""
    z = 1.0 - 2.0 * MIDDLE / (t + MIDDLE)
    first, *others = _coefficients()
    total = first * z + others[0]
    for coefficient in others[1:]:
        total = total * z + coefficient
    return total / (t + 1.0)


def _excess(t: tf.Tensor) -> tf.Tensor:
    """r(t) for t >= 0, to the precision of its type."""
    if t.dtype != tf.float64:
        return _single_excess(t)
    near = tf.minimum(t, SPLIT)
    mills = math.sqrt(0.5 * math.pi) * tf.math.erfc(near * math.sqrt(0.5)) * tf.exp(0.5 * tf.square(near))
    return tf.where(t > SPLIT, _fraction(tf.maximum(t, SPLIT), TERMS), 1.0 / mills - near)


def _traced_once(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function of tensors that is traced once for each shape, not at each of its uses in a graph.

    Outside of graphs nothing is traced: TensorFlow would warn whoever asks for many shapes.
    """
    traced = tf.function(function, autograph=False)

    @functools.wraps(function)
    def call(*tensors: tf.Tensor) -> Any:
        return (function if tf.executing_eagerly() else traced)(*tensors)

    return call


@_traced_once
def _parts(field: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """r(t), the standard normal density at t, and the probability beyond t, where t is the field's magnitude."""
    t = tf.abs(field)
    excess = _excess(t)
    density = tf.exp(-0.5 * tf.square(t)) * (1.0 / math.sqrt(2.0 * math.pi))
    return excess, density, density / (t + excess)


@tf.custom_gradient
def log_integral(field: tf.Tensor) -> tuple[tf.Tensor, object]:
    """Log of the integral of the density: the cumulant of a rectified unit."""
    excess, _, beyond = _parts(field)
    right = 0.5 * tf.square(field) + 0.5 * math.log(2.0 * math.pi) + tf.math.log1p(-beyond)
    value = tf.where(field > 0.0, right, -tf.math.log(tf.abs(field) + excess))
    return value, lambda upstream: upstream * mean(field)


@tf.custom_gradient
def mean(field: tf.Tensor) -> tuple[tf.Tensor, object]:
    """Expectation of the density."""
    excess, density, beyond = _parts(field)
    value = tf.where(field > 0.0, field + density / (1.0 - beyond), excess)
    return value, lambda upstream: upstream * variance(field)


def variance(field: tf.Tensor) -> tf.Tensor:
    """Variance of the density."""
    middle = mean(field)
    return tf.maximum(1.0 - middle * (middle - field), 0.0)


def field_of(expected: tf.Tensor) -> tf.Tensor:
    """The field in which the mean is ``expected``, or `SMALLEST_MEAN` where it is less."""
    expected = tf.maximum(expected, SMALLEST_MEAN)
    # mean - 1 / mean is nearly the field itself, over the whole line: Newton's method converges in a few steps.
    target = expected - 1.0 / expected
    field = target
    for _ in range(5):
        found = mean(field)
        field -= (found - 1.0 / found - target) / (variance(field) * (1.0 + 1.0 / tf.square(found)))
    return field


@_traced_once
def sample(field: tf.Tensor, uniform: tf.Tensor) -> tf.Tensor:
    """The quantile of the density at the probability ``uniform``, in (0, 1): accurate in the far tail, too.

    Probabilities are right to the precision of the random numbers, which is that of float32.
    """
    # In fields above 0: P(x > s) = ndtr(f - s) / ndtr(f).
    survival = (1.0 - uniform) * 0.5 * tf.math.erfc(tf.nn.relu(field) * -math.sqrt(0.5))
    right = field - math.sqrt(2.0) * tf.math.erfinv(2.0 * survival - 1.0)
    # Below 0: log P(x > s) = -s t - s**2 / 2 + log M(t + s) - log M(t). The first guess has the right slope at 0;
    # Halley's method triples its digits at each step.
    t = tf.nn.relu(-field)
    target = -tf.math.log1p(-uniform)
    slope = t + _single_excess(t)
    left = 2.0 * target / (slope + tf.sqrt(tf.square(slope) + 2.0 * target))
    for _ in range(HALLEY_STEPS):
        excess = _single_excess(t + left)
        rate = t + left + excess  # minus the derivative of log P(x > s), whose own derivative is rate * excess
        newton = (target - left * (t + 0.5 * left) - tf.math.log(rate / slope)) / rate
        left += newton / (1.0 + 0.5 * newton * excess)
    return tf.maximum(tf.where(field > 0.0, right, left), 0.0)
