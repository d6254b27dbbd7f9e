"""Multiples of powers of two, whose sums are exact."""

from __future__ import annotations

import math

import numpy as np
import tensorflow as tf


def step_for(bound: float, bits: int) -> int:
    """The smallest exponent e such that sums up to ``bound`` of multiples of ``2**e`` have at most so many bits.

    Example:

    >>> step_for(1000.0, 24)  # single precision
    -13
    """
    # A half more for what the rounding of the terms themselves, and of fields that are added, may contribute.
    return math.ceil(math.log2(max(1.5 * bound, 1e-3))) - bits


def rounded(values: np.ndarray, step: int) -> np.ndarray:
    """`snap` of an array."""
    return np.ldexp(np.rint(np.ldexp(values, -step)), step)


def snap(values: tf.Tensor, step: int) -> tf.Tensor:
    """The nearest multiples of ``2**step``.

    Example:

    >>> snap(tf.constant([0.3, 0.4]), -2).numpy().tolist()
    [0.25, 0.5]
    """
    return tf.round(values * 2.0**-step) * 2.0**step


def exact_sum(values: tf.Tensor, step: int) -> tf.Tensor:
    """Sum along the last axis of the nearest multiples of ``2**step``."""
    return tf.reduce_sum(snap(values, step), axis=-1)
