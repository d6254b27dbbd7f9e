"""Gibbs reconstructions of the batch."""

from __future__ import annotations

import dataclasses
from typing import Any

import keras
import tensorflow as tf

from tf_wcd.arguments import check_integer
from tf_wcd.machine import Machine
from tf_wcd.negative_phases.base import Batch, Points, PointSource, State
from tf_wcd.random import batch_source
from tf_wcd.sampling import gibbs_from_hidden


@dataclasses.dataclass(frozen=True)
class Reconstructed(Points):
    """Points that are reconstructions, with what their density follows from.

    Attributes:
        hidden: ``[..., M, n_h]`` the first hidden states of each chain, drawn given its example.
        visible_field: ``[..., M, n_v]`` the field that the points were drawn in.
    """

    hidden: tf.Tensor | None = None
    visible_field: tf.Tensor | None = None


@keras.saving.register_keras_serializable(package="tf_wcd")
class Reconstructions(PointSource):
    """Each example after k Gibbs steps.

    Args:
        gibbs_steps: k. With 0 the points are the examples themselves.
    """

    def __init__(self, gibbs_steps: int = 1) -> None:
        self.gibbs_steps = check_integer("gibbs_steps", gibbs_steps, least=0)

    def points(self, machine: Machine, batch: Batch, state: State, key: tf.Tensor) -> tuple[Points, State]:
        if not self.gibbs_steps:
            return Points(batch.visible, batch.hidden_field), state
        source = batch_source(key)
        hidden = machine.sample_hidden(batch.hidden_field, source, 0)
        drawn = gibbs_from_hidden(machine, hidden, self.gibbs_steps, source)
        field = machine.hidden_field(drawn.visible)
        return Reconstructed(drawn.visible, field, hidden=hidden, visible_field=drawn.field), state

    def get_config(self) -> dict[str, Any]:
        return {"gibbs_steps": self.gibbs_steps}
