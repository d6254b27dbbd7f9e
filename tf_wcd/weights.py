"""Normalised weights of a set of points, in log space."""

import tensorflow as tf

from tf_wcd.machine import Machine


def model_log_weights(machine: Machine, visible: tf.Tensor, hidden_field: tf.Tensor | None = None) -> tf.Tensor:
    """log softmax(-F): the model's probability of each point relative to the whole set, in which Z cancels.

    Args:
        machine: the RBM.
        visible: ``[..., M, n_v]`` the points.
        hidden_field: their hidden fields, where they are at hand already.

    Returns:
        ``[..., M]``, with logsumexp 0 along the last axis.
    """
    return tf.nn.log_softmax(-machine.free_energy(visible, hidden_field), axis=-1)


def effective_sample_size(log_weights: tf.Tensor) -> tf.Tensor:
    """1 / sum(w**2), between 1 (one point has all the weight) and M (all weights are equal).

    Example:

    >>> round(float(effective_sample_size(tf.math.log([0.5, 0.25, 0.25]))), 4)
    2.6667
    """
    return tf.exp(-tf.reduce_logsumexp(2.0 * log_weights, axis=-1))
