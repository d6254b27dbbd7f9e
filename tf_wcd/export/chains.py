"""Gibbs chains of a served model: each row has its own seed and its own number of steps."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import NamedTuple

import tensorflow as tf

from tf_wcd.export.exact_sums import ExactSumMachine
from tf_wcd.random import column_uniform, row_keys

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


def picked_states(states: tf.Tensor, cumulative: tf.Tensor, seeds: tf.Tensor) -> tf.Tensor:
    """One of the states for each row, ``[rows, filled-up units]``, picked with the states' probabilities.

    Args:
        states: ``[n, filled-up units]``.
        cumulative: their probabilities, summed up to each one, float64 ``[n]``.
        seeds: int64 ``[rows]``.
    """
    # Two numbers of 23 bits make one that is fine enough for probabilities of 1e-13.
    coarse, fine = tf.unstack(tf.cast(column_uniform(row_keys(seeds, START), 0, 2), tf.float64))
    uniform = coarse + (fine - 0.5) * 2.0**-23
    number = tf.searchsorted(cumulative, uniform, side="right")
    return tf.gather(states, tf.minimum(number, tf.shape(cumulative)[0] - 1))


def run_chain(
    machine: ExactSumMachine,
    first_field: tf.Tensor,
    steps: tf.Tensor | int,
    keys: tf.Tensor,
    held_field: tf.Tensor | None = None,
    free: tf.Tensor | None = None,
    first_draw: tf.Tensor | int = 0,
) -> Drawn:
    """Visible states after so many Gibbs steps.

    Args:
        machine: the RBM.
        first_field: hidden field of the states that the chains start from, of the chain's type.
        steps: at least 1: one number for all rows or int32 ``[rows]``. Rows with fewer steps wait for the others.
        keys: uint32 ``[rows, 2]``.
        held_field: c + W x of the units that are held, where there are any.
        free: 1 for the units that are drawn and 0 for those that are held, of the chain's type.
        first_draw: number of the first draw; a step takes two.
    """
    hidden = tf.transpose(machine.sample_hidden(first_field, keys, first_draw))
    same = isinstance(steps, int)
    last = steps - 1 if same else tf.maximum(tf.reduce_max(steps), 1) - 1  # the maximum of no rows is far below zero
    constant = machine.chain.hidden_bias[:, None] if held_field is None else tf.transpose(held_field)
    mask = None if free is None else tf.transpose(free)

    def step(i: tf.Tensor, h: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        visible = machine.sample_visible_columns(machine.chain.visible_columns(h), keys, first_draw + 2 * i + 1)
        field = machine.chain.hidden_columns(visible if mask is None else visible * mask) + constant
        drawn = machine.sample_hidden_columns(field, keys, first_draw + 2 * i + 2)
        return i + 1, drawn if same else tf.where((i + 1 < steps)[None, :], drawn, h)

    # The hidden units go round; the last visible units are drawn from them at the end, under each row's own number.
    _, hidden = tf.while_loop(lambda i, _: i < last, step, [tf.constant(0), hidden], parallel_iterations=1)
    field = machine.chain.visible_field(tf.transpose(hidden))
    return Drawn(machine.sample_visible(field, keys, first_draw + 2 * steps - 1), field)


def pass_up(
    machines: Sequence[ExactSumMachine],
    states: tf.Tensor,
    seeds: tf.Tensor,
    labels: tf.Tensor | None = None,
    first_draw: tf.Tensor | int = 0,
) -> tf.Tensor:
    """Hidden field of the last machine, each lower layer's hidden units having been drawn given the layer below.

    Args:
        machines: the RBMs as they read data, the first one nearest to the data.
        states: of the first one's visible units, in double precision.
        seeds: int64 ``[rows]``.
        labels: states of the last machine's labels, where it has any.
        first_draw: number of the first draw; each layer but the last takes one.
    """
    keys = row_keys(seeds, UP)
    field = machines[0].start_field(_with_labels(machines[0], states, labels))
    for number, (lower, upper) in enumerate(itertools.pairwise(machines)):
        drawn = _between(lower, upper, lower.sample_hidden(field, keys, first_draw + number))
        field = upper.chain.hidden_field(_with_labels(upper, drawn, labels))
    return field


def pass_down(
    machines: Sequence[ExactSumMachine], drawn: Drawn, seeds: tf.Tensor, first_draw: tf.Tensor | int = 0
) -> Drawn:
    """Visible units of the first machine, drawn layer by layer given those of the last; labels are left out.

    Args:
        machines: the RBMs as they generate data, the first one nearest to the data.
        drawn: visible units of the last one.
        seeds: int64 ``[rows]``.
        first_draw: number of the first draw; each layer but the last takes one.
    """
    keys = row_keys(seeds, DOWN)
    drawn = Drawn(*(part[:, : machines[-1].own_width] for part in drawn))
    for number in range(len(machines) - 2, -1, -1):
        hidden = _between(machines[number + 1], machines[number], drawn.visible)
        field = machines[number].chain.visible_field(hidden)
        drawn = Drawn(machines[number].sample_visible(field, keys, first_draw + number), field)
    return drawn


def fill_in(
    upward: Sequence[ExactSumMachine],
    downward: Sequence[ExactSumMachine],
    states: tf.Tensor,
    held: tf.Tensor,
    labels: tf.Tensor | None,
    steps: tf.Tensor,
    seeds: tf.Tensor,
) -> Drawn:
    """So many rounds through a stack: a pass up, one Gibbs step in the top RBM, a pass down, held units put back.

    Args:
        upward: the RBMs as they read data.
        downward: the RBMs as they generate data; the last one is the same.
        states: of the visible units at the start, in double precision.
        held: true where they stay as they are.
        labels: states of the top RBM's labels at the start, where it has any; they are drawn anew in each round.
        steps: int32 ``[rows]``, the rounds of each row.
        seeds: int64 ``[rows]``.
    """
    top, layers = upward[-1], len(upward)
    keys = row_keys(seeds, GIBBS_CHAIN)

    def one_round(i: tf.Tensor, x: tf.Tensor, field: tf.Tensor, y: tf.Tensor) -> tuple[tf.Tensor, ...]:
        top_field = pass_up(upward, x, seeds, y, first_draw=i * layers)
        above = run_chain(top, top_field, 1, keys, first_draw=2 * i)
        below = pass_down(downward, above, seeds, first_draw=i * layers)
        going = (i < steps)[:, None]
        drawn = tf.where(held, x, tf.cast(below.visible, x.dtype))
        return (
            i + 1,
            tf.where(going, drawn, x),
            tf.where(going, below.field, field),
            tf.where(going, above.visible[:, top.own_width :], y),
        )

    rows, bottom = tf.shape(states)[0], downward[0]
    y = tf.zeros([rows, 0], top.dtype) if labels is None else labels
    start = [tf.constant(0), states, tf.zeros([rows, bottom.own_width], bottom.dtype), y]
    last = tf.reduce_max(steps)
    _, states, field, _ = tf.while_loop(lambda i, *_: i < last, one_round, start, parallel_iterations=1)
    return Drawn(states, field)


def _with_labels(machine: ExactSumMachine, states: tf.Tensor, labels: tf.Tensor | None) -> tf.Tensor:
    return tf.concat([states, tf.cast(labels, states.dtype)], axis=1) if machine.labels else states


def _between(source: ExactSumMachine, target: ExactSumMachine, states: tf.Tensor) -> tf.Tensor:
    return states if source.dtype == target.dtype else tf.cast(states, target.dtype)
