"""Block Gibbs sampling: all hidden units given the visible ones, then all visible units given the hidden ones.

Here are the step and the loop that the whole library samples with: training, `RBMLayer.sample`, Deep Belief Networks,
annealing, the kernel for TensorFlow Probability, and exported models. They work on anything that has the methods
``hidden_field``, ``visible_field``, ``sample_hidden`` and ``sample_visible`` of `Machine`, and on any source of random
numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import tensorflow as tf

from tf_wcd.machine import Machine
from tf_wcd.random import Source
from tf_wcd.shapes import static_shape


class Drawn(NamedTuple):
    """Visible states after a number of Gibbs steps.

    Attributes:
        visible: ``[..., M, n_v]`` the states.
        field: ``[..., M, n_v]`` the field that they were drawn in.
    """

    visible: tf.Tensor
    field: tf.Tensor


def gibbs_step(
    machine: Any, hidden_field: tf.Tensor, source: Source, draw: tf.Tensor | int
) -> tuple[tf.Tensor, tf.Tensor]:
    """Hidden states drawn in their field, and visible states given these; takes two draws."""
    hidden = machine.sample_hidden(hidden_field, source, draw)
    return hidden, machine.sample_visible(machine.visible_field(hidden), source, draw + 1)


def gibbs(
    machine: Any,
    hidden: tf.Tensor,
    steps: tf.Tensor | int,
    source: Source,
    first_draw: tf.Tensor | int = 1,
    hidden_field: Callable[[tf.Tensor], tf.Tensor] | None = None,
    going: Callable[[tf.Tensor, tf.Tensor], tf.Tensor] | None = None,
) -> tf.Tensor:
    """The hidden states from which the visible states of step ``steps`` are drawn.

    Draws x | h and h | x ``steps - 1`` times: only the hidden units go round. The caller draws the last visible units
    from what is returned, see `draw_visible`, with the draw ``first_draw + 2 * (steps - 1)``.

    Args:
        machine: the RBM.
        hidden: ``[..., M, n_h]`` hidden states that the chains start from.
        steps: how often the visible units are drawn, those that the caller draws included; at least 1.
        source: random numbers.
        first_draw: number of the first draw; each step takes two, so that 0 is left for the hidden units of the start.
        hidden_field: field of the hidden units given visible ones that were drawn; the machine's if not given. It is
            where units are held at fixed states.
        going: ``going(i, drawn)`` says which chains make the step i, broadcast to the hidden states; all if not given.
    """
    if isinstance(steps, int) and steps == 1:
        return hidden
    field_of = hidden_field or machine.hidden_field

    def step(i: tf.Tensor, h: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        visible = machine.sample_visible(machine.visible_field(h), source, first_draw + 2 * i)
        drawn = machine.sample_hidden(field_of(visible), source, first_draw + 2 * i + 1)
        return i + 1, drawn if going is None else tf.where(going(i, drawn), drawn, h)

    last = steps - 1
    _, hidden = tf.while_loop(lambda i, _: i < last, step, [tf.constant(0), hidden], parallel_iterations=1)
    return hidden


def draw_visible(machine: Any, hidden: tf.Tensor, source: Source, draw: tf.Tensor | int) -> Drawn:
    """Visible states given hidden ones."""
    field = machine.visible_field(hidden)
    return Drawn(machine.sample_visible(field, source, draw), field)


def gibbs_from_hidden(machine: Machine, hidden: tf.Tensor, steps: tf.Tensor | int, source: Source) -> Drawn:
    """Draws x | h, then (h | x, x | h) ``steps - 1`` times more; draw 0 is left to the caller."""
    return draw_visible(machine, gibbs(machine, hidden, steps, source), source, 2 * steps - 1)


def gibbs_from_visible(machine: Machine, hidden_field: tf.Tensor, steps: tf.Tensor | int, source: Source) -> Drawn:
    """``steps`` full Gibbs steps x -> h -> x from visible states whose hidden field is given."""
    return gibbs_from_hidden(machine, machine.sample_hidden(hidden_field, source, 0), steps, source)


def run_chains(machine: Machine, visible: tf.Tensor, held: tf.Tensor | None, steps: tf.Tensor, source: Source) -> Drawn:
    """Chains that are run to their end, with part of the visible units held if wished.

    Args:
        machine: the RBM.
        visible: ``[M, n_v]`` states to start from.
        held: ``[M, n_v]``, true where a unit stays as it is; ``None`` if all move.
        steps: Gibbs steps, 0 or more; a tensor, so that another number does not compile again.
        source: random numbers.

    Returns:
        The states, and the field that those which are not held were drawn in: after no steps, that of a first step.
    """

    def put_back(drawn: tf.Tensor) -> tf.Tensor:
        return drawn if held is None else tf.where(held, visible, drawn)

    first = machine.sample_hidden(machine.hidden_field(visible), source, 0)
    least = tf.maximum(steps, 1)
    hidden = gibbs(machine, first, least, source, hidden_field=lambda x: machine.hidden_field(put_back(x)))
    drawn = draw_visible(machine, hidden, source, 2 * least - 1)
    return Drawn(tf.where(steps > 0, put_back(drawn.visible), visible), drawn.field)


def random_visible(machine: Machine, rows: int | tf.Tensor, source: Source, draw: int) -> tf.Tensor:
    """Visible states without any field: fair coins for binary units, the base density for others."""
    bias = machine.visible_bias[..., None, :]
    field = tf.zeros([*static_shape(bias)[:-2], rows, machine.num_visible], bias.dtype)
    return machine.sample_visible(field, source, draw)
