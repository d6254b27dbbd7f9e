"""Replica exchange along a trajectory: a ladder of machines of one shape, say moments of a training.

Neighbours of the ladder swap visible states with the probability that leaves the distribution of each as it is. The
first machine has no weights, so that a Gibbs step draws independent samples of it, and its log Z is known; Bennett's
ratio between neighbours gives that of all others.

A machine's parameters are kept as one vector (`packed`), those of a ladder as ``[..., rungs, D]``. Chains have the
rungs as the third axis from the end, ``[..., rungs, M, n_v]``: chain m of one rung swaps with chain m of the next, so
that there are M independent ladders.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from tf_wcd.machine import Machine
from tf_wcd.random import Source
from tf_wcd.sampling.gibbs import gibbs_step
from tf_wcd.shapes import static_shape


class Swapped(NamedTuple):
    """Chains of two machines after an exchange.

    Attributes:
        lower: ``[..., M, n_v]`` states of the lower machine.
        upper: ``[..., M, n_v]`` states of the upper machine.
        upper_field: ``[..., M, n_h]`` their hidden fields in the upper machine.
        acceptance: ``[..., M]`` probability of each exchange.
    """

    lower: tf.Tensor
    upper: tf.Tensor
    upper_field: tf.Tensor
    acceptance: tf.Tensor


class Swept(NamedTuple):
    """Chains of a whole ladder after a Gibbs step of each and exchanges between neighbours.

    Attributes:
        visible: ``[rungs, M, n_v]``.
        lower_work: ``[rungs - 1, M]`` log of the unnormalised probability in the upper machine divided by that in the
            lower one, at states of the lower one: before the exchange.
        upper_work: the same at states of the upper one.
    """

    visible: tf.Tensor
    lower_work: tf.Tensor
    upper_work: tf.Tensor


# Parameters as vectors


def _shapes(machine: Machine) -> list[tuple[str, str, list[int]]]:
    """Where each parameter is, its name, and its shape without leading axes, in a fixed order."""
    members = len(machine.members)
    found = [("machine", name, getattr(machine, name)) for name in ("kernel", "visible_bias", "hidden_bias")]
    for side in ("visible", "hidden"):
        parameters = getattr(machine, side).parameters
        found += [(side, name, parameters[name]) for name in sorted(parameters)]
    return [(side, name, value.shape[members:].as_list()) for side, name, value in found]


def packed(machine: Machine) -> tf.Tensor:
    """All parameters of a machine as one vector, ``[..., D]``."""
    parts = []
    for side, name, shape in _shapes(machine):
        value = getattr(machine, name) if side == "machine" else getattr(machine, side).parameters[name]
        parts.append(tf.reshape(value, [*machine.members, math.prod(shape)]))
    return tf.concat(parts, axis=-1)


def unpacked(like: Machine, parameters: tf.Tensor) -> Machine:
    """The machine, or machines, of parameter vectors ``[..., D]``; the leading axes are theirs."""
    shapes = _shapes(like)
    parts = tf.split(parameters, [math.prod(shape) for *_, shape in shapes], axis=-1)
    values: dict[str, dict[str, tf.Tensor]] = {"machine": {}, "visible": {}, "hidden": {}}
    for (side, name, shape), part in zip(shapes, parts, strict=True):
        values[side][name] = tf.reshape(part, [*static_shape(parameters)[:-1], *shape])
    return dataclasses.replace(
        like,
        visible=like.visible.bind(values["visible"]),
        hidden=like.hidden.bind(values["hidden"]),
        **values["machine"],
    )


# Exchange


def swap(
    lower_machine: Machine, upper_machine: Machine, lower: tf.Tensor, upper: tf.Tensor, uniform: tf.Tensor
) -> Swapped:
    """Exchanges between chains of two machines.

    Args:
        lower_machine: the one machine.
        upper_machine: the other.
        lower: ``[..., M, n_v]`` chains of the one.
        upper: ``[..., M, n_v]`` chains of the other.
        uniform: ``[..., M]`` random numbers.
    """
    work, fields = _work(lower_machine, upper_machine, lower, upper)
    log_ratio = work[0] - work[1]
    accept = (tf.math.log(uniform) < log_ratio)[..., None]
    return Swapped(
        lower=tf.where(accept, upper, lower),
        upper=tf.where(accept, lower, upper),
        upper_field=tf.where(accept, fields[0], fields[1]),
        acceptance=tf.exp(tf.minimum(log_ratio, 0.0)),
    )


def _work(
    lower_machine: Machine, upper_machine: Machine, lower: tf.Tensor, upper: tf.Tensor
) -> tuple[list[tf.Tensor], list[tf.Tensor]]:
    """F_lower - F_upper at both sets of states, and the hidden fields of both in the upper machine."""
    both = tf.concat([lower, upper], axis=-2)
    field = upper_machine.hidden_field(both)
    work = lower_machine.free_energy(both) - upper_machine.free_energy(both, field)
    return tf.split(work, 2, axis=-1), tf.split(field, 2, axis=-2)


def sweep(machines: Machine, visible: tf.Tensor, parity: tf.Tensor, source: Source, draw: tf.Tensor | int = 0) -> Swept:
    """A Gibbs step of all chains of a ladder, and exchanges between every other pair of neighbours; takes three draws.

    Args:
        machines: all machines of the ladder, along a leading axis.
        visible: ``[rungs, M, n_v]``.
        parity: 0 for the pairs (0, 1), (2, 3) and so on, 1 for the others.
        source: random numbers.
        draw: number of the first draw.
    """
    _, visible = gibbs_step(machines, machines.hidden_field(visible), source, draw)
    parameters = packed(machines)
    lower_machines, upper_machines = unpacked(machines, parameters[:-1]), unpacked(machines, parameters[1:])
    (lower, upper), _ = _work(lower_machines, upper_machines, visible[:-1], visible[1:])
    log_ratio = lower - upper
    turn = (tf.range(static_shape(visible)[0] - 1) % 2 == parity)[:, None]
    accept = (tf.math.log(source(draw + 2, log_ratio)) < log_ratio) & turn
    never = tf.zeros_like(accept[:1])
    goes_up, goes_down = tf.concat([accept, never], 0)[..., None], tf.concat([never, accept], 0)[..., None]
    above, below = tf.roll(visible, -1, axis=0), tf.roll(visible, 1, axis=0)
    return Swept(tf.where(goes_up, above, tf.where(goes_down, below, visible)), lower, upper)


def run_sweeps(machines: Machine, visible: tf.Tensor, sweeps: tf.Tensor, source: Source) -> tf.Tensor:
    """Chains of a whole ladder ``[rungs, M, n_v]`` after so many sweeps."""

    def step(i: tf.Tensor, x: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        return i + 1, sweep(machines, x, i % 2, source, 3 * i).visible

    _, visible = tf.while_loop(lambda i, _: i < sweeps, step, [tf.constant(0), visible], parallel_iterations=1)
    return visible


# log Z


def bennett_ladder(lower_work: Any, upper_work: Any) -> tuple[float, float]:
    """log(Z_last / Z_first) of a ladder by Bennett's acceptance ratio of each pair of neighbours, and its error.

    The ratio r of a pair makes the mean of sigmoid(work - r) over states of the lower machine equal to that of
    sigmoid(r - work) over states of the upper one. The M chains are independent ladders, so the error is that of a sum
    of M independent parts: it holds for states that follow each other along a chain, and for pairs that share chains.

    Args:
        lower_work: ``[sweeps, pairs, M]`` of `Swept`.
        upper_work: ``[sweeps, pairs, M]``.

    Example:

    >>> work = np.random.default_rng(0).normal(size=(1, 1, 10_000))  # of densities N(0, 1) and N(1, 1) / 2
    >>> ratio, error = bennett_ladder(work - 0.5 - np.log(2), work + 0.5 - np.log(2))
    >>> abs(ratio + np.log(2)) < 4 * error < 0.1
    True
    """
    lower, upper = np.asarray(lower_work, "float64"), np.asarray(upper_work, "float64")

    def parts(ratio: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """What each chain adds to the equation, and to its derivative, ``[pairs, M]``."""
        up, down = _sigmoid(lower - ratio[:, None]), _sigmoid(ratio[:, None] - upper)
        return (up - down).sum(0), (up * (1 - up) + down * (1 - down)).sum(0)

    low = np.minimum(lower.min((0, 2)), upper.min((0, 2))) - 1.0
    high = np.maximum(lower.max((0, 2)), upper.max((0, 2))) + 1.0
    for _ in range(60):  # halvings, which is all that float64 has
        middle = 0.5 * (low + high)
        positive = parts(middle)[0].sum(-1) > 0
        low, high = np.where(positive, middle, low), np.where(positive, high, middle)
    ratio = 0.5 * (low + high)
    amounts, slopes = parts(ratio)
    count = lower.shape[-1]
    with np.errstate(divide="ignore", invalid="ignore"):  # without overlap nothing is known
        influence = (amounts / slopes.sum(-1, keepdims=True)).sum(0)
        error = math.sqrt(float(np.sum(influence**2)) * count / (count - 1)) if count > 1 else math.inf
    # Where hardly a state of one machine is likely in the other, the error is not known either.
    known = math.isfinite(error) and slopes.sum(-1).min() > 1.0
    return float(ratio.sum()), error if known else math.inf


def _sigmoid(values: np.ndarray) -> np.ndarray:
    return 0.5 * (1.0 + np.tanh(0.5 * values))
