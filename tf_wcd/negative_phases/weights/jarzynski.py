"""The model's probability along the path of the training: Jarzynski's weights."""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf

from tf_wcd import replicas
from tf_wcd.arguments import check_integer
from tf_wcd.machine import Machine
from tf_wcd.negative_phases.base import Batch, Points, State, Weights
from tf_wcd.negative_phases.weights.log_weights import effective_sample_size
from tf_wcd.negative_phases.weights.observers import Observers
from tf_wcd.negative_phases.weights.resampling import resampled_where
from tf_wcd.random import batch_source, subkey, uniform
from tf_wcd.sampling.population import LogPartition

# Purposes of random numbers, each with another key.
_RESAMPLING, _OBSERVERS = range(2)


@keras.saving.register_keras_serializable(package="tf_wcd")
class JarzynskiWeights(Weights):
    """Weights that keep persistent chains samples of a model whose parameters change (Carbone et al. 2023).

    When the parameters have changed, and before a chain moves, its log-weight grows by F_old(y) - F_new(y). If the
    chains started as samples of the model, weighted means over them are those of the present model, up to their noise,
    however fast it learns. When the effective sample size falls too low, the chains are resampled in proportion to
    their weights.

    The hidden states that the chains move through are drawn afresh at the new parameters, from the fields that the
    new free energies need anyway.

    Each update lowers the probability of the very chains that it was computed from, so their mean weight says too
    little of log Z. `Observers` are further chains that only watch: they never enter the gradient, and give a running
    log Z with its error.

    Args:
        resample_below: effective sample size, as a fraction of the chains, below which they are resampled: 0 for
            never, 1 for always.
        observers: chains that only watch; ``None`` for as many as there are chains, and at least 100; 0 for none. They
            are rounded up to whole groups.
        gibbs_steps: steps that the observers advance at each update.
    """

    def __init__(self, resample_below: float = 0.5, observers: int | None = None, gibbs_steps: int = 1) -> None:
        number = isinstance(resample_below, (int, float)) and not isinstance(resample_below, bool)
        if not number or not 0 <= resample_below <= 1:
            raise ValueError(
                f"`resample_below` must be a number from 0 to 1. Received: resample_below={resample_below!r}"
            )
        self.resample_below = float(resample_below)
        self.observers = None if observers is None else check_integer("observers", observers, least=0)
        self.gibbs_steps = check_integer("gibbs_steps", gibbs_steps)
        self._watching = Observers(self.gibbs_steps, self.resample_below)

    def initial_state(self, machine: Machine, state: State, key: tf.Tensor) -> State:
        if "visible" not in state:
            raise ValueError(f"Jarzynski's weights are those of persistent chains. Received: state {sorted(state)}")
        energy = machine.free_energy(state["visible"])[..., None]
        own = {
            "free_energy": energy,
            "log_weights": tf.zeros_like(energy),
            "resamplings": tf.zeros(machine.members, energy.dtype),
        }
        observers = max(energy.shape[-2], LEAST_OBSERVERS) if self.observers is None else self.observers
        if not observers:
            return own
        return {**own, **self._watching.initial_state(machine, observers, subkey(key, _OBSERVERS))}

    def before(self, machine: Machine, state: State, key: tf.Tensor) -> State:
        visible = state["visible"]
        field = machine.hidden_field(visible)
        change = state["free_energy"][..., 0] - machine.free_energy(visible, field)
        log_weights = replicas.normalise(state["log_weights"][..., 0] + change)
        count = visible.shape[-2] * replicas.count()
        low = effective_sample_size(log_weights) < self.resample_below * count
        number = uniform(subkey(key, _RESAMPLING), 0, machine.members, log_weights.dtype)
        chains = resampled_where(low, {"visible": visible, "field": field}, log_weights, number)
        equal = -tf.math.log(tf.cast(count, log_weights.dtype))
        state = {
            **state,
            "visible": chains["visible"],
            "hidden": machine.sample_hidden(chains["field"], batch_source(key), draw=0),
            "log_weights": tf.where(low[..., None], equal, log_weights)[..., None],
            "resamplings": state["resamplings"] + tf.cast(low, log_weights.dtype),
        }
        return self._watching.before(machine, state, subkey(key, _OBSERVERS))

    def log_weights(self, machine: Machine, batch: Batch, points: Points, state: State) -> tuple[tf.Tensor, State]:
        energy = machine.free_energy(points.visible, points.hidden_field)[..., None]
        return state["log_weights"][..., 0], {**state, "free_energy": energy}

    def log_partition(self, machine: Machine, state: State) -> LogPartition | None:
        return self._watching.log_partition(machine, state)

    def metrics(self, state: State) -> dict[str, tf.Tensor]:
        return {"resamplings": state["resamplings"], **self._watching.metrics(state)}

    def get_config(self) -> dict[str, Any]:
        return {
            "resample_below": self.resample_below,
            "observers": self.observers,
            "gibbs_steps": self.gibbs_steps,
        }


LEAST_OBSERVERS = 100
