"""A target for the mean activity of hidden units."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from tf_wcd import replicas
from tf_wcd.training.gradient import Gradient
from tf_wcd.training.step import Phases
from tf_wcd.units import Unit

DECAY = 0.9  # of the running mean of the activity


def check_activity(target: Any, cost: Any, hidden: Unit) -> tuple[float | None, float]:
    """The arguments ``activity_target`` and ``activity_cost`` of a model."""
    low, high = hidden.data_range
    if target is not None and not low < target < high:
        raise ValueError(
            f"`activity_target` must be between {low:g} and {high:g} for {hidden.name!r} hidden units. "
            f"Received: activity_target={target!r}"
        )
    if not cost >= 0:
        raise ValueError(f"`activity_cost` must be at least 0. Received: activity_cost={cost!r}")
    return target, float(cost)


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
