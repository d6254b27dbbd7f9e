"""How states go up and down a stack of machines.

Layer 0 of the units is the data. Machine i joins the units of layer i (its visible side) with those of layer i + 1 (its
hidden side). All machines but the top one are directed: upwards with the recognition weights, downwards with the
generative ones. `pass_up` by draws and `pass_down` work on anything that Gibbs sampling works on, exported machines
included.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from tf_wcd.machine import Machine
from tf_wcd.random import Source
from tf_wcd.sampling.gibbs import Drawn, draw_visible
from tf_wcd.shapes import static_shape


def pass_up(machines: Sequence[Any], visible: tf.Tensor, source: Source | None = None) -> list[tf.Tensor]:
    """The states of every layer, from the data upwards.

    Args:
        machines: the recognition machines, from the bottom.
        visible: ``[rows, n_v]`` data.
        source: random numbers, the draw i for machine i; ``None`` hands on the expectations.

    Returns:
        One tensor for each layer, ``len(machines) + 1`` in all, of which the first is ``visible``.
    """
    states = [visible]
    for number, machine in enumerate(machines):
        field = machine.hidden_field(states[-1])
        states.append(machine.hidden.mean(field) if source is None else machine.sample_hidden(field, source, number))
    return states


def pass_down(machines: Sequence[Any], drawn: Drawn, source: Source) -> Drawn:
    """One pass down from the visible units of the top RBM to the data.

    Args:
        machines: the generative machines below the top one, from the bottom; none if the top RBM is all there is.
        drawn: the top RBM's visible units, without labels.
        source: random numbers; the draws are numbered from 0 on.
    """
    for number, machine in enumerate(reversed(machines)):
        drawn = draw_visible(machine, drawn.visible, source, number)
    return drawn


def label_log_weights(top: Machine, states: tf.Tensor, fields: tf.Tensor | None = None) -> tf.Tensor:
    """-F of the given states with each of the labels, ``[..., rows, classes]``: log-weights of the labels.

    Args:
        top: a machine with labels.
        states: ``[..., rows, n]`` its visible units but the labels.
        fields: `fields_with_labels` of the states, where they are at hand already.
    """
    labels = top.visible.classes
    bias = tf.linalg.matvec(states, top.visible_bias[..., :-labels])[..., None]
    fields = fields_with_labels(top, states) if fields is None else fields
    cumulants = by_label(top, top.hidden.total_cumulant(fields))
    weights = bias + top.visible_bias[..., None, -labels:] + cumulants
    base = top.visible.without_labels().total_base_energy(states)
    return weights if base is None else weights - base[..., None]


def label_log_prob(top: Machine, states: tf.Tensor) -> tf.Tensor:
    """log P(label | x), ``[..., rows, classes]``, of visible units without their labels."""
    return tf.nn.log_softmax(label_log_weights(top, states))


def top_hidden_mean(top: Machine, states: tf.Tensor) -> tf.Tensor:
    """E[h | states of the visible units] of the top machine; where it has labels, they are summed over."""
    if not top.visible.classes:
        return top.hidden.mean(top.hidden_field(states))
    fields = fields_with_labels(top, states)
    weights = tf.nn.softmax(label_log_weights(top, states, fields))
    return tf.reduce_sum(weights[..., None] * by_label(top, top.hidden.mean(fields), units=1), axis=-2)


def fields_with_labels(top: Machine, states: tf.Tensor) -> tf.Tensor:
    """Hidden fields of the states with each label, ``[..., rows * classes, n_h]``: those of a row lie together."""
    labels = top.visible.classes
    without = top.product(states, top.kernel[..., :-labels, :]) + top.hidden_bias[..., None, :]
    fields = without[..., :, None, :] + top.kernel[..., None, -labels:, :]
    *members, rows, _, hidden = static_shape(fields)
    return tf.reshape(fields, [*members, rows * labels, hidden])


def by_label(top: Machine, values: tf.Tensor, units: int = 0) -> tf.Tensor:
    """What was computed of `fields_with_labels` with an axis for the labels: ``[..., rows, classes]``.

    Args:
        top: the machine.
        values: ``[..., rows * classes]``, with so many axes behind it as ``units`` says.
        units: 1 for values of every hidden unit, 0 for one value of each field.
    """
    shape = static_shape(values)
    place = len(shape) - 1 - units
    return tf.reshape(values, [*shape[:place], -1, top.visible.classes, *shape[place + 1 :]])


def reconstruction(recognition: Sequence[Machine], generative: Sequence[Machine], visible: tf.Tensor) -> tf.Tensor:
    """Expectations carried up to the top hidden units and down again.

    Args:
        recognition: all machines, the top one included.
        generative: those below the top one.
        visible: ``[rows, n_v]``.
    """
    top = recognition[-1]
    states = top_hidden_mean(top, pass_up(recognition[:-1], visible)[-1])
    states = top.visible.mean(top.visible_field(states))
    states = states[..., : top.num_visible - top.visible.classes]
    for machine in reversed(generative):
        states = machine.visible.mean(machine.visible_field(states))
    return states
