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
        visible_field: ``[..., M, n_v]`` the field from which ``visible`` was drawn.
    """

    visible: tf.Tensor
    hidden_field: tf.Tensor
    visible_field: tf.Tensor


def gibbs_from_hidden(
    machine: Machine, hidden: tf.Tensor, steps: int, key: tf.Tensor, first_draw: int = 1
) -> ChainState:
    """Draws x | h, then (h | x, x | h) ``steps - 1`` times more.

    Args:
        machine: the RBM.
        hidden: ``[..., M, n_h]`` hidden states that the chains start from.
        steps: number of times that the visible units are drawn, at least 1.
        key: uint32 [2].
        first_draw: number of the first random draw under this key; ``2 * steps - 1`` numbers are used.
    """

    def draw_visible(h: tf.Tensor, draw: tf.Tensor | int) -> ChainState:
        visible_field = machine.visible_field(h)
        visible = machine.sample_visible(visible_field, key, draw)
        return ChainState(visible, machine.hidden_field(visible), visible_field)

    def step(i: tf.Tensor, state: ChainState) -> tuple[tf.Tensor, ChainState]:
        draw = first_draw + 2 * i
        h = machine.sample_hidden(state.hidden_field, key, draw - 1)
        return i + 1, draw_visible(h, draw)

    state = draw_visible(hidden, first_draw)
    if steps > 1:
        _, state = tf.while_loop(lambda i, _: i < steps, step, [tf.constant(1), state], parallel_iterations=1)
    return state


def gibbs_from_visible(machine: Machine, hidden_field: tf.Tensor, steps: int, key: tf.Tensor) -> ChainState:
    """``steps`` full Gibbs steps x -> h -> x from visible states whose hidden field is given."""
    return gibbs_from_hidden(machine, machine.sample_hidden(hidden_field, key, 0), steps, key)


def random_visible(machine: Machine, rows: int, key: tf.Tensor, draw: int) -> tf.Tensor:
    """Visible states without any field: fair coins for binary units, the base density for others."""
    bias = machine.visible_bias[..., None, :]
    field = tf.zeros([*static_shape(bias)[:-2], rows, machine.num_visible], bias.dtype)
    return machine.visible.sample(field, uniform(key, draw, static_shape(field), field.dtype))
