"""Machines without weights, whose units are independent: their samples and log Z are known."""

from __future__ import annotations

import dataclasses

import tensorflow as tf

from tf_wcd.machine import Machine
from tf_wcd.random import Source


def without_weights(machine: Machine) -> Machine:
    """The machine of independent units that has the same biases."""
    return dataclasses.replace(machine, kernel=tf.zeros_like(machine.kernel))


def independent_visible(machine: Machine, rows: int, source: Source, draw: int) -> tf.Tensor:
    """Visible states of the machine without its weights, ``[..., rows, n_v]``."""
    fields = tf.broadcast_to(machine.visible_bias[..., None, :], [*machine.members, rows, machine.num_visible])
    return machine.sample_visible(fields, source, draw)


def independent_log_partition(machine: Machine) -> tf.Tensor:
    """log Z of the machine without its weights, float64 ``[...]``.

    Example:

    >>> rbm = tf_wcd.RBMLayer(4, seed=0)
    >>> rbm.build((None, 3))
    >>> round(float(independent_log_partition(rbm.machine()) / np.log(2)), 6)
    7.0
    """
    wide = machine.cast("float64")
    sides = (wide.visible, wide.visible_bias), (wide.hidden, wide.hidden_bias)
    return tf.add_n([unit.total_cumulant(bias[..., None, :])[..., 0] for unit, bias in sides])
