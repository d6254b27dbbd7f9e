"""Where the chains of `RBMLayer.sample` start, from what a user passed."""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf

from tf_wcd import data_checks
from tf_wcd.arguments import check_integer
from tf_wcd.machine import Machine
from tf_wcd.normaliser import check_normaliser
from tf_wcd.random import Source
from tf_wcd.sampling.gibbs import random_visible
from tf_wcd.tables import array_of


def start_of_chains(
    machine: Machine, num_samples: int, gibbs_steps: int, initial: Any, clamp: Any, source: Source
) -> tuple[tf.Tensor, tf.Tensor | None, tf.Tensor]:
    """Checks the arguments of `RBMLayer.sample` and makes those of `run_chains`: states, mask of held units, steps."""
    rows, steps = check_integer("num_samples", num_samples), check_integer("gibbs_steps", gibbs_steps, least=0)
    check_normaliser(machine)
    if clamp is not None and initial is None:
        raise ValueError("`clamp` holds units at their values in `initial`: pass `initial` too. Received: initial=None")
    shape = (rows, machine.num_visible)
    dtype = machine.kernel.dtype
    if initial is None:
        # The last number of a 32-bit counter: the chain itself counts from 0.
        visible = random_visible(machine, rows, source, draw=2**32 - 1)
    else:
        given = np.atleast_2d(array_of(initial, "initial"))
        if len(given) not in (1, rows):
            raise ValueError(f"`initial` must have one row or {rows}. Received: shape {given.shape}")
        given = data_checks.check_visible(given, machine.visible, shape[1], "initial", dtype.as_numpy_dtype)
        visible = tf.constant(np.broadcast_to(given, shape))
    held = None
    if clamp is not None:
        mask = array_of(clamp, "clamp")
        if mask.shape not in (shape[1:], (1, shape[1]), shape):
            raise ValueError(
                f"`clamp` must be a mask of the shape [{shape[1]}] or {list(shape)}, true where a unit is held. "
                f"Received: shape {mask.shape}"
            )
        if not np.isin(mask, (0, 1)).all():
            strange = mask[~np.isin(mask, (0, 1))][0]
            raise ValueError(f"`clamp` must be 1 (true) where a unit is held, and 0 elsewhere. Received: {strange}")
        first = machine.visible.describe_columns(shape[1]).first
        if (mask != mask[..., first]).any():
            raise ValueError("`clamp` must be the same in all columns of a unit. Received: a unit that is held in part")
        held = tf.constant(np.broadcast_to(mask.astype(bool), shape))
    return visible, held, tf.constant(steps)
