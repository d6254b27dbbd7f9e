"""Gibbs chains of a served model: each row has a seed and a number of steps."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import tensorflow as tf

from tf_wcd.export.exact_sums import ExactSumMachine
from tf_wcd.random import Source, column_source, column_uniform, row_keys, row_source
from tf_wcd.sampling import Drawn, draw_visible, gibbs
from tf_wcd.sampling.exact import choose
from tf_wcd.sampling.passes import pass_down, pass_up

# What a row's random numbers are for. Those of `gibbs` and `clamp` are the same: nothing held is nothing clamped.
START, UP, DOWN, SAMPLE_CHAIN, GIBBS_CHAIN, CONDITIONAL_CHAIN = range(6)


def starting_states(machine: ExactSumMachine, means: tf.Tensor, seeds: tf.Tensor) -> tf.Tensor:
    """Independent visible units with the given means, float64 ``[padded units]``, as compact rows."""
    field = tf.cast(machine.visible.unit.field_of(means[None, :]), machine.dtype)
    field = tf.repeat(field, tf.shape(seeds)[0], axis=0)
    source = row_source(row_keys(seeds, START))
    return machine.visible.compact(machine.visible.sample(field, source(0, field)))


def picked_states(
    states: tf.Tensor, cumulative: tf.Tensor, seeds: tf.Tensor, groups: tf.Tensor | None = None
) -> tf.Tensor:
    """One of the states for each row, picked with the states' probabilities.

    Args:
        states: ``[n, units]``.
        cumulative: their probabilities, summed up to each one, float64 ``[n]``. With groups, those of a state within
            its group, and the number of the group added.
        seeds: int64 ``[rows]``.
        groups: int64 ``[rows]``, the group of states that each row picks from.
    """
    keys = row_keys(seeds, START)

    def numbers(draw: tf.Tensor | int, like: tf.Tensor) -> tf.Tensor:
        return tf.cast(column_uniform(keys, draw, 1)[0], like.dtype)

    return tf.gather(states, choose(cumulative, tf.shape(seeds)[0], numbers, groups))


def run_chain(
    machine: ExactSumMachine,
    first_field: tf.Tensor,
    steps: tf.Tensor | int,
    source: Source,
    hidden_field: Callable[[tf.Tensor], tf.Tensor] | None = None,
    first_draw: tf.Tensor | int = 0,
) -> Drawn:
    """Visible states after so many Gibbs steps, as compact rows, and their field as padded rows.

    Args:
        machine: the RBM.
        first_field: hidden field of the states that the chains start from: padded rows, of the chain's type.
        steps: at least 1: one number for all rows, or int32 ``[rows]``. Rows with fewer steps wait for the others.
        source: random numbers for transposed fields.
        hidden_field: hidden field of transposed visible states, where some are held: see `held_field`.
        first_draw: number of the first draw; a step takes two.
    """
    hidden = machine.sample_hidden(tf.transpose(first_field), source, first_draw)
    if hidden_field is None:
        bias = machine.chain.hidden_bias[:, None]  # read once, outside of the loop

        def hidden_field(visible: tf.Tensor) -> tf.Tensor:
            return machine.hidden_product(visible) + bias

    going = None
    most = steps
    if not isinstance(steps, int):
        most = tf.maximum(tf.reduce_max(steps), 1)  # the maximum of no rows is far below zero

        def going(i: tf.Tensor, _: tf.Tensor) -> tf.Tensor:
            return (i + 1 < steps)[None, :]

    hidden = gibbs(machine, hidden, most, source, first_draw + 1, hidden_field, going)
    # The last visible units are drawn under the number that each row's steps have come to.
    drawn = draw_visible(machine, hidden, source, first_draw + 2 * steps - 1)
    return Drawn(machine.visible.compact(tf.transpose(drawn.visible)), tf.transpose(drawn.field))


def held_field(machine: ExactSumMachine, states: tf.Tensor, held: tf.Tensor) -> Callable[[tf.Tensor], tf.Tensor]:
    """The hidden field of transposed visible states, part of which is held.

    Args:
        machine: the RBM.
        states: `ExactSumMachine.states` of the rows.
        held: of the same shape and type, 1 where a unit stays at its state and 0 elsewhere.
    """
    constant = tf.transpose(machine.start_field(states * held))
    free = tf.transpose(tf.cast(1.0 - held, machine.dtype))
    return lambda drawn: machine.hidden_product(drawn * free) + constant


class InStack:
    """A machine as the passes up and down a stack take it: states are compact rows, fields padded rows.

    Args:
        machine: the RBM.
        reads_data: whether its visible states may be anything in their range, and not only what was drawn.
    """

    def __init__(self, machine: ExactSumMachine, reads_data: bool = False) -> None:
        self.machine, self.reads_data = machine, reads_data or not machine.visible.whole

    def hidden_field(self, visible: tf.Tensor) -> tf.Tensor:
        if self.reads_data:
            return self.machine.start_field(self.machine.states(visible))
        return self.machine.chain.hidden_field(self.machine.visible.pad(tf.cast(visible, self.machine.dtype)))

    def visible_field(self, hidden: tf.Tensor) -> tf.Tensor:
        side = self.machine.hidden
        return self.machine.chain.visible_field(side.in_steps(side.pad(tf.cast(hidden, self.machine.dtype))))

    def sample_hidden(self, field: tf.Tensor, source: Source, draw: tf.Tensor | int) -> tf.Tensor:
        return self.machine.hidden.compact(self.machine.hidden.sample(field, source(draw, field)))

    def sample_visible(self, field: tf.Tensor, source: Source, draw: tf.Tensor | int) -> tf.Tensor:
        return self.machine.visible.compact(self.machine.visible.sample(field, source(draw, field)))


class Stack:
    """RBMs on each other, of which the last one is sampled.

    Args:
        upward: the RBMs as they read data, the first one nearest to the data.
        downward: those below the last one as they generate data.
    """

    def __init__(self, upward: Sequence[ExactSumMachine], downward: Sequence[ExactSumMachine]) -> None:
        self.top = upward[-1]
        self._upward = [InStack(machine, reads_data=number == 0) for number, machine in enumerate(upward)]
        self._downward = [InStack(machine) for machine in downward]

    def top_field(
        self, visible: tf.Tensor, labels: tf.Tensor, seeds: tf.Tensor, first_draw: tf.Tensor | int = 0
    ) -> tf.Tensor:
        """Hidden field of the top RBM, the layers below it having been drawn given the data.

        Args:
            visible: data, compact rows.
            labels: states of the top RBM's labels, ``[rows, classes]``.
            seeds: int64 ``[rows]``.
            first_draw: number of the first draw; each layer below the top takes one.
        """
        *below, top = self._upward
        states = pass_up(below, visible, _from(first_draw, row_source(row_keys(seeds, UP))))[-1]
        if self.top.classes:
            states = tf.concat([states, tf.cast(labels, states.dtype)], axis=1)
        return top.hidden_field(states)

    def down(self, drawn: Drawn, seeds: tf.Tensor, first_draw: tf.Tensor | int = 0) -> Drawn:
        """Visible units of the first RBM, drawn layer by layer given those of the last; labels are left out."""
        own = Drawn(drawn.visible[:, : self.top.num_visible], drawn.field)
        return pass_down(self._downward, own, _from(first_draw, row_source(row_keys(seeds, DOWN))))

    def fill_in(
        self, visible: tf.Tensor, held: tf.Tensor, labels: tf.Tensor, steps: tf.Tensor, seeds: tf.Tensor
    ) -> Drawn:
        """So many rounds: a pass up, one Gibbs step in the top RBM, a pass down, held units put back.

        Args:
            visible: data at the start, compact rows in double precision.
            held: true where they stay as they are.
            labels: states of the top RBM's labels at the start; they are drawn anew in each round.
            steps: int32 ``[rows]``, the rounds of each row.
            seeds: int64 ``[rows]``.
        """
        layers = len(self._upward)
        source = column_source(row_keys(seeds, GIBBS_CHAIN))

        def one_round(i: tf.Tensor, x: tf.Tensor, field: tf.Tensor, y: tf.Tensor) -> tuple[tf.Tensor, ...]:
            above = run_chain(self.top, self.top_field(x, y, seeds, i * layers), 1, source, first_draw=2 * i)
            below = self.down(above, seeds, i * layers)
            going = (i < steps)[:, None]
            drawn = tf.where(held, x, tf.cast(below.visible, x.dtype))
            return (
                i + 1,
                tf.where(going, drawn, x),
                tf.where(going, below.field, field),
                tf.where(going, above.visible[:, self.top.num_visible :], y),
            )

        bottom = self._downward[0].machine if self._downward else self.top
        field = tf.zeros([tf.shape(visible)[0], bottom.visible.width], bottom.dtype)
        start = [tf.constant(0), visible, field, tf.cast(labels, self.top.dtype)]
        last = tf.reduce_max(steps)
        _, visible, field, _ = tf.while_loop(lambda i, *_: i < last, one_round, start, parallel_iterations=1)
        return Drawn(visible, field)


def _from(first_draw: tf.Tensor | int, source: Source) -> Source:
    """The source with draws that are counted from another number on."""
    return lambda draw, field: source(first_draw + draw, field)
