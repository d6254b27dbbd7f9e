"""Unknown entries in the data of an RBM: the positive phase averages over them.

The gradient is that of -log P(known entries). Its positive phase is an expectation over the unknown units, given the
known ones. One draw of them for each row, which makes it an ordinary batch, estimates it; where a side of the machine
has few enough states, the draw is exact, and its exact expectation then takes its place.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import tensorflow as tf

from tf_wcd import replicas
from tf_wcd.arguments import check_integer
from tf_wcd.machine import Machine
from tf_wcd.programs import machine_with, parameters_of
from tf_wcd.random import batch_source, subkey
from tf_wcd.sampling.unknown import clamped_draw, exact_draw, is_enumerable, known_free_energy
from tf_wcd.training.gradient import Gradient, Offsets, centred_from_plain
from tf_wcd.training.step import Phases

_UNKNOWN = 0x0A17  # the purpose of the key of the draws: with or without them, updates draw the same numbers


class Completed(NamedTuple):
    """Rows with their unknown entries drawn given the known ones.

    Attributes:
        visible: ``[..., rows, n_v]``.
        unknown: of the same shape, true where an entry was unknown.
    """

    visible: tf.Tensor
    unknown: tf.Tensor


def check_missing(missing: Any, steps: Any, objective: str, dropout: float) -> tuple[str | None, int]:
    """The arguments ``missing`` and ``missing_steps`` of a model."""
    if missing not in (None, "nan"):
        raise ValueError(f"`missing` must be None or 'nan'. Received: missing={missing!r}")
    if missing and objective != "generative":
        raise ValueError(
            "`missing` goes with the generative objective: P(label | data) needs all data. "
            f"Received: objective={objective!r} and missing={missing!r}"
        )
    if missing and dropout:
        raise ValueError(
            f"`missing` and `hidden_dropout` do not go together. Received: missing={missing!r} and "
            f"hidden_dropout={dropout!r}"
        )
    return missing, check_integer("missing_steps", steps)


def complete(machine: Machine, visible: tf.Tensor, steps: int, key: tf.Tensor) -> Completed:
    """Rows whose unknown entries, NaN, are drawn: exactly where a side of the machine can be enumerated.

    Args:
        machine: the RBM.
        visible: ``[..., rows, n_v]``.
        steps: Gibbs steps with the known entries held, where they are needed.
        key: uint32 [2], that of the update.
    """
    unknown = tf.math.is_nan(visible)
    source = batch_source(subkey(key, _UNKNOWN))

    def drawn() -> tf.Tensor:
        if is_enumerable(machine):
            return exact_draw(machine, visible, unknown, source)
        return clamped_draw(machine, visible, unknown, tf.constant(steps), source)

    return Completed(tf.cond(tf.reduce_any(unknown), drawn, lambda: visible), unknown)


def summed_out(gradient: Gradient, phases: Phases, offsets: Offsets | None = None) -> Gradient:
    """The gradient with the exact average over the unknown units, where there is one, in the place of their draws.

    Variances, which the standardised gradient follows, stay those of the draws.

    Args:
        gradient: that of `tf_wcd.training.step.gradient_of`.
        phases: the update, whose batch has been completed.
        offsets: offsets of the centred gradient; ``None`` for the plain one.
    """
    if not is_enumerable(phases.machine):
        return gradient
    change = _change(phases)
    means, scale = gradient.data_means, tf.convert_to_tensor(phases.scale)
    visible_bias, hidden_bias = change["visible_bias"], change["hidden_bias"]
    if means is not None:  # the derivative of F by a bias is minus the mean of its unit
        means = means._replace(
            visible=means.visible - replicas.total(visible_bias), hidden=means.hidden - replicas.total(hidden_bias)
        )
    kernel = scale[..., None, None] * change["kernel"]
    visible_bias, hidden_bias = scale[..., None] * visible_bias, scale[..., None] * hidden_bias
    if offsets is not None:
        kernel, visible_bias, hidden_bias = centred_from_plain(kernel, visible_bias, hidden_bias, offsets)
    return Gradient(
        gradient.kernel + kernel,
        gradient.visible_bias + visible_bias,
        gradient.hidden_bias + hidden_bias,
        {name: value + scale[..., None] * change["visible"][name] for name, value in gradient.visible_unit.items()},
        {name: value + scale[..., None] * change["hidden"][name] for name, value in gradient.hidden_unit.items()},
        means,
    )


def _change(phases: Phases) -> dict[str, Any]:
    """What the exact average changes in the gradient of the mean of F, for every tensor of `parameters_of`."""
    machine = phases.machine
    parameters = parameters_of(machine)

    def differentiated() -> list[tf.Tensor]:
        with tf.GradientTape() as tape:
            tape.watch(parameters)
            own = machine_with(parameters, machine.visible, machine.hidden, machine.product_dtype)
            total = tf.reduce_sum(_surplus(own, phases))
        gradients = tape.gradient(total, parameters, unconnected_gradients=tf.UnconnectedGradients.ZERO)
        return tf.nest.flatten(gradients)

    def zeros() -> list[tf.Tensor]:
        return [tf.zeros_like(value) for value in tf.nest.flatten(parameters)]

    return tf.nest.pack_sequence_as(parameters, tf.cond(tf.reduce_any(phases.unknown), differentiated, zeros))


def _surplus(machine: Machine, phases: Phases) -> tf.Tensor:
    """F of the known entries of each row minus F of the completed row, weighted; zero for rows without unknown ones."""
    batch = phases.batch
    some = tf.cast(tf.reduce_any(phases.unknown, axis=-1), batch.visible.dtype)
    known = known_free_energy(machine, batch.visible, phases.unknown)
    return tf.exp(batch.log_weights) * some * (known - machine.free_energy(batch.visible))


def known_measures(phases: Phases, loss: tf.Tensor) -> dict[str, tf.Tensor]:
    """``reconstruction_error`` of the known entries, and the ``loss`` with their exact F where there is one."""
    machine, batch = phases.machine, phases.batch
    assert phases.unknown is not None
    positive, known = tf.exp(batch.log_weights), tf.cast(~phases.unknown, batch.visible.dtype)
    squares = known * tf.square(batch.visible - machine.reconstruct(batch.hidden_field))
    errors = tf.math.divide_no_nan(tf.reduce_sum(squares, axis=-1), tf.reduce_sum(known, axis=-1))
    if is_enumerable(machine):
        loss = loss + replicas.total(tf.reduce_sum(_surplus(machine, phases), axis=-1))
    return {"loss": loss, "reconstruction_error": replicas.total(tf.reduce_sum(positive * errors, axis=-1))}
