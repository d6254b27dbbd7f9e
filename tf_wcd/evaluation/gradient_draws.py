"""Many steps of a negative phase at fixed parameters, and the sums that their errors follow from."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import tensorflow as tf

from tf_wcd.enumeration import smaller_side
from tf_wcd.machine import Machine
from tf_wcd.negative_phases import NegativePhase, State
from tf_wcd.negative_phases.composition import start as first_state
from tf_wcd.programs import machine_with, parameters_of
from tf_wcd.random import batch_source, subkey, uniform
from tf_wcd.sampling import exact_sampler, gibbs_from_visible
from tf_wcd.sampling.exact import choose
from tf_wcd.training.gradient import Gradient, Offsets
from tf_wcd.training.step import gradient_of, phases_of
from tf_wcd.units import Unit
from tf_wcd.xla import compiled

if TYPE_CHECKING:
    from tf_wcd.layer import RBMLayer

GROUPS = 20  # of draws, whose spread gives the standard errors
_STEP, _ROWS, _STATE, _SAMPLES = range(4)  # purposes of random numbers, each with another key


class Sums(NamedTuple):
    """Sums over draws, group by group; S is the whole gradient, and then each parameter.

    Attributes:
        counts: ``[G]`` number of draws.
        errors: ``[G, P]`` step minus exact gradient.
        squares: ``[G, S]`` their squared lengths.
        cosines: ``[G, S]`` cosines of the angle between the two.
    """

    counts: Any
    errors: Any
    squares: Any
    cosines: Any


@dataclasses.dataclass(frozen=True)
class Draws:
    """Draws of steps on batches of the data.

    Attributes:
        rbm: the model.
        x: ``[N, n_v]`` the data.
        weights: ``[N]`` their sample weights, of mean one.
        batch_size: examples in the batch of a draw.
        start: where persistent chains start; see `tf_wcd.evaluation.gradient_error`.
        key: uint32 [2].
    """

    rbm: RBMLayer
    x: tf.Tensor
    weights: tf.Tensor
    batch_size: int
    start: str | int
    key: tf.Tensor

    def sums(self, phase: NegativePhase, exact: tf.Tensor, parts: np.ndarray, repetitions: int) -> Sums:
        """What many steps of a phase add up to.

        Args:
            phase: the negative phase.
            exact: ``[P]`` the exact gradient, float64.
            parts: ``[P, S]``, 1 where a parameter belongs to a part.
            repetitions: number of draws.
        """
        rbm, machine = self.rbm, self.rbm.machine()
        phase.validate(machine)
        state, samples, steps = self._chains(phase, machine, repetitions)
        run = _program(phase, rbm.visible_unit, rbm.hidden_unit, machine.product_dtype, self.batch_size, steps)
        result = run(
            parameters_of(machine), rbm.offsets(), self.x, self.weights, state, samples, exact, parts, self.key,
            tf.constant(repetitions),
        )  # fmt: skip
        return Sums(*(value.numpy() for value in result))

    def _chains(self, phase: NegativePhase, machine: Machine, repetitions: int) -> tuple[State, Any, int | None]:
        """Where persistent chains start: a state, or numbers of exact samples, or steps from where the phase starts."""
        first = first_state(phase, machine, self.key, self.batch_size)
        if not first:
            return {}, None, None
        if self.start == "own" and self.rbm.has_phase_state() and same_phase(phase, self.rbm.negative_phase):
            return {name: tf.convert_to_tensor(value) for name, value in self.rbm.chain_states().items()}, None, None
        if "visible" not in first:
            return {}, None, 0
        if not isinstance(self.start, str):
            return {}, None, self.start
        # In one call before the loop: a search among all states is slow inside of what XLA compiles.
        chains = first["visible"].shape[-2]
        numbers = choose(
            exact_sampler(machine).cumulative, repetitions * chains, batch_source(subkey(self.key, _SAMPLES))
        )
        return {}, tf.reshape(numbers, [repetitions, chains]), None


def same_phase(one: NegativePhase, other: NegativePhase) -> bool:
    """Whether two phases are one object, or of one class with the same configuration."""
    return one is other or (
        type(one) is type(other) and bool(one.get_config()) and one.get_config() == other.get_config()
    )


def as_vector(gradient: Gradient) -> tf.Tensor:
    """All parts of a gradient one behind the other, float64."""
    return tf.concat([tf.reshape(tf.cast(part, tf.float64), [-1]) for part in named_parts(gradient).values()], axis=0)


def named_parts(gradient: Gradient) -> dict[str, tf.Tensor]:
    """The parts of a gradient by the names of the layer's variables."""
    return {
        "kernel": gradient.kernel,
        "visible_bias": gradient.visible_bias,
        "hidden_bias": gradient.hidden_bias,
        **{f"visible_{name}": value for name, value in sorted(gradient.visible_unit.items())},
        **{f"hidden_{name}": value for name, value in sorted(gradient.hidden_unit.items())},
    }


