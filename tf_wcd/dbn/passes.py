"""How states go up and down a stack of RBMs: pure functions over `Machine`s.

Layer 0 of the units is the data. Machine i joins the units of layer i (its visible side) with those of layer i + 1 (its
hidden side). All machines but the top one are directed: upwards with the recognition weights, downwards with the
generative ones. Where random numbers are needed they come from a function that the caller gives, so that a sampler, a
training step and an exported model each use their own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import tensorflow as tf

from tf_wcd.machine import Machine, static_shape
from tf_wcd.random_bits import uniform
from tf_wcd.units import Unit
from tf_wcd.units.labelled import number_of_labels

# (number of the draw, field of the units to be drawn) -> uniform numbers of the shape of the field. Every draw of one
# run has a number of its own, an integer or a scalar tensor.
Uniforms = Callable[[tf.Tensor | int, tf.Tensor], tf.Tensor]


class Downward(NamedTuple):
    """Data that a pass down gives.

    Attributes:
        visible: ``[rows, n_v]`` states.
        probability: ``[rows, n_v]`` their expectations given the layer above: the picture without the noise of the last
            draw.
    """

    visible: tf.Tensor
    probability: tf.Tensor


def keyed_uniforms(key: tf.Tensor) -> Uniforms:
    """Random numbers of the library's own generator under one key, uint32 [2]."""
    return lambda number, field: uniform(key, number, static_shape(field), field.dtype)


def pass_up(machines: Sequence[Machine], visible: tf.Tensor, uniforms: Uniforms | None = None) -> list[tf.Tensor]:
    """The states of every layer, from the data upwards.

    Args:
        machines: the recognition machines, from the bottom.
        visible: ``[rows, n_v]`` data.
        uniforms: draws the states of each layer, the draw number i for machine i; ``None`` hands on the expectations.

    Returns:
        One tensor for each layer, ``len(machines) + 1`` in all, of which the first is ``visible``.
    """
    states = [visible]
    for number, machine in enumerate(machines):
        field = machine.hidden_field(states[-1])
        states.append(machine.hidden.mean(field) if uniforms is None else draw(machine.hidden, field, uniforms, number))
    return states


def pass_down(machines: Sequence[Machine], states: tf.Tensor, uniforms: Uniforms) -> Downward:
    """One pass down from the visible units of the top RBM to the data.

    Args:
        machines: the generative machines below the top one, from the bottom; none if the top RBM is all there is.
        states: ``[rows, n]`` states of the top RBM's visible units, without labels.
        uniforms: draws the states of each layer; the draws are numbered from 0 on.
    """
    mean = states
    for number, machine in enumerate(reversed(machines)):
        field = machine.visible_field(states)
        mean, states = machine.visible.mean(field), draw(machine.visible, field, uniforms, number)
    return Downward(states, mean)


def run_top(
    top: Machine, visible: tf.Tensor, held: tf.Tensor | None, steps: tf.Tensor | int, uniforms: Uniforms
) -> Downward:
    """Gibbs sampling in the top RBM.

    Args:
        top: the top machine.
        visible: ``[rows, n]`` states of its visible units, labels included, to start from.
        held: ``[rows, n]`` or ``[n]``, true where a unit stays as it is (the labels); ``None`` if all move.
        steps: number of steps h | x, x | h.
        uniforms: step i takes the draws 2 i and 2 i + 1.

    Returns:
        The visible units after the last step, and their expectations before the last draw.
    """

    def step(i: tf.Tensor, x: tf.Tensor, _: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        hidden = draw(top.hidden, top.hidden_field(x), uniforms, 2 * i)
        field = top.visible_field(hidden)
        mean, drawn = top.visible.mean(field), draw(top.visible, field, uniforms, 2 * i + 1)
        return (i + 1, drawn, mean) if held is None else (i + 1, tf.where(held, x, drawn), tf.where(held, x, mean))

    start = [tf.constant(0), visible, visible]
    _, visible, mean = tf.while_loop(lambda i, *_: i < steps, step, start, parallel_iterations=1)
    return Downward(visible, mean)


def draw(unit: Unit, field: tf.Tensor, uniforms: Uniforms, number: tf.Tensor | int) -> tf.Tensor:
    """States of units in the given field."""
    return unit.sample(field, uniforms(number, field))


def label_log_weights(top: Machine, states: tf.Tensor) -> tf.Tensor:
    """-F of the given states with each of the labels, ``[rows, classes]``: log-weights of the labels.

    Args:
        top: a machine with labels.
        states: ``[rows, n]`` its visible units but the labels.
    """
    fields, labels = _fields_with_labels(top, states)
    own = tf.linalg.matvec(states, top.visible_bias[:-labels])[:, None]
    return own + top.visible_bias[-labels:] + top.hidden.total_cumulant(fields)


def top_hidden_mean(top: Machine, states: tf.Tensor) -> tf.Tensor:
    """E[h | states of the visible units] of the top machine; where it has labels, they are summed over."""
    if not number_of_labels(top.visible):
        return top.hidden.mean(top.hidden_field(states))
    fields, _ = _fields_with_labels(top, states)
    weights = tf.nn.softmax(label_log_weights(top, states))
    return tf.reduce_sum(weights[:, :, None] * top.hidden.mean(fields), axis=1)


def _fields_with_labels(top: Machine, states: tf.Tensor) -> tuple[tf.Tensor, int]:
    """Hidden fields of the states with each label, ``[rows, classes, n_h]``, and the number of labels."""
    labels = number_of_labels(top.visible)
    without = top.product(states, top.kernel[:-labels]) + top.hidden_bias
    return without[:, None, :] + top.kernel[-labels:], labels
