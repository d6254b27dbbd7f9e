"""Conditions: further inputs, which move the biases of an RBM (Taylor and Hinton 2009).

Row i of the data comes with a condition c_i. Its visible bias is b + c_i A, its hidden one c + c_i B, so that every row
has an RBM of its own with the same kernel: P(x | c_i) has a normaliser of its own. What the other rows' reconstructions
would say of it, weighted within the batch or kept from update to update, would be about other distributions.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import keras
import tensorflow as tf

from tf_wcd import replicas
from tf_wcd.arguments import check_integer
from tf_wcd.machine import Machine
from tf_wcd.negative_phases import NegativePhase
from tf_wcd.shapes import static_shape
from tf_wcd.training.gradient import DAMPING, ConditionGradient, Gradient, Offsets
from tf_wcd.training.step import Phases
from tf_wcd.units.shifted import Shifted


def check_conditions(conditions: Any, classes: int, missing: str | None, phase: NegativePhase) -> int:
    """The argument ``conditions`` of a model; 0 for none."""
    if conditions is None:
        return 0
    conditions = check_integer("conditions", conditions)
    for name, value in (("classes", classes), ("missing", missing)):
        if value:
            raise ValueError(
                f"`conditions` and `{name}` do not go together. "
                f"Received: conditions={conditions!r} and {name}={value!r}"
            )
    if not phase.answers_each_row:
        raise ValueError(
            "With `conditions` each example has a distribution of its own, P(x | condition). Points that are weighted "
            "within the batch, or kept as chains from one batch to the next, would mix points of different conditions: "
            "use negative_phase='cd', with any `gibbs_steps`, or 'exact' for few visible units. "
            f"Received: {type(phase).__name__} and conditions={conditions!r}"
        )
    return conditions


def with_another_seed(initializer: keras.initializers.Initializer) -> keras.initializers.Initializer:
    """The initializer for a second kernel: the same one gives the same numbers again."""
    config = initializer.get_config() if isinstance(initializer, keras.initializers.Initializer) else {}
    if not isinstance(config.get("seed"), int):
        return initializer
    return type(initializer).from_config({**config, "seed": config["seed"] ^ 0xC0D1})


def conditioned(machine: Machine, visible_shift: tf.Tensor, hidden_shift: tf.Tensor) -> Machine:
    """The machine whose biases are moved in each row.

    Args:
        machine: the RBM.
        visible_shift: ``[rows, n_v]``, or one row for all: c A.
        hidden_shift: ``[rows, n_h]``, or one row for all: c B.
    """
    return dataclasses.replace(
        machine, visible=Shifted(machine.visible, visible_shift), hidden=Shifted(machine.hidden, hidden_shift)
    )


def condition_gradient(
    gradient: Gradient, phases: Phases, offsets: Offsets | None = None, condition_offset: tf.Tensor | None = None
) -> Gradient:
    """The gradient with the part of the conditions: sum_i c_i times what row i gives to the gradients of the biases.

    With offsets the part is taken of c - mu, with mu following the mean of the conditions, and the biases are corrected
    for what its step does to the fields at mu. The standardised gradient divides by the variances of the units; a
    condition is left in its own scale.

    Args:
        gradient: that of `tf_wcd.training.step.gradient_of`.
        phases: the update, of a conditioned machine.
        offsets: offsets of the centred gradient; ``None`` for the plain one.
        condition_offset: ``[conditions]``, mu; ``None`` for the plain gradient.
    """
    machine, batch, points, condition = phases.machine, phases.batch, phases.points, phases.condition
    assert condition is not None
    positive, negative = tf.exp(batch.log_weights), tf.exp(phases.log_weights)
    sets = static_shape(points.visible)[-2] // static_shape(condition)[-2]
    centred = condition if condition_offset is None else condition - condition_offset
    weights = tf.concat([-positive, negative], axis=0) * phases.scale
    rows = tf.concat([centred, tf.tile(centred, [sets, 1])], axis=0) * weights[:, None]
    visible = machine.product(rows, tf.concat([batch.visible, points.visible], axis=0), transpose_a=True)
    hidden = [machine.hidden.mean(field) for field in (batch.hidden_field, points.hidden_field)]
    hidden = machine.product(rows, tf.concat(hidden, axis=0), transpose_a=True)
    if offsets is None or condition_offset is None:
        return gradient._replace(conditions=ConditionGradient(visible, hidden, None))
    if offsets.visible_variance is not None and offsets.hidden_variance is not None:
        visible /= tf.convert_to_tensor(offsets.visible_variance) + DAMPING
        hidden /= tf.convert_to_tensor(offsets.hidden_variance) + DAMPING
    mean = replicas.total(tf.reduce_sum(positive[:, None] * condition, axis=0))
    return gradient._replace(
        visible_bias=gradient.visible_bias - tf.linalg.matvec(visible, condition_offset, transpose_a=True),
        hidden_bias=gradient.hidden_bias - tf.linalg.matvec(hidden, condition_offset, transpose_a=True),
        conditions=ConditionGradient(visible, hidden, mean),
    )
