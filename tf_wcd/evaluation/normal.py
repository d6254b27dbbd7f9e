"""log Z of machines whose units are all normal: the integral over a joint normal density."""

from __future__ import annotations

import math

import numpy as np
import tensorflow as tf

from tf_wcd.machine import Machine


def all_normal(machine: Machine) -> bool:
    """Whether the units of both sides are normal in every field."""
    return all(
        unit.normal_variances(n) is not None
        for unit, n in ((machine.visible, machine.num_visible), (machine.hidden, machine.num_hidden))
    )


def log_normal_integral(machine: Machine) -> tf.Tensor:
    """log Z in float64, for every machine along the leading axes; their normalisers must be finite."""
    kernel, visible_bias, hidden_bias = (
        np.asarray(value, "float64") for value in (machine.kernel, machine.visible_bias, machine.hidden_bias)
    )
    visible, hidden = (
        np.sqrt(np.broadcast_to(np.asarray(unit.normal_variances(bias.shape[-1]), "float64"), bias.shape))
        for unit, bias in ((machine.visible, visible_bias), (machine.hidden, hidden_bias))
    )
    # In units of the standard deviations the precision matrix is I - [[0, W], [W', 0]], and with W = U S V' it falls
    # into blocks of two, [[1, -s], [-s, 1]].
    left, strengths, right = np.linalg.svd(visible[..., :, None] * kernel * hidden[..., None, :], full_matrices=False)
    b, c = visible * visible_bias, hidden * hidden_bias
    along = np.einsum("...ik,...i->...k", left, b), np.einsum("...kj,...j->...k", right, c)
    squares = (b**2).sum(-1) + (c**2).sum(-1) - sum((part**2).sum(-1) for part in along)
    pairs = (along[0] ** 2 + along[1] ** 2 + 2.0 * strengths * along[0] * along[1]) / (1.0 - strengths**2)
    units = kernel.shape[-2] + kernel.shape[-1]
    log_z = 0.5 * (squares + pairs.sum(-1) - np.log1p(-(strengths**2)).sum(-1) + units * math.log(2.0 * math.pi))
    return tf.constant(log_z + np.log(visible).sum(-1) + np.log(hidden).sum(-1))
