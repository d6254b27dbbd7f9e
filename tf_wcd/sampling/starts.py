"""Where the chains of `RBMLayer.sample` start, from what a user passed."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from tf_wcd import data_checks
from tf_wcd.arguments import check_integer
from tf_wcd.machine import Machine
from tf_wcd.normaliser import check_normaliser
from tf_wcd.random import Source
from tf_wcd.sampling.gibbs import random_visible
from tf_wcd.tables import array_of
from tf_wcd.units import Unit


class Start(NamedTuple):
    """Where chains start.

    Attributes:
        visible: ``[num_samples, n_v]`` states.
        held: of the same shape, true where a unit stays as it is; ``None`` if all move.
        steps: Gibbs steps.
    """

    visible: tf.Tensor
    held: tf.Tensor | None
    steps: tf.Tensor


def start_of_chains(
    machine: Machine,
    num_samples: int,
    gibbs_steps: int,
    initial: Any,
    clamp: Any,
    source: Source,
    classes: int = 0,
    labels: np.ndarray | None = None,
) -> Start:
    """Checks the arguments of `RBMLayer.sample` and makes those of `run_chains`.

    Args:
        machine: the RBM.
        num_samples: see `RBMLayer.sample`, as of the next three.
        gibbs_steps: steps.
        initial: states, without labels.
        clamp: mask of held units, without labels.
        source: random numbers.
        classes: how many of the last columns are labels that users do not pass with the others.
        labels: ``[num_samples, classes]``, which are held; ``None`` if the labels move.
    """
    rows, steps = check_integer("num_samples", num_samples), check_integer("gibbs_steps", gibbs_steps, least=0)
    check_normaliser(machine)
    if clamp is not None and initial is None:
        raise ValueError("`clamp` holds units at their values in `initial`: pass `initial` too. Received: initial=None")
    width = machine.num_visible - classes
    unit = machine.visible.without_labels() if classes else machine.visible
    parts = []
    if initial is None or (classes and labels is None):
        # The last number of a 32-bit counter: the chain itself counts from 0.
        drawn = random_visible(machine, rows, source, draw=2**32 - 1)
        parts = [drawn[:, :width], drawn[:, width:]]
    if initial is not None:
        parts[:1] = [_given_states(initial, unit, (rows, width), machine.kernel.dtype)]
    if labels is not None:
        parts[1:] = [tf.constant(labels, machine.kernel.dtype)]
    visible = tf.concat(parts, axis=1) if classes else parts[0]
    if clamp is None and labels is None:
        return Start(visible, None, tf.constant(steps))
    held = np.zeros([rows, width], bool) if clamp is None else _held(clamp, unit, (rows, width))
    held = np.concatenate([held, np.full([rows, classes], labels is not None)], axis=1)
    return Start(visible, tf.constant(held), tf.constant(steps))


def _given_states(initial: Any, unit: Unit, shape: tuple[int, int], dtype: tf.DType) -> tf.Tensor:
    given = np.atleast_2d(array_of(initial, "initial"))
    if len(given) not in (1, shape[0]):
        raise ValueError(f"`initial` must have one row or {shape[0]}. Received: shape {given.shape}")
    given = data_checks.check_visible(given, unit, shape[1], "initial", dtype.as_numpy_dtype)
    return tf.constant(np.broadcast_to(given, shape))


def _held(clamp: Any, unit: Unit, shape: tuple[int, int]) -> np.ndarray:
    mask = array_of(clamp, "clamp")
    if mask.shape not in (shape[1:], (1, shape[1]), shape):
        raise ValueError(
            f"`clamp` must be a mask of the shape [{shape[1]}] or {list(shape)}, true where a unit is held. "
            f"Received: shape {mask.shape}"
        )
    if not np.isin(mask, (0, 1)).all():
        strange = mask[~np.isin(mask, (0, 1))][0]
        raise ValueError(f"`clamp` must be 1 (true) where a unit is held, and 0 elsewhere. Received: {strange}")
    first = unit.describe_columns(shape[1]).first
    if (mask != mask[..., first]).any():
        raise ValueError("`clamp` must be the same in all columns of a unit. Received: a unit that is held in part")
    return np.broadcast_to(mask.astype(bool), shape)
