"""The update direction: the difference of the two phases."""

from __future__ import annotations

from typing import NamedTuple

import tensorflow as tf

from tf_wcd import replicas
from tf_wcd.machine import Machine
from tf_wcd.negative_phases import Batch, Points
from tf_wcd.shapes import static_shape

DAMPING = 0.01  # added to variances: units that hardly vary would have huge steps


class Offsets(NamedTuple):
    """Offsets of the centred gradient, and the variances of the standardised one.

    Attributes:
        visible: ``[..., n_v]``.
        hidden: ``[..., n_h]``.
        visible_variance: ``[..., n_v]``; ``None`` where the gradient is only centred.
        hidden_variance: ``[..., n_h]``; ``None`` where the gradient is only centred.
    """

    visible: tf.Tensor
    hidden: tf.Tensor
    visible_variance: tf.Tensor | None = None
    hidden_variance: tf.Tensor | None = None


class ConditionGradient(NamedTuple):
    """The part of the gradient that belongs to the conditions of a conditional RBM.

    Attributes:
        visible: ``[conditions, n_v]``.
        hidden: ``[conditions, n_h]``.
        data_mean: ``[conditions]``, the mean of the conditions, which their offset follows; ``None`` without offsets.
    """

    visible: tf.Tensor
    hidden: tf.Tensor
    data_mean: tf.Tensor | None


class Gradient(NamedTuple):
    """Gradient of the negative log-likelihood, to be followed downhill.

    Attributes:
        kernel: ``[..., n_v, n_h]``.
        visible_bias: ``[..., n_v]``.
        hidden_bias: ``[..., n_h]``.
        visible_unit: gradients of the visible unit type's parameters, by name.
        hidden_unit: gradients of the hidden unit type's parameters, by name.
        data_means: means of the visible and hidden units in the positive phase, which the offsets follow, and their
            variances, where there are some; ``None`` where there are no offsets.
        conditions: gradients of the conditions' kernels; ``None`` without conditions.

    Under `tf.distribute` it is the part that this replica's rows contribute, which the optimizer sums over the
    replicas; the means of data are those of all rows.
    """

    kernel: tf.Tensor
    visible_bias: tf.Tensor
    hidden_bias: tf.Tensor
    visible_unit: dict[str, tf.Tensor]
    hidden_unit: dict[str, tf.Tensor]
    data_means: Offsets | None
    conditions: ConditionGradient | None = None


