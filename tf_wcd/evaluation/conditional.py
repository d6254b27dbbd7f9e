"""Exact likelihoods under conditions: each condition has a normaliser of its own."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import numpy as np
import tensorflow as tf

from tf_wcd.evaluation.exact import log_partition_of
from tf_wcd.training.conditions import conditioned
from tf_wcd.training.inputs.conditions import check_condition, pair_of

if TYPE_CHECKING:
    from tf_wcd.layer import RBMLayer

CONDITIONS_AT_A_TIME = 64
ROWS_AT_A_TIME = 2**12


def conditional_log_prob(rbm: RBMLayer, x: Any, memory_limit: int) -> np.ndarray:
    """Exact log P(x | condition) of a layer with conditions; see `tf_wcd.evaluation.log_prob`.

    log Z is computed once for each distinct condition.

    Args:
        rbm: a built layer.
        x: ``[x, condition]``; one condition may stand for all rows.
        memory_limit: as for `tf_wcd.evaluation.log_partition`.
    """
    machine = rbm.plain_machine().cast("float64")
    states, condition = pair_of(x, rbm.conditions)
    names = rbm.condition_names_in_
    states = rbm.checked_visible(states, dtype="float64", strict=True)
    condition = check_condition(condition, rbm.conditions, "float64", len(states), names=names, one_for_all=True)
    distinct, which = np.unique(np.broadcast_to(condition, [len(states), rbm.conditions]), axis=0, return_inverse=True)
    which = which.reshape(-1)
    kernels = rbm.visible_condition_kernel, rbm.hidden_condition_kernel
    visible, hidden = (distinct @ np.asarray(kernel, "float64") for kernel in kernels)
    log_z = []
    for start in range(0, len(distinct), CONDITIONS_AT_A_TIME):
        own = slice(start, start + CONDITIONS_AT_A_TIME)
        kernel = tf.broadcast_to(machine.kernel, [len(visible[own]), *machine.kernel.shape])
        biases = {"visible_bias": machine.visible_bias + visible[own], "hidden_bias": machine.hidden_bias + hidden[own]}
        log_z.append(log_partition_of(dataclasses.replace(machine, kernel=kernel, **biases), memory_limit))
    energies = []
    for start in range(0, len(states), ROWS_AT_A_TIME):
        rows = slice(start, start + ROWS_AT_A_TIME)
        shifts = (tf.constant(shift[which[rows]]) for shift in (visible, hidden))
        energies.append(conditioned(machine, *shifts).free_energy(tf.constant(states[rows])))
    return -np.concatenate(energies) - np.concatenate(log_z)[which]
