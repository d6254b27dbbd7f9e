"""Chains that live through the whole training."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import keras
import tensorflow as tf

from tf_wcd.arguments import check_integer
from tf_wcd.machine import Machine
from tf_wcd.negative_phases.base import Batch, Points, PointSource, State
from tf_wcd.random import batch_source
from tf_wcd.sampling import gibbs_from_hidden, random_visible
from tf_wcd.sampling.population import annealed_samples


@keras.saving.register_keras_serializable(package="tf_wcd")
class PersistentChains(PointSource):
    """Chains that advance k Gibbs steps at each update.

    A chain keeps its hidden state as well. An update then needs two matrix products for its first Gibbs step, x | h and
    the field of h | x, instead of three.

    Args:
        gibbs_steps: k, at least 1.
        chains: number of chains; ``None`` for as many as there are examples in the first batch.
    """

    members_apart = True

    def __init__(self, gibbs_steps: int = 1, chains: int | None = None) -> None:
        self.gibbs_steps = check_integer("gibbs_steps", gibbs_steps)
        self.chains = None if chains is None else check_integer("chains", chains)

    def initial_state(self, machine: Machine, batch_size: int, key: tf.Tensor) -> State:
        visible = random_visible(machine, self.chains or batch_size, batch_source(key), draw=0)
        return self.state_at(machine, visible, {}, key)

    def state_at(self, machine: Machine, visible: tf.Tensor, state: State, key: tf.Tensor) -> State:
        hidden = machine.sample_hidden(machine.hidden_field(visible), batch_source(key), draw=1)
        return {**state, "visible": visible, "hidden": hidden}

    def points(self, machine: Machine, batch: Batch, state: State, key: tf.Tensor) -> tuple[Points, State]:
        source = batch_source(key)
        visible = gibbs_from_hidden(machine, state["hidden"], self.gibbs_steps, source).visible
        field = batch.hidden_field_beside(visible)
        hidden = machine.sample_hidden(field, source, draw=0)
        return Points(visible, field), {**state, "visible": visible, "hidden": hidden}

    def num_points(self, machine: Machine, batch_size: int, shapes: Mapping[str, tuple[int, ...]]) -> int:
        return shapes["visible"][-2] if "visible" in shapes else self.chains or batch_size

    def alternatives(self) -> tuple[str, ...]:
        return ("pcd",)

    def get_config(self) -> dict[str, Any]:
        return {"gibbs_steps": self.gibbs_steps, "chains": self.chains}


@keras.saving.register_keras_serializable(package="tf_wcd")
class AnnealedChains(PersistentChains):
    """Persistent chains that start as samples of the model, for weights that follow it from there.

    They are carried to the initial parameters from independent units, with as many temperatures as the kernel asks
    for; see `tf_wcd.sampling.population.annealed_population`.
    """

    def initial_state(self, machine: Machine, batch_size: int, key: tf.Tensor) -> State:
        return self.state_at(machine, annealed_samples(machine, self.chains or batch_size, key), {}, key)
