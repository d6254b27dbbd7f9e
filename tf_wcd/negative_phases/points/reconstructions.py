"""Gibbs reconstructions of the batch."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from tf_wcd.arguments import check_integer
from tf_wcd.machine import Machine
from tf_wcd.negative_phases.base import Batch, Points, PointSource, State
from tf_wcd.random import batch_source
from tf_wcd.sampling import gibbs_from_visible


class Reconstructions(PointSource):
    """Each example after k Gibbs steps.

    Args:
        gibbs_steps: k, at least 1.
    """

    def __init__(self, gibbs_steps: int = 1) -> None:
        self.gibbs_steps = check_integer("gibbs_steps", gibbs_steps)

    def points(self, machine: Machine, batch: Batch, state: State, key: tf.Tensor) -> tuple[Points, State]:
        drawn = gibbs_from_visible(machine, batch.hidden_field, self.gibbs_steps, batch_source(key))
        return Points(drawn.visible, machine.hidden_field(drawn.visible)), state

    def get_config(self) -> dict[str, Any]:
        return {"gibbs_steps": self.gibbs_steps}
