"""Chains that are run to their end, with part of the units held if wished."""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf

from tf_wcd import data_checks
from tf_wcd.arguments import check_integer
from tf_wcd.gibbs import random_visible
from tf_wcd.machine import Machine


def start_of_chains(
    machine: Machine, num_samples: int, gibbs_steps: int, initial: Any, clamp: Any, key: tf.Tensor
) -> tuple[tf.Tensor, tf.Tensor | None, tf.Tensor]:
    """Checks the arguments of `RBMLayer.sample` and makes those of `run_chains`: states, mask of held units, steps."""
    rows, steps = check_integer("num_samples", num_samples), check_integer("gibbs_steps", gibbs_steps, least=0)
    if clamp is not None and initial is None:
        raise ValueError("`clamp` holds units at their values in `initial`: pass `initial` too. Received: initial=None")
    shape = (rows, machine.num_visible)
    dtype = machine.kernel.dtype
    if initial is None:
        # The last number of a 32-bit counter: the chain itself counts from 0.
        visible = random_visible(machine, rows, key, draw=2**32 - 1)
    else:
        given = np.atleast_2d(np.asarray(initial))
        if len(given) not in (1, rows):
            raise ValueError(f"`initial` must have one row or {rows}. Received: shape {given.shape}")
        given = data_checks.check_visible(given, machine.visible, shape[1], "initial", dtype.as_numpy_dtype)
        visible = tf.constant(np.broadcast_to(given, shape))
    held = None
    if clamp is not None:
        mask = np.asarray(clamp)
        if mask.shape not in (shape[1:], (1, shape[1]), shape):
            raise ValueError(
                f"`clamp` must be a mask of the shape [{shape[1]}] or {list(shape)}, true where a unit is held. "
                f"Received: shape {mask.shape}"
            )
        if not np.isin(mask, (0, 1)).all():
            strange = mask[~np.isin(mask, (0, 1))][0]
            raise ValueError(f"`clamp` must be 1 (true) where a unit is held, and 0 elsewhere. Received: {strange}")
        held = tf.constant(np.broadcast_to(mask.astype(bool), shape))
    return visible, held, tf.constant(steps)


def run_chains(
    machine: Machine, visible: tf.Tensor, held: tf.Tensor | None, steps: tf.Tensor, key: tf.Tensor
) -> tf.Tensor:
    """Visible states after so many Gibbs steps, with the held units put back at each."""

    def step(i: tf.Tensor, x: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        hidden = machine.sample_hidden(machine.hidden_field(x), key, 2 * i)
        drawn = machine.sample_visible(machine.visible_field(hidden), key, 2 * i + 1)
        return i + 1, drawn if held is None else tf.where(held, x, drawn)

    _, visible = tf.while_loop(lambda i, _: i < steps, step, [tf.constant(0), visible], parallel_iterations=1)
    return visible
