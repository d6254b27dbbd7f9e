"""Dropout of hidden units while an RBM learns (Srivastava et al. 2014).

Each example of an update has hidden units of its own: each unit is dropped with the given probability, and is then
absent for this example in both phases. So an update is that of as many smaller RBMs as there are examples, which share
their parameters, and its expectation is the mean over all masks.
"""

from __future__ import annotations

import dataclasses

import tensorflow as tf

from tf_wcd.machine import Machine
from tf_wcd.negative_phases import NegativePhase
from tf_wcd.random import subkey, uniform
from tf_wcd.shapes import static_shape
from tf_wcd.units import Unit
from tf_wcd.units.dropped import Dropped, unit_mask

_DROPOUT = 0xD409  # the purpose of the key of the masks: with or without them, updates draw the same numbers


def check_dropout(rate: float, hidden: Unit, units: int, phase: NegativePhase, objective: str) -> float:
    """The argument ``hidden_dropout`` of a model."""
    if not 0 <= rate < 1:
        raise ValueError(f"`hidden_dropout` must be in [0, 1). Received: hidden_dropout={rate!r}")
    if not rate:
        return 0.0
    if not phase.row_by_row:
        raise ValueError(
            "With `hidden_dropout` each example has hidden units of its own, in both phases: the points must be "
            "reconstructions of the examples, with their weights. Use negative_phase='cd'. "
            f"Received: {type(phase).__name__} and hidden_dropout={rate!r}"
        )
    if objective != "generative":
        raise ValueError(
            "`hidden_dropout` goes with the generative objective. "
            f"Received: objective={objective!r} and hidden_dropout={rate!r}"
        )
    if hidden.initial_parameters(units):
        raise ValueError(
            "`hidden_dropout` goes with hidden units that learn no shape of their own. "
            f"Received: hidden_type={hidden.name!r} and hidden_dropout={rate!r}"
        )
    return float(rate)


def with_dropout(machine: Machine, visible: tf.Tensor, rate: float, key: tf.Tensor) -> Machine:
    """The machine with hidden units of its own for each row of a batch.

    Args:
        machine: the RBM.
        visible: the batch, ``[..., rows, n_v]``.
        rate: probability of each hidden unit to be dropped.
        key: uint32 [2], that of the update.
    """
    shape = [*static_shape(visible)[:-1], machine.num_hidden]
    numbers = uniform(subkey(key, _DROPOUT), 0, shape, visible.dtype)
    return dataclasses.replace(machine, hidden=Dropped(machine.hidden, unit_mask(machine.hidden, numbers, rate)))