@functools.lru_cache(maxsize=32)
def _program(
    phase: NegativePhase,
    visible_unit: Unit,
    hidden_unit: Unit,
    product_dtype: str | None,
    batch_size: int,
    steps: int | None,
) -> Callable[..., Sums]:
    """The compiled loop over the draws. All that changes while a model trains are its arguments."""

    def run(
        parameters: Any,
        offsets: Offsets | None,
        x: tf.Tensor,
        weights: tf.Tensor,
        state: State,
        samples: tf.Tensor | None,
        exact: tf.Tensor,
        parts: tf.Tensor,
        key: tf.Tensor,
        repetitions: tf.Tensor,
    ) -> Sums:
        machine = machine_with(parameters, visible_unit, hidden_unit, product_dtype)
        norms = _lengths(exact, parts)

        def draw(i: tf.Tensor, sums: Sums) -> tuple[tf.Tensor, Sums]:
            own = subkey(key, i)
            rows, sample_weight = _batch(x, weights, batch_size, subkey(own, _ROWS))
            numbers = None if samples is None else samples[i]
            begun = _start(phase, machine, state, numbers, steps, batch_size, subkey(own, _STATE))
            phases = phases_of(machine, phase, rows, sample_weight, begun, subkey(own, _STEP))
            step = as_vector(gradient_of(phases, offsets))
            error = step - exact
            cosine = tf.math.divide_no_nan(tf.linalg.matvec(parts, step * exact, True), _lengths(step, parts) * norms)
            squares = tf.linalg.matvec(parts, tf.square(error), True)
            group = tf.one_hot(i % GROUPS, GROUPS, dtype=tf.float64)
            added = Sums(group, *(group[:, None] * value for value in (error, squares, cosine)))
            return i + 1, Sums(*(total + new for total, new in zip(sums, added, strict=True)))

        zeros = [tf.zeros([GROUPS, n], tf.float64) for n in (exact.shape[0], parts.shape[1], parts.shape[1])]
        begin = tf.constant(0), Sums(tf.zeros([GROUPS], tf.float64), *zeros)
        _, sums = tf.while_loop(lambda i, _: i < repetitions, draw, begin, parallel_iterations=1)
        return sums

    return compiled(run)


def _lengths(vector: tf.Tensor, parts: tf.Tensor) -> tf.Tensor:
    """Length of each part of a vector, ``[S]``."""
    return tf.sqrt(tf.linalg.matvec(parts, tf.square(vector), True))


def _batch(x: tf.Tensor, weights: tf.Tensor, batch_size: int, key: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """So many of the examples, any of them as likely as any other."""
    rows = x.shape[0]
    if batch_size == rows:
        return x, weights
    chosen = tf.argsort(uniform(key, 0, [rows]))[:batch_size]
    return tf.gather(x, chosen), tf.gather(weights, chosen)


def _start(
    phase: NegativePhase,
    machine: Machine,
    state: State,
    samples: tf.Tensor | None,
    steps: int | None,
    batch_size: int,
    key: tf.Tensor,
) -> State:
    """The state that a draw begins with."""
    if samples is not None:
        side = smaller_side(machine)
        visible = side.states_at(samples, machine.kernel.dtype.name)
        if not side.visible:
            visible = machine.sample_visible(machine.visible_field(visible), batch_source(key), 0)
        return first_state(phase, machine, subkey(key, 1), visible=visible)
    if steps is None:
        return state
    begun = first_state(phase, machine, key, batch_size)
    if not steps:
        return begun
    source = batch_source(subkey(key, 1))
    visible = gibbs_from_visible(machine, machine.hidden_field(begun["visible"]), steps, source).visible
    return first_state(phase, machine, subkey(key, 2), visible=visible)
