"""Sampling from a Deep Belief Network."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import tensorflow as tf

from tf_wcd.arguments import check_integer
from tf_wcd.data_checks import check_start
from tf_wcd.machine import Machine
from tf_wcd.random import batch_source, subkey
from tf_wcd.sampling import Drawn, random_visible, run_chains
from tf_wcd.sampling.passes import pass_down, pass_up
from tf_wcd.training.inputs.labels import one_hot_for_all

if TYPE_CHECKING:
    from tf_wcd.dbn.model import DBN

# Purposes of random numbers, each with another key.
_TOP, _DOWN, _START, _UP = range(4)


class Generated(NamedTuple):
    """Data drawn from a stack.

    Attributes:
        visible: ``[rows, n_v]`` states.
        expected: ``[rows, n_v]`` their expectations given the layer above: pictures without the noise of the last draw.
    """

    visible: tf.Tensor
    expected: tf.Tensor


def generate(
    machines: Sequence[Machine],
    visible: tf.Tensor,
    held: tf.Tensor | None,
    steps: tf.Tensor,
    key: tf.Tensor,
) -> Generated:
    """Gibbs sampling in the top RBM from the given states, and one pass down.

    Args:
        machines: the generative machines from the bottom, and the top one last.
        visible: ``[rows, n]`` states of the top machine's visible units, labels included.
        held: ``[rows, n]``, true where they stay as they are; ``None`` if all move.
        steps: Gibbs steps.
        key: uint32 [2].
    """
    *below, top = machines
    chains = run_chains(top, visible, held, steps, batch_source(subkey(key, _TOP)))
    width = top.num_visible - top.visible.classes
    if not below:
        expected = tf.where(steps > 0, top.visible.mean(chains.field), visible)
        return Generated(chains.visible[:, :width], expected[:, :width])
    drawn = pass_down(below, Drawn(*(part[:, :width] for part in chains)), batch_source(subkey(key, _DOWN)))
    return Generated(drawn.visible, below[0].visible.mean(drawn.field))


def start_of_top(
    dbn: DBN, num_samples: int, gibbs_steps: int, labels: Any, initial: Any, key: tf.Tensor
) -> tuple[tf.Tensor, tf.Tensor | None, tf.Tensor]:
    """Checks the arguments of `DBN.sample` and makes those of `generate`: states, mask of held units, steps."""
    rows = check_integer("num_samples", num_samples)
    steps = check_integer("gibbs_steps", gibbs_steps, least=0)
    machines = dbn.machines()
    top = machines[-1]
    dtype = top.kernel.dtype
    visible = random_visible(top, rows, batch_source(subkey(key, _START)), draw=0)
    if initial is not None:
        data = check_start(initial, dbn.visible_shape, dbn.checked_data)
        if len(data) not in (1, rows):
            raise ValueError(f"`initial` must have one row or {rows}. Received: shape {data.shape}")
        data = tf.constant(np.broadcast_to(data, [rows, dbn.num_visible]))
        up = pass_up(machines[:-1], data, batch_source(subkey(key, _UP)))[-1]
        visible = tf.concat([up, visible[:, visible.shape[1] - dbn.classes :]], axis=1)
    held = None
    if labels is not None:
        dbn.require_classes(f"labels of type {type(labels).__name__}")
        wanted = one_hot_for_all(labels, dbn.classes, rows, dtype.name)
        visible = tf.concat([visible[:, : -dbn.classes], wanted], axis=1)
        held = tf.broadcast_to(tf.range(top.num_visible) >= top.num_visible - dbn.classes, visible.shape)
    return visible, held, tf.constant(steps)
