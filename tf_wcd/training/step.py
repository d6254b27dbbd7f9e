"""One update of an RBM: the positive phase, the negative phase that answers it, their difference, and its measures."""

from __future__ import annotations

from typing import NamedTuple

import tensorflow as tf

from tf_wcd import replicas
from tf_wcd.machine import Machine
from tf_wcd.negative_phases import Batch, NegativePhase, Points, State
from tf_wcd.negative_phases.composition import weighted_points
from tf_wcd.negative_phases.weights import effective_sample_size
from tf_wcd.training.gradient import Gradient, Offsets, phase_difference


class Phases(NamedTuple):
    """Both phases of an update, before the parameters change.

    Attributes:
        machine: the RBM at its present parameters.
        batch: the positive phase.
        scale: factor of the whole step, the mean sample weight of the batch.
        points: the negative phase.
        log_weights: ``[..., M]`` logarithm of the points' normalised weights.
        state: the state of the negative phase that the update leaves.
        unknown: ``[..., B, n_v]``, true where an entry of the batch was drawn because it is unknown; ``None`` where
            all entries are known.
        condition: ``[B, conditions]`` of a conditional RBM; ``None`` of others.
    """

    machine: Machine
    batch: Batch
    scale: tf.Tensor
    points: Points
    log_weights: tf.Tensor
    state: State
    unknown: tf.Tensor | None = None
    condition: tf.Tensor | None = None


class Weighted(NamedTuple):
    """A measure of a batch that counts by the batch's weight, where several batches are averaged.

    Attributes:
        value: the measure, ``[...]``.
        weight: sum of the sample weights.
    """

    value: tf.Tensor
    weight: tf.Tensor


def phases_of(
    machine: Machine,
    negative_phase: NegativePhase,
    visible: tf.Tensor,
    sample_weight: tf.Tensor | None,
    state: State,
    key: tf.Tensor,
) -> Phases:
    """The positive phase of a batch ``[..., B, n_v]``, and the negative phase that answers it."""
    log_weights, scale = normalised_sample_weight(visible, sample_weight)
    batch = Batch(machine, visible, log_weights)
    points, point_log_weights, state = weighted_points(negative_phase, machine, batch, state, key)
    return Phases(machine, batch, scale, points, point_log_weights, state)


def gradient_of(phases: Phases, offsets: Offsets | None = None) -> Gradient:
    """The step, to be followed downhill; see `phase_difference`."""
    return phase_difference(
        phases.machine, phases.batch, phases.points, phases.log_weights, scale=phases.scale, offsets=offsets
    )


def measures_of(phases: Phases) -> dict[str, tf.Tensor]:
    """What the logs have of an update, ``[...]`` each; see `TrainingModel`."""
    machine, batch, points = phases.machine, phases.batch, phases.points
    positive, negative = tf.exp(batch.log_weights), tf.exp(phases.log_weights)
    data_energy = tf.reduce_sum(positive * machine.free_energy(batch.visible, batch.hidden_field), axis=-1)
    model_energy = tf.reduce_sum(negative * machine.free_energy(points.visible, points.hidden_field), axis=-1)
    errors = tf.reduce_mean(tf.square(batch.visible - machine.reconstruct(batch.hidden_field)), axis=-1)
    count = replicas.total(tf.cast(tf.shape(phases.log_weights)[-1], errors.dtype))
    sums = replicas.total(tf.stack([data_energy - model_energy, tf.reduce_sum(positive * errors, axis=-1)]))
    return {
        "loss": sums[0],
        "reconstruction_error": sums[1],
        "ess": effective_sample_size(phases.log_weights) / count,
    }


def normalised_sample_weight(visible: tf.Tensor, sample_weight: tf.Tensor | None) -> tuple[tf.Tensor, tf.Tensor]:
    """Logarithm of the weights normalised to sum one, and their mean, which scales the whole step.

    A batch without weight (possible by chance in a shuffled array) gives a step of length zero. Under `tf.distribute`
    the batch is that of all replicas together.
    """
    dtype = visible.dtype
    rows = replicas.total(tf.cast(tf.shape(visible)[-2], dtype))
    if sample_weight is None:
        return tf.fill(tf.shape(visible)[:-1], -tf.math.log(rows)), tf.ones([], dtype)
    sample_weight = tf.reshape(tf.cast(sample_weight, dtype), tf.shape(visible)[:-1])
    total = replicas.total(tf.reduce_sum(sample_weight, axis=-1, keepdims=True))
    normalised = tf.where(total > 0, sample_weight / tf.where(total > 0, total, 1.0), 1.0 / rows)
    return tf.math.log(normalised), total[..., 0] / rows
