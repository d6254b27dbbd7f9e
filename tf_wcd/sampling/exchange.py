"""Replica exchange: chains at several temperatures that swap their states, so that those of the model cross its modes.

The temperatures are those of `tf_wcd.sampling.annealing`, from independent units at 0 to the model at 1. States of
neighbours are exchanged with the probability that leaves the distribution of each temperature as it is. It is computed
for visible states alone, the hidden units summed out: that accepts more than an exchange of pairs of both.

Arrays have the temperatures as the third axis from the end, ``[..., R, M, units]``: chain m of one temperature swaps
with chain m of the next, so that there are M independent ladders.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import tensorflow as tf

from tf_wcd.machine import Machine
from tf_wcd.random import Source
from tf_wcd.shapes import static_shape


class Exchanged(NamedTuple):
    """Chains at all temperatures after a step of Gibbs sampling and one of exchange.

    Attributes:
        visible: ``[..., R, M, n_v]``.
        hidden: ``[..., R, M, n_h]``, drawn given ``visible`` at each temperature.
        hidden_field: ``[..., R, M, n_h]`` c + W x of the model, at no temperature.
        acceptance: ``[..., R - 1, M]`` probability of each pair of neighbours to be exchanged; NaN where it was not
            the pair's turn.
    """

    visible: tf.Tensor
    hidden: tf.Tensor
    hidden_field: tf.Tensor
    acceptance: tf.Tensor


class Ladder(NamedTuple):
    """A machine at several temperatures.

    Attributes:
        machine: the RBM.
        base_bias: ``[..., n_v]`` visible bias at temperature 0.
        temperatures: ``[R]`` inverse temperatures, from 0 or more up to 1.
    """

    machine: Machine
    base_bias: tf.Tensor
    temperatures: tf.Tensor

    @property
    def rungs(self) -> int:
        """Number of temperatures."""
        return self.temperatures.shape[0]

    def of_rows(self, values: tf.Tensor, rows: int | tf.Tensor) -> tf.Tensor:
        """A number of each temperature, ``[R]``, for each of its chains: ``[R * rows, 1]``."""
        return tf.repeat(values, rows)[:, None]

    def sample_visible(self, hidden: tf.Tensor, source: Source, draw: tf.Tensor | int) -> tf.Tensor:
        """Visible states ``[..., R, M, n_v]`` given hidden ones, each at its temperature."""
        rows = flat(hidden)
        base = self.base_bias[..., None, :]
        beta = self.of_rows(self.temperatures, static_shape(hidden)[-2])
        field = base + beta * (self.machine.visible_field(rows) - base)
        return self.stacked(self.machine.sample_visible(field, source, draw))

    def sample_hidden(self, hidden_field: tf.Tensor, source: Source, draw: tf.Tensor | int) -> tf.Tensor:
        """Hidden states given c + W x of the model, each at its temperature; all ``[..., R, M, n_h]``."""
        beta = self.of_rows(self.temperatures, static_shape(hidden_field)[-2])
        return self.stacked(self.machine.sample_hidden(beta * flat(hidden_field), source, draw))

    def log_density(self, visible: tf.Tensor, hidden_field: tf.Tensor, temperatures: tf.Tensor) -> tf.Tensor:
        """Log-probability of states ``[..., R, M]`` at the given temperatures, up to what all temperatures share."""
        beta = self.of_rows(temperatures, static_shape(visible)[-2])
        rows = flat(visible)
        tilt = tf.matmul(rows, (self.machine.visible_bias - self.base_bias)[..., None])[..., 0]
        total = beta[:, 0] * tilt + self.machine.hidden.total_cumulant(beta * flat(hidden_field))
        return tf.reshape(total, static_shape(visible)[:-1])

    def stacked(self, rows: tf.Tensor) -> tf.Tensor:
        """``[..., R * M, n]`` -> ``[..., R, M, n]``."""
        *members, count, width = static_shape(rows)
        return tf.reshape(rows, [*members, self.rungs, count // self.rungs, width])


def flat(values: tf.Tensor) -> tf.Tensor:
    """``[..., R, M, n]`` -> ``[..., R * M, n]``: rows of one matrix product."""
    *members, rungs, chains, width = static_shape(values)
    return tf.reshape(values, [*members, rungs * chains, width])


def exchange_step(
    ladder: Ladder,
    hidden: tf.Tensor,
    parity: tf.Tensor,
    source: Source,
    draw: tf.Tensor | int = 0,
    hidden_field: Callable[[tf.Tensor], tf.Tensor] | None = None,
    put_back: Callable[[tf.Tensor], tf.Tensor] | None = None,
) -> Exchanged:
    """Visible states given hidden ones, exchanges between neighbours, and new hidden states; takes three draws.

    Pairs take turns: with ``parity`` 0 the temperatures (0, 1), (2, 3) and so on, with 1 the others. A state then
    travels along the ladder, where pairs chosen at random would let it diffuse.

    Args:
        ladder: the machine at its temperatures.
        hidden: ``[..., R, M, n_h]``.
        parity: int32, which pairs have their turn.
        source: random numbers.
        draw: number of the first draw.
        hidden_field: c + W x of rows ``[..., R * M, n_v]``; the machine's if not given.
        put_back: puts units that are held back to their states, in ``[..., R, M, n_v]``.
    """
    visible = ladder.sample_visible(hidden, source, draw)
    if put_back is not None:
        visible = put_back(visible)
    field = ladder.stacked((hidden_field or ladder.machine.hidden_field)(flat(visible)))
    visible, field, acceptance = _swapped(ladder, visible, field, parity, source, draw + 1)
    return Exchanged(visible, ladder.sample_hidden(field, source, draw + 2), field, acceptance)


def _swapped(
    ladder: Ladder, visible: tf.Tensor, field: tf.Tensor, parity: tf.Tensor, source: Source, draw: tf.Tensor | int
) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """Visible states and fields after the exchanges, and their probabilities; see `Exchanged`."""
    rungs = tf.range(ladder.rungs)
    lower = (rungs + parity) % 2 == 0
    partner = tf.where(lower, rungs + 1, rungs - 1)
    partner = tf.where((partner < 0) | (partner == ladder.rungs), rungs, partner)

    def other(values: tf.Tensor, axis: int) -> tf.Tensor:
        return tf.gather(values, partner, axis=axis)

    stays = ladder.log_density(visible, field, ladder.temperatures)
    goes = ladder.log_density(visible, field, other(ladder.temperatures, 0))
    log_ratio = goes - stays
    log_ratio += other(log_ratio, -2)
    # Both of a pair look at the random number of the lower one.
    chance = tf.gather(source(draw, log_ratio), tf.minimum(rungs, partner), axis=-2)
    accept = ((tf.math.log(chance) < log_ratio) & (partner != rungs)[:, None])[..., None]
    turn = (lower & (partner != rungs))[:-1, None]
    acceptance = tf.where(turn, tf.exp(tf.minimum(log_ratio[..., :-1, :], 0.0)), float("nan"))
    return tf.where(accept, other(visible, -3), visible), tf.where(accept, other(field, -3), field), acceptance


def exchange(
    ladder: Ladder,
    hidden: tf.Tensor,
    steps: tf.Tensor | int,
    source: Source,
    parity: tf.Tensor | int = 0,
    put_back: Callable[[tf.Tensor], tf.Tensor] | None = None,
) -> tf.Tensor:
    """Hidden states ``[..., R, M, n_h]`` after so many steps, each of Gibbs sampling and of exchange.

    Draws count from 0, three for each step; ``parity`` is that of the first one.
    """

    def step(i: tf.Tensor, h: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        return i + 1, exchange_step(ladder, h, (parity + i) % 2, source, 3 * i, put_back=put_back).hidden

    _, hidden = tf.while_loop(lambda i, _: i < steps, step, [tf.constant(0), hidden], parallel_iterations=1)
    return hidden


def run_ladder(
    ladder: Ladder, visible: tf.Tensor, held: tf.Tensor | None, steps: tf.Tensor, source: Source
) -> tf.Tensor:
    """Chains of the model ``[M, n_v]`` after steps of exchange with other temperatures, all from the same states.

    Args:
        ladder: one machine at its temperatures.
        visible: ``[M, n_v]`` states to start from, at each temperature.
        held: ``[M, n_v]``, true where a unit stays as it is; ``None`` if all move.
        steps: number of steps, 0 or more.
        source: random numbers.
    """
    start = tf.repeat(visible[None], ladder.rungs, axis=0)

    def put_back(drawn: tf.Tensor) -> tf.Tensor:
        return drawn if held is None else tf.where(held, start, drawn)

    field = ladder.machine.hidden_field(visible)
    # The last number of a 32-bit counter but one: the steps count from 0.
    hidden = ladder.sample_hidden(tf.repeat(field[None], ladder.rungs, axis=0), source, 2**32 - 2)
    hidden = exchange(ladder, hidden, steps - 1, source, put_back=put_back)
    last = exchange_step(ladder, hidden, (steps - 1) % 2, source, 3 * (steps - 1), put_back=put_back)
    return tf.where(steps > 0, last.visible[-1], visible)
