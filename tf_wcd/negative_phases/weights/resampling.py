"""Resampling of weighted points, and what replicas need for it."""

from __future__ import annotations

from collections.abc import Mapping

import tensorflow as tf

from tf_wcd import replicas
from tf_wcd.sampling.resampling import systematic_indices
from tf_wcd.shapes import with_shape


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
    whole = with_shape(replicas.gather(values, axis=-2), [*values.shape[:-2], count, values.shape[-1]])
    weights = with_shape(replicas.gather(log_weights), [*log_weights.shape[:-1], count])
    indices = systematic_indices(weights, replicas.gather(uniform[..., None])[..., 0])
    chosen = tf.gather(whole, indices, axis=-2, batch_dims=len(indices.shape) - 1)
    return replicas.own_rows(chosen)


def resampled_where(
    low: tf.Tensor, values: Mapping[str, tf.Tensor], log_weights: tf.Tensor, uniform: tf.Tensor
) -> dict[str, tf.Tensor]:
    """`resampled` for the machines whose weights ask for it; costs next to nothing where none does.

    Args:
        low: ``[...]`` true where to resample.
        values: arrays ``[..., M, n]`` of the same points, by name.
        log_weights: as for `resampled`.
        uniform: as for `resampled`.
    """

    def chosen() -> dict[str, tf.Tensor]:
        where = low[..., None, None]
        return {name: tf.where(where, resampled(v, log_weights, uniform), v) for name, v in values.items()}

    if replicas.count() > 1:  # inside of `tf.cond` replicas cannot talk to each other
        return chosen()
    return tf.cond(tf.reduce_any(low), chosen, lambda: {name: tf.identity(v) for name, v in values.items()})
