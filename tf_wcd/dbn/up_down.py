"""The up-down algorithm: contrastive wake-sleep for all layers of a DBN together (Hinton, Osindero and Teh 2006).

A step goes up from data with the recognition weights and teaches the generative weights to predict each layer from the
one above it; it trains the top RBM on what arrived there; and it goes down from the top RBM's negative points with the
generative weights and teaches the recognition weights to predict each layer from the one below it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import keras
import tensorflow as tf

from tf_wcd.machine import Machine
from tf_wcd.negative_phases import NegativePhase, State
from tf_wcd.random import batch_source, subkey
from tf_wcd.sampling.passes import pass_up
from tf_wcd.training.step import Phases, measures_of, normalised_sample_weight, phases_of

# Purposes of random numbers, each with another key.
_WAKE, _TOP, _SLEEP = range(3)


class Delta(NamedTuple):
    """Gradient of one direction of a layer: of its kernel, and of the bias of the units that it predicts."""

    kernel: tf.Tensor
    bias: tf.Tensor


class UpDown(NamedTuple):
    """One step, before any weight changes.

    Attributes:
        generative: gradients of the generative weights of each layer below the top RBM.
        recognition: gradients of their recognition weights.
        top: the phases of the top RBM.
        reconstruction_error: mean square of x minus its prediction from the first hidden layer's states; ``None`` where
            the top RBM is all there is.
    """

    generative: list[Delta]
    recognition: list[Delta]
    top: Phases
    reconstruction_error: tf.Tensor | None


def up_down(
    recognition: Sequence[Machine],
    generative: Sequence[Machine],
    top: Machine,
    negative_phase: NegativePhase,
    x: tf.Tensor,
    labels: tf.Tensor | None,
    sample_weight: tf.Tensor | None,
    state: State,
    key: tf.Tensor,
) -> UpDown:
    """One step of the up-down algorithm.

    Args:
        recognition: the machines below the top one as they read data, from the bottom.
        generative: the same as they generate data.
        top: the top machine.
        negative_phase: of the top machine, with its ``state``.
        x: ``[rows, n_v]`` data.
        labels: ``[rows, classes]``, where the top machine has any.
        sample_weight: ``[rows]``.
        state: state of the negative phase.
        key: uint32 [2].
    """
    log_weights, scale = normalised_sample_weight(x, sample_weight)

    # Wake: up with the recognition weights; each layer's states are predicted from those above.
    wake = pass_up(recognition, x, batch_source(subkey(key, _WAKE)))
    weights = scale * tf.exp(log_weights)[:, None]
    awake, error = [], None
    for number, machine in enumerate(generative):
        mean = machine.visible.mean(machine.visible_field(wake[number + 1]))
        surprise = weights * (mean - wake[number])
        awake.append(
            Delta(machine.product(surprise, wake[number + 1], transpose_a=True), tf.reduce_sum(surprise, axis=0))
        )
        if number == 0:
            errors = tf.reduce_mean(tf.square(x - mean), axis=-1)
            error = tf.reduce_sum(tf.exp(log_weights) * errors)

    # The top RBM: its positive and its negative phase.
    joined = wake[-1] if labels is None else tf.concat([wake[-1], labels], axis=1)
    phases = phases_of(top, negative_phase, joined, sample_weight, state, subkey(key, _TOP))

    # Sleep: down with the generative weights; each layer's states are predicted from those below.
    fantasy = phases.points.visible[:, : top.num_visible - top.visible.classes]
    part = scale * tf.exp(phases.log_weights)[:, None]
    source = batch_source(subkey(key, _SLEEP))
    asleep: list[Delta] = []
    for number in reversed(range(len(generative))):
        machine, below = recognition[number], generative[number]
        dreamt = below.sample_visible(below.visible_field(fantasy), source, number)
        surprise = part * (machine.hidden.mean(machine.hidden_field(dreamt)) - fantasy)
        asleep.append(Delta(machine.product(dreamt, surprise, transpose_a=True), tf.reduce_sum(surprise, axis=0)))
        fantasy = dreamt
    return UpDown(awake, asleep[::-1], phases, error)


def up_down_measures(step: UpDown) -> dict[str, tf.Tensor]:
    """``loss`` and ``ess`` of the top RBM, and the reconstruction error of the whole stack."""
    measures = measures_of(step.top)
    if step.reconstruction_error is not None:
        measures["reconstruction_error"] = step.reconstruction_error
    return measures


@keras.saving.register_keras_serializable(package="tf_wcd")
class GenerativeKernels(keras.layers.Layer):
    """Generative kernels, made when the layers are untied."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.kernels: list[keras.Variable] = []

    def build(self, shapes: list[tuple[int, ...]]) -> None:
        self.kernels = [
            self.add_weight(shape=shape, initializer="zeros", name=f"kernel_{number}")
            for number, shape in enumerate(shapes)
        ]
        self.built = True
