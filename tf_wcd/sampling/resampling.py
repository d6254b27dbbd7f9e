"""Resampling: points of unequal weight become points of equal weight."""

from __future__ import annotations

import tensorflow as tf


def systematic_indices(log_weights: tf.Tensor, uniform: tf.Tensor) -> tf.Tensor:
    """Indices of points in proportion to their weights, by one random number: systematic resampling.

    Point m is drawn floor(M w_m) or ceil(M w_m) times, M w_m times in expectation. Of all usual schemes it adds the
    least noise.

    Args:
        log_weights: ``[..., M]`` normalised log-weights.
        uniform: ``[...]`` random numbers in (0, 1).

    Returns:
        int32 ``[..., M]``, increasing.

    Example:

    >>> systematic_indices(tf.math.log([0.5, 0.25, 0.25, 0.0]), tf.constant(0.5)).numpy().tolist()
    [0, 0, 1, 2]
    """
    count = log_weights.shape[-1]
    cumulative = tf.cumsum(tf.exp(log_weights), axis=-1)
    places = (tf.range(count, dtype=log_weights.dtype) + uniform[..., None]) / count * cumulative[..., -1:]
    # As many of the cumulative weights lie at or below a place as there are points before the one that is drawn.
    return tf.minimum(tf.searchsorted(cumulative, places, side="right"), count - 1)
