"""A target for the mean activity of hidden units."""

from __future__ import annotations

import tensorflow as tf

from tf_wcd import replicas
from tf_wcd.training.gradient import Gradient
from tf_wcd.training.step import Phases

DECAY = 0.9  # of the running mean of the activity


def running_activity(phases: Phases, before: tf.Tensor) -> tf.Tensor:
    """The running mean of the hidden units' activity in the positive phase, ``[..., n_h]``."""
    weights = tf.exp(phases.batch.log_weights)[..., None]
    activity = tf.reduce_sum(weights * phases.machine.hidden.mean(phases.batch.hidden_field), axis=-2)
    return DECAY * before + (1.0 - DECAY) * replicas.total(activity)


def towards_target(gradient: Gradient, phases: Phases, activity: tf.Tensor, target: float, cost: float) -> Gradient:
    """The gradient with that of a penalty on activities off the target.

    Its derivative by a hidden field is the cost times the activity minus the target, which for 0/1 units is that of the
    cross-entropy between the two (Hinton 2012). The field is moved by the bias, and by the weights in proportion to the
    mean of the data.
    """
    slope = cost * phases.scale[..., None] * (activity - target) / replicas.count()
    weights = tf.exp(phases.batch.log_weights)[..., None]
    mean = replicas.total(tf.reduce_sum(weights * phases.batch.visible, axis=-2))
    return gradient._replace(
        kernel=gradient.kernel + mean[..., :, None] * slope[..., None, :], hidden_bias=gradient.hidden_bias + slope
    )
