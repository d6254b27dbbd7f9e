"""Gibbs chains of a served model: each row has its own seed and its own number of steps."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import NamedTuple

import tensorflow as tf

from tf_wcd.export.exact_sums import ExactSumMachine
from tf_wcd.row_random import row_keys

# What a row's random numbers are for. Those of `gibbs` and `clamp` are the same: nothing held is nothing clamped.
START, UP, DOWN, SAMPLE_CHAIN, GIBBS_CHAIN = range(5)


class Drawn(NamedTuple):
    """Visible states, filled up, and the field that they were drawn from."""

    visible: tf.Tensor
    field: tf.Tensor


def starting_states(machine: ExactSumMachine, means: tf.Tensor, seeds: tf.Tensor) -> tf.Tensor:
    """Independent visible units with the given means, ``[filled-up units]``."""
    keys = row_keys(seeds, START)
    field = tf.cast(machine.visible.field_of(means[None, :]), machine.dtype)
    rows = tf.shape(seeds)[0]
    return machine.sample_visible(tf.repeat(field, rows, axis=0), keys, 0)


def run_chain(
    machine: ExactSumMachine,
    first_field: tf.Tensor,
    steps: tf.Tensor | int,
    keys: tf.Tensor,
    held_field: tf.Tensor | None = None,
    free: tf.Tensor | None = None,
) -> Drawn:
    """Visible states after so many Gibbs steps.

    Args:
        machine: the RBM.
        first_field: hidden field of the states that the chains start from, of the chain's type.
        steps: at least 1: one number for all rows or int32 ``[rows]``. Rows with fewer steps wait for the others.
        keys: uint32 ``[rows, 2]``.
        held_field: c + W x of the units that are held, where there are any.
        free: 1 for the units that are drawn and 0 for those that are held, of the chain's type.
    """
    hidden = tf.transpose(machine.sample_hidden(first_field, keys, 0))
    same = isinstance(steps, int)
    last = steps - 1 if same else tf.maximum(tf.reduce_max(steps), 1) - 1  # the maximum of no rows is far below zero
    constant = machine.chain.hidden_bias[:, None] if held_field is None else tf.transpose(held_field)
    mask = None if free is None else tf.transpose(free)

    def step(i: tf.Tensor, h: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        visible = machine.sample_visible_columns(machine.chain.visible_columns(h), keys, 2 * i + 1)
        field = machine.chain.hidden_columns(visible if mask is None else visible * mask) + constant
        drawn = machine.sample_hidden_columns(field, keys, 2 * i + 2)
        return i + 1, drawn if same else tf.where((i + 1 < steps)[None, :], drawn, h)

    # The hidden units go round; the last visible units are drawn from them at the end, under each row's own number.
    _, hidden = tf.while_loop(lambda i, _: i < last, step, [tf.constant(0), hidden], parallel_iterations=1)
    field = machine.chain.visible_field(tf.transpose(hidden))
    return Drawn(machine.sample_visible(field, keys, 2 * steps - 1), field)


def pass_up(machines: Sequence[ExactSumMachine], states: tf.Tensor, seeds: tf.Tensor) -> tf.Tensor:
    """Hidden field of the last machine, each lower layer's hidden units having been drawn given the layer below."""
    keys = row_keys(seeds, UP)
    field = machines[0].start_field(states)
    for number, (lower, upper) in enumerate(itertools.pairwise(machines)):
        drawn = _between(lower, upper, lower.sample_hidden(field, keys, number))
        field = upper.chain.hidden_field(drawn)
    return field


def pass_down(machines: Sequence[ExactSumMachine], drawn: Drawn, seeds: tf.Tensor) -> Drawn:
    """Visible units of the first machine, drawn layer by layer given those of the last."""
    keys = row_keys(seeds, DOWN)
    for number in range(len(machines) - 2, -1, -1):
        hidden = _between(machines[number + 1], machines[number], drawn.visible)
        field = machines[number].chain.visible_field(hidden)
        drawn = Drawn(machines[number].sample_visible(field, keys, number), field)
    return drawn


def _between(source: ExactSumMachine, target: ExactSumMachine, states: tf.Tensor) -> tf.Tensor:
    return states if source.dtype == target.dtype else tf.cast(states, target.dtype)
