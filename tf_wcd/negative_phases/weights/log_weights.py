"""Normalised weights of a set of points, in log space: pure functions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from tf_wcd import replicas
from tf_wcd.machine import Machine

HALVINGS = 16  # of the interval in which the power of tempered weights lies


def model_log_weights(machine: Machine, visible: tf.Tensor, hidden_field: tf.Tensor | None = None) -> tf.Tensor:
    """log softmax(-F): the model's probability of each point relative to the whole set, in which Z cancels.

    Under `tf.distribute` the set is that of all replicas.

    Args:
        machine: the RBM.
        visible: ``[..., M, n_v]`` the points.
        hidden_field: their hidden fields, where they are at hand already.

    Returns:
        ``[..., M]``, with logsumexp 0 along the last axis.
    """
    return replicas.normalise(-machine.free_energy(visible, hidden_field))


def uniform_log_weights(points: tf.Tensor) -> tf.Tensor:
    """Equal weights ``[..., M]`` of points ``[..., M, n]``: 1 / M, where M counts the points of all replicas.

    Example:

    >>> tf.exp(uniform_log_weights(tf.zeros([4, 2]))).numpy().round(6).tolist()
    [0.25, 0.25, 0.25, 0.25]
    """
    shape = tf.shape(points)[:-1]
    count = replicas.total(tf.cast(shape[-1], points.dtype))
    return tf.zeros(shape, points.dtype) - tf.math.log(count)


def effective_sample_size(log_weights: tf.Tensor) -> tf.Tensor:
    """1 / sum(w**2), between 1 (one point has all the weight) and M (all weights are equal).

    Example:

    >>> round(float(effective_sample_size(tf.math.log([0.5, 0.25, 0.25]))), 4)
    2.6667
    """
    return tf.exp(-replicas.log_total(2.0 * log_weights))


def tempered_log_weights(log_weights: tf.Tensor, minimum_ess: float) -> tf.Tensor:
    """Weights w**b, normalised, with the largest b in [0, 1] that keeps the effective sample size at a minimum.

    b = 1 leaves the weights as they are and b = 0 makes them equal, so this holds a middle between a weighted and an
    unweighted negative phase where the weights would collapse onto a few points.

    Args:
        log_weights: ``[..., M]`` normalised log-weights.
        minimum_ess: the effective sample size to keep, as a fraction of M, from 0 (no tempering) to 1 (equal weights).

    Returns:
        ``[..., M]`` normalised log-weights.

    Example:

    >>> tempered = tempered_log_weights(tf.math.log([0.97, 0.01, 0.01, 0.01]), minimum_ess=0.5)
    >>> round(float(effective_sample_size(tempered)), 3)
    2.0
    """
    power = tempering_power(replicas.gather(log_weights), minimum_ess)
    return replicas.normalise(power[..., None] * log_weights)


def tempering_power(log_weights: tf.Tensor, minimum_ess: float) -> tf.Tensor:
    """The power b of `tempered_log_weights`, ``[...]``."""
    count = tf.cast(tf.shape(log_weights)[-1], log_weights.dtype)
    goal = minimum_ess * count

    def size(power: tf.Tensor) -> tf.Tensor:
        powers = tf.nn.log_softmax(power[..., None] * log_weights, axis=-1)
        return tf.exp(-tf.reduce_logsumexp(2.0 * powers, axis=-1))

    def halve(i: tf.Tensor, low: tf.Tensor, high: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        middle = 0.5 * (low + high)
        enough = size(middle) >= goal
        return i + 1, tf.where(enough, middle, low), tf.where(enough, high, middle)

    enough = tf.exp(-tf.reduce_logsumexp(2.0 * log_weights, axis=-1)) >= goal
    one = tf.ones_like(log_weights[..., 0])
    _, low, _ = tf.while_loop(lambda i, *_: i < HALVINGS, halve, [tf.constant(0), 0.0 * one, one])
    return tf.where(enough, one, low)


def check_minimum_ess(minimum_ess: Any) -> float:
    """The effective sample size to keep, if it is a fraction."""
    if isinstance(minimum_ess, bool) or not isinstance(minimum_ess, (int, float)) or not 0 <= minimum_ess <= 1:
        raise ValueError(f"`minimum_ess` must be a number from 0 to 1. Received: minimum_ess={minimum_ess!r}")
    return float(minimum_ess)


def remedies(alternatives: Sequence[str], minimum_ess: float) -> tuple[str, ...]:
    """What to do where weights collapse: take another phase, or temper them; nothing if they are tempered already."""
    if minimum_ess or not alternatives:
        return ()
    return (*(f'negative_phase="{name}"' for name in alternatives), "`minimum_ess=0.5`")
