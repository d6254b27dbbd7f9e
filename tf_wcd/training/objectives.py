"""What an RBM with labels learns: the joint distribution, the labels given the data, or both.

Larochelle and Bengio (2008), Larochelle, Mandel, Pascanu and Bengio (2012). P(label | x) is a softmax over the free
energies of x with each label, so that its gradient is exact and needs no negative phase.
"""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from tf_wcd import replicas
from tf_wcd.arguments import check_positive
from tf_wcd.machine import Machine
from tf_wcd.negative_phases import Batch, Points, State
from tf_wcd.sampling.passes import by_label, fields_with_labels, label_log_prob, label_log_weights
from tf_wcd.training.gradient import Gradient, Offsets, centred_from_plain
from tf_wcd.training.step import Phases, Weighted, normalised_sample_weight

OBJECTIVES = ("generative", "discriminative", "hybrid")


def check_objective(objective: Any, generative_weight: Any, classes: int) -> tuple[str, float]:
    """The arguments ``objective`` and ``generative_weight`` of a model with so many labels."""
    if objective not in OBJECTIVES:
        raise ValueError(f"`objective` must be one of {list(OBJECTIVES)}. Received: objective={objective!r}")
    if objective != OBJECTIVES[0] and not classes:
        raise ValueError(f"`objective={objective!r}` is about labels: give `classes`, too. Received: classes=None")
    return objective, check_positive("generative_weight", generative_weight)


def phases_without_points(
    machine: Machine, visible: tf.Tensor, sample_weight: tf.Tensor | None, state: State
) -> Phases:
    """The positive phase of a batch that no negative phase answers: it stands there itself."""
    log_weights, scale = normalised_sample_weight(visible, sample_weight)
    batch = Batch(machine, visible, log_weights)
    return Phases(machine, batch, scale, Points(visible, batch.hidden_field), log_weights, state)


def label_gradient(phases: Phases, offsets: Offsets | None = None) -> Gradient:
    """Gradient of the mean of -log P(label | x) over the batch.

    It is the difference of two phases, too: the examples with their labels, and the examples with every label,
    weighted by its probability. A label may be a distribution over the classes.

    Args:
        phases: the batch, with labels in its last columns.
        offsets: offsets of the centred gradient; ``None`` for the plain one.
    """
    machine, batch = phases.machine, phases.batch
    x, labels = _parts(phases)
    fields = fields_with_labels(machine, x)
    hidden = by_label(machine, machine.hidden.mean(fields), units=1)
    positive = tf.exp(batch.log_weights)[..., None]
    surplus = tf.nn.softmax(label_log_weights(machine, x, fields)) - labels
    # A row's weights sum to zero: what does not depend on the label (visible biases, base energies) does not count.
    weights = positive * surplus * tf.convert_to_tensor(phases.scale)[..., None, None]
    weighted = weights[..., None] * hidden
    of_rows = tf.reduce_sum(weighted, axis=-2)
    kernel = tf.concat([machine.correlation([x], of_rows), tf.reduce_sum(weighted, axis=-3)], axis=-2)
    of_labels = tf.reduce_sum(weights, axis=-2)
    visible_bias = tf.concat([tf.zeros_like(machine.visible_bias[..., : x.shape[-1]]), of_labels], axis=-1)
    hidden_bias = tf.reduce_sum(of_rows, axis=-2)
    visible_unit = {name: tf.zeros_like(value) for name, value in machine.visible.parameters.items()}
    flat = tf.reshape(weights, tf.shape(fields)[:-1])
    hidden_unit = machine.hidden.expected_parameter_gradients(fields, -flat)
    if offsets is None:
        return Gradient(kernel, visible_bias, hidden_bias, visible_unit, hidden_unit, None)
    kernel, visible_bias, hidden_bias = centred_from_plain(kernel, visible_bias, hidden_bias, offsets)
    means = _data_means(phases, fields, hidden, labels, offsets)
    return Gradient(kernel, visible_bias, hidden_bias, visible_unit, hidden_unit, means)


def _parts(phases: Phases) -> tuple[tf.Tensor, tf.Tensor]:
    """The visible units of a batch without labels, and the labels."""
    classes = phases.machine.visible.classes
    return phases.batch.visible[..., :-classes], phases.batch.visible[..., -classes:]


def _data_means(phases: Phases, fields: tf.Tensor, hidden: tf.Tensor, labels: tf.Tensor, offsets: Offsets) -> Offsets:
    """What the offsets follow: means of the examples with their labels, and their variances where there are some."""
    positive = tf.exp(phases.batch.log_weights)[..., None]

    def data_mean(values: tf.Tensor) -> tf.Tensor:
        return replicas.total(tf.reduce_sum(positive * values, axis=-2))

    def of_own_label(values: tf.Tensor) -> tf.Tensor:
        return tf.reduce_sum(labels[..., None] * values, axis=-2)

    visible = phases.batch.visible
    means = Offsets(data_mean(visible), data_mean(of_own_label(hidden)))
    if offsets.visible_variance is None:
        return means
    variances = by_label(phases.machine, phases.machine.hidden.variances(fields), units=1)
    return means._replace(
        visible_variance=data_mean(tf.square(visible)) - tf.square(means.visible),
        hidden_variance=data_mean(of_own_label(tf.square(hidden) + variances)) - tf.square(means.hidden),
    )


def hybrid(label: Gradient, joint: Gradient, weight: float) -> Gradient:
    """The gradient of -log P(label | x) plus a weight times that of -log P(x, label)."""

    def units(ours: dict[str, tf.Tensor], theirs: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        return {name: ours[name] + weight * theirs[name] for name in theirs}

    return Gradient(
        label.kernel + weight * joint.kernel,
        label.visible_bias + weight * joint.visible_bias,
        label.hidden_bias + weight * joint.hidden_bias,
        units(label.visible_unit, joint.visible_unit),
        units(label.hidden_unit, joint.hidden_unit),
        joint.data_means,
    )


def label_measures(phases: Phases, objective: str, weight: float, joint_loss: tf.Tensor) -> dict[str, Any]:
    """``accuracy`` of the most probable labels, and the ``loss`` that an objective has.

    Rows with unknown entries do not count: what was drawn in their place has seen the label.

    Args:
        phases: the batch, with labels in its last columns.
        objective: one of `OBJECTIVES`.
        weight: that of the joint distribution in the hybrid objective.
        joint_loss: the loss of the generative objective.
    """
    x, labels = _parts(phases)
    log_prob = label_log_prob(phases.machine, x)
    right = tf.cast(tf.argmax(log_prob, axis=-1) == tf.argmax(labels, axis=-1), log_prob.dtype)
    positive = tf.exp(phases.batch.log_weights)
    counted = positive
    if phases.unknown is not None:
        counted *= tf.cast(~tf.reduce_any(phases.unknown, axis=-1), positive.dtype)
    rows = tf.stack([counted * right, -positive * tf.reduce_sum(labels * log_prob, axis=-1)])
    accuracy, label_loss = tf.unstack(replicas.total(tf.reduce_sum(rows, axis=-1)))
    count = replicas.total(tf.cast(tf.shape(x)[-2], positive.dtype))
    if phases.unknown is not None:
        share = replicas.total(tf.reduce_sum(counted, axis=-1))
        accuracy, count = tf.math.divide_no_nan(accuracy, share), share * count
    losses = {"discriminative": label_loss, "hybrid": label_loss + weight * joint_loss}
    # Batches of an evaluation count by their examples: a last, smaller one less.
    return {"accuracy": Weighted(accuracy, phases.scale * count), "loss": losses.get(objective, joint_loss)}
