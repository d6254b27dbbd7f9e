"""The exact gradient of the likelihood, by enumeration of the smaller side."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import tensorflow as tf

from tf_wcd.enumeration import MAX_LISTED_UNITS, Side, smaller_side
from tf_wcd.evaluation.exact import log_partition_of, machine_of
from tf_wcd.machine import Machine
from tf_wcd.programs import call_compiled, machine_with, parameters_of
from tf_wcd.training.gradient import Gradient, Offsets, centred_from_plain

if TYPE_CHECKING:
    from tf_wcd.layer import RBMLayer


def exact_gradient(rbm: RBMLayer, x: tf.Tensor, weights: tf.Tensor) -> Gradient:
    """The gradient of -sum_i p_i log P(x_i), float64; the centred one of a model that learns by it.

    Args:
        rbm: a built `RBMLayer` with at most 20 units on its smaller side.
        x: ``[N, n_v]`` the data.
        weights: ``[N]`` their weights p, with the sum one.

    Raises:
        ValueError: for a larger model.
    """
    machine = machine_of(rbm)
    if smaller_side(machine).bits > MAX_LISTED_UNITS:
        raise ValueError(
            f"The exact gradient enumerates the smaller side, of at most {MAX_LISTED_UNITS} units. "
            f"Received: {machine.num_visible} visible ({machine.visible.name}) x {machine.num_hidden} hidden "
            f"({machine.hidden.name}) units"
        )
    plain = call_compiled(_gradient, rbm, x, weights, log_partition_of(machine), jit_compile=None)
    offsets = rbm.offsets()
    return plain if offsets is None else _centred(plain, _in_double(offsets))


def _gradient(machine: Machine, x: tf.Tensor, weights: tf.Tensor, log_z: tf.Tensor) -> Gradient:
    """The plain gradient: mean of dF(x) over the data, minus that over the model."""
    wide = machine.cast("float64")
    parameters = parameters_of(wide)
    visible = Side(wide, visible=True)
    side = smaller_side(wide)
    count, size = side.num_states, side.chunk_size()

    def chunk(start: tf.Tensor, total: Any) -> tuple[tf.Tensor, Any]:
        numbers = start + tf.range(size)
        states = side.states_at(tf.minimum(numbers, count - 1))
        probabilities = tf.where(numbers < count, tf.exp(-side.free_energy(states) - log_z), 0.0)
        gradient = _mean_gradient(parameters, side, states, probabilities)
        return start + size, tf.nest.map_structure(tf.subtract, total, gradient)

    data = _mean_gradient(parameters, visible, tf.cast(x, tf.float64), tf.cast(weights, tf.float64))
    _, total = tf.while_loop(lambda start, _: start < count, chunk, (tf.constant(0), data), parallel_iterations=1)
    return Gradient(
        total["kernel"], total["visible_bias"], total["hidden_bias"], total["visible"], total["hidden"], None
    )


def _mean_gradient(parameters: Any, side: Side, states: tf.Tensor, weights: tf.Tensor) -> Any:
    """Sum of the weighted derivatives of the free energy of states of one side, for each of the parameters."""
    machine = side.machine
    with tf.GradientTape() as tape:
        tape.watch(parameters)
        own = Side(machine_with(parameters, machine.visible, machine.hidden, None), side.visible)
        total = tf.reduce_sum(weights * own.free_energy(states))
    return tape.gradient(total, parameters, unconnected_gradients="zero")


def _in_double(offsets: Offsets) -> Offsets:
    return Offsets(*(None if value is None else tf.cast(value, tf.float64) for value in offsets))


def _centred(plain: Gradient, offsets: Offsets) -> Gradient:
    """The centred gradient of the same phases, which is a linear map of the plain one: their weights sum to zero."""
    kernel, visible_bias, hidden_bias = centred_from_plain(plain.kernel, plain.visible_bias, plain.hidden_bias, offsets)
    return plain._replace(kernel=kernel, visible_bias=visible_bias, hidden_bias=hidden_bias)
