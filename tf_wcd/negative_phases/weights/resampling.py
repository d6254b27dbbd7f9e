"""Resampling of weighted points, and what replicas need for it."""

from __future__ import annotations

import tensorflow as tf

from tf_wcd import replicas


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


def resampled(values: tf.Tensor, log_weights: tf.Tensor, uniform: tf.Tensor) -> tf.Tensor:
    """Points resampled by their weights, over all replicas.

    Args:
        values: ``[..., M, n]`` this replica's points: visible states, say. Call it with the same weights and random
            number for each array of the same chains.
        log_weights: ``[..., M]`` this replica's part of the log-weights, normalised over all replicas.
        uniform: ``[...]`` random numbers in (0, 1); of several replicas, those of the first count.

    Returns:
        ``[..., M, n]``, this replica's part of the resampled points, which then all have the same weight.
    """
    count = values.shape[-2] * replicas.count()
    whole = tf.ensure_shape(replicas.gather(values, axis=-2), [*values.shape[:-2], count, values.shape[-1]])
    weights = tf.ensure_shape(replicas.gather(log_weights), [*log_weights.shape[:-1], count])
    indices = systematic_indices(weights, replicas.gather(uniform[..., None])[..., 0])
    chosen = tf.gather(whole, indices, axis=-2, batch_dims=len(indices.shape) - 1)
    return replicas.own_rows(chosen)
