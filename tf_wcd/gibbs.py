"""Block Gibbs sampling: all hidden units given the visible ones, then all visible units given the hidden ones."""

from __future__ import annotations

from typing import NamedTuple

import tensorflow as tf

from tf_wcd.machine import Machine, static_shape
from tf_wcd.random_bits import uniform


class ChainState(NamedTuple):
    """Chains after a number of Gibbs steps.

    Attributes:
        visible: ``[..., M, n_v]`` the visible units.
        hidden_field: ``[..., M, n_h]`` c + W x of these visible units, from which their E[h | x] and F(x) follow.
    """

    visible: tf.Tensor
    hidden_field: tf.Tensor


def gibbs_from_hidden(machine: Machine, hidden: tf.Tensor, steps: int, key: tf.Tensor) -> ChainState:
    """Draws x | h, then (h | x, x | h) ``steps - 1`` times more.

    Args:
        machine: the RBM.
        hidden: ``[..., M, n_h]`` hidden states that the chains start from.
        steps: number of times that the visible units are drawn, at least 1.
        key: uint32 [2]. The draws are numbered from 1 on: 0 is left to the caller, for the hidden units.
    """

    def step(draw: tf.Tensor, h: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        visible = machine.sample_visible(machine.visible_field(h), key, draw)
        return draw + 2, machine.sample_hidden(machine.hidden_field(visible), key, draw + 1)

    # Only the hidden units go round: the last visible units are drawn outside.
    last = 2 * steps - 1
    if steps > 1:
        _, hidden = tf.while_loop(lambda draw, _: draw < last, step, [1, hidden], parallel_iterations=1)
    visible = machine.sample_visible(machine.visible_field(hidden), key, last)
    return ChainState(visible, machine.hidden_field(visible))


def gibbs_from_visible(machine: Machine, hidden_field: tf.Tensor, steps: int, key: tf.Tensor) -> ChainState:
    """``steps`` full Gibbs steps x -> h -> x from visible states whose hidden field is given."""
    return gibbs_from_hidden(machine, machine.sample_hidden(hidden_field, key, 0), steps, key)


def random_visible(machine: Machine, rows: int, key: tf.Tensor, draw: int) -> tf.Tensor:
    """Visible states without any field: fair coins for binary units, the base density for others."""
    bias = machine.visible_bias[..., None, :]
    field = tf.zeros([*static_shape(bias)[:-2], rows, machine.num_visible], bias.dtype)
    return machine.visible.sample(field, uniform(key, draw, static_shape(field), field.dtype))