def phase_difference(
    machine: Machine,
    batch: Batch,
    points: Points,
    log_weights: tf.Tensor,
    scale: tf.Tensor | float = 1.0,
    offsets: Offsets | None = None,
) -> Gradient:
    """sum_i p_i E[dEnergy | x_i] - sum_m w_m E[dEnergy | y_m], both halves in one matrix product.

    With offsets (mu, lambda) it is the centred gradient: the kernel's part is taken of x - mu and h - lambda, and the
    biases' parts are corrected by what the kernel's step does to the fields at the offsets (Montavon and Mueller 2012;
    Melchior, Fischer and Wiskott 2016). The offsets do not depend on the batch, so where the plain step is unbiased
    the centred one is an invertible linear map of it.

    With variances it is the standardised gradient, that of a model whose units have been divided by their standard
    deviations: a unit that varies little learns as fast as the others.

    Args:
        machine: the RBM.
        batch: the positive phase.
        points: the negative phase.
        log_weights: ``[..., M]`` normalised log-weights of the points.
        scale: factor of the whole step, a scalar or ``[...]``.
        offsets: offsets of the centred gradient; ``None`` for the plain one.
    """
    positive, negative = tf.exp(batch.log_weights), tf.exp(log_weights)
    # The minus sign of dEnergy/dtheta is in the weights: data lower the energy, points raise it.
    weights = (tf.concat([-positive, negative], axis=-1) * tf.convert_to_tensor(scale)[..., None])[..., None]
    visible = tf.concat([batch.visible, points.visible], axis=-2)
    fields = batch.hidden_field, points.hidden_field
    if batch.joint:
        # Out of one product, they are the two halves of one array.
        hidden = machine.hidden.mean(tf.concat(fields, axis=-2))
    else:
        # CD draws from the means of the data's hidden units: taken by themselves, they are computed once for both uses.
        hidden = tf.concat([machine.hidden.mean(field) for field in fields], axis=-2)

    hidden_bias = tf.reduce_sum(weights * hidden, axis=-2)
    visible_unit = machine.visible.parameter_gradients(visible, -weights[..., 0])
    hidden_unit: dict[str, tf.Tensor] = {}
    if machine.hidden.parameters:
        hidden_unit = machine.hidden.expected_parameter_gradients(tf.concat(fields, axis=-2), -weights[..., 0])
    if offsets is None:
        # The weights are one more column: the visible bias's part comes out of the same product, for nothing.
        columns = tf.concat([weights * hidden, weights], axis=-1)
        both = machine.correlation([batch.visible, points.visible], columns)
        kernel, visible_bias = both[..., :-1], both[..., -1]
        return Gradient(kernel, visible_bias, hidden_bias, visible_unit, hidden_unit, None)

    mu, lam = (tf.convert_to_tensor(offset) for offset in (offsets.visible, offsets.hidden))
    visible_bias = tf.linalg.matvec(visible, weights[..., 0], transpose_a=True)
    kernel = machine.product(visible - mu[..., None, :], weights * (hidden - lam[..., None, :]), transpose_a=True)
    kernel, visible_bias, hidden_bias = at_offsets(kernel, visible_bias, hidden_bias, offsets)
    data_hidden = hidden[..., : static_shape(batch.visible)[-2], :]

    def data_mean(values: tf.Tensor) -> tf.Tensor:
        return replicas.total(tf.reduce_sum(positive[..., None] * values, axis=-2))

    data_means = Offsets(data_mean(batch.visible), data_mean(data_hidden))
    if offsets.visible_variance is not None:
        squares = tf.square(data_hidden) + machine.hidden.variances(batch.hidden_field)
        data_means = data_means._replace(
            visible_variance=data_mean(tf.square(batch.visible)) - tf.square(data_means.visible),
            hidden_variance=data_mean(squares) - tf.square(data_means.hidden),
        )
    return Gradient(kernel, visible_bias, hidden_bias, visible_unit, hidden_unit, data_means)


def centred_from_plain(
    kernel: tf.Tensor, visible_bias: tf.Tensor, hidden_bias: tf.Tensor, offsets: Offsets
) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """The parts of the centred gradient, from those of a plain one.

    Both phases have the same weight, so that the product of the two offsets drops out of the kernel's part.
    """
    mu, lam = (tf.convert_to_tensor(offset) for offset in (offsets.visible, offsets.hidden))
    centred = kernel - visible_bias[..., :, None] * lam[..., None, :] - mu[..., :, None] * hidden_bias[..., None, :]
    return at_offsets(centred, visible_bias, hidden_bias, offsets)


def at_offsets(
    kernel: tf.Tensor, visible_bias: tf.Tensor, hidden_bias: tf.Tensor, offsets: Offsets
) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """The parts of a step scaled by the variances, where there are some, and the biases corrected for the kernel's.

    Args:
        kernel: the kernel's part, taken of x - mu and h - lambda.
        visible_bias: the plain part.
        hidden_bias: the plain part.
        offsets: mu and lambda, and the variances.
    """
    if offsets.visible_variance is not None and offsets.hidden_variance is not None:
        visible_scale = 1.0 / (tf.convert_to_tensor(offsets.visible_variance) + DAMPING)
        hidden_scale = 1.0 / (tf.convert_to_tensor(offsets.hidden_variance) + DAMPING)
        kernel *= visible_scale[..., :, None] * hidden_scale[..., None, :]
        visible_bias, hidden_bias = visible_bias * visible_scale, hidden_bias * hidden_scale
    visible_bias -= tf.linalg.matvec(kernel, tf.convert_to_tensor(offsets.hidden))
    hidden_bias -= tf.linalg.matvec(kernel, tf.convert_to_tensor(offsets.visible), transpose_a=True)
    return kernel, visible_bias, hidden_bias
