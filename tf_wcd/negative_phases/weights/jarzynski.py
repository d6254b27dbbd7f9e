"""The model's probability along the path of the training: Jarzynski's weights."""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf

from tf_wcd import replicas
from tf_wcd.arguments import check_integer
from tf_wcd.machine import Machine
from tf_wcd.negative_phases.base import Batch, Points, State, Weights
from tf_wcd.negative_phases.weights.log_weights import (
    check_minimum_ess,
    effective_sample_size,
    tempered_log_weights,
)
from tf_wcd.negative_phases.weights.observers import Observers
from tf_wcd.negative_phases.weights.resampling import resampled_where
from tf_wcd.random import subkey, uniform
from tf_wcd.sampling.population import LogPartition

# Purposes of random numbers, each with another key.
_RESAMPLING, _OBSERVERS = range(2)
_NUMBER = "resampling_number"  # in the state while an update is computed, and not between updates


@keras.saving.register_keras_serializable(package="tf_wcd")
class JarzynskiWeights(Weights):
    """Weights that keep persistent chains samples of a model whose parameters change (Carbone et al. 2023).

    When the parameters have changed, and before a chain moves, its log-weight grows by
    Energy_old(y, h) - Energy_new(y, h), where h are the hidden states that the chain keeps. If the chains started as
    samples of the model, weighted means over them are those of the present model, up to their noise, however fast it
    learns. When the effective sample size falls too low, the chains are resampled in proportion to their weights.

    The energies need no matrix product that the chains do not make: the old one has the field that h was drawn in, the
    new one the field that the next y is drawn in. Free energies F(y) would vary less from chain to chain, but their
    fields at the new parameters serve nothing else.

    Each update lowers the probability of the very chains that it was computed from, so their mean weight says too
    little of log Z. `Observers` are further chains that only watch: they never enter the gradient, and give a running
    log Z with its error.

    Args:
        resample_below: effective sample size, as a fraction of the chains, below which they are resampled: 0 for
            never, 1 for always.
        observers: chains that only watch; ``None`` for as many as there are chains, and at least 100; 0 for none. They
            are rounded up to whole groups.
        gibbs_steps: steps that the observers advance at each update.
        minimum_ess: effective sample size, as a fraction of the chains, that the weights of the gradient's chains are
            kept at by a power (see `tempered_log_weights`); 0 for the plain weights. Where learning is fast it forgets
            part of the weights in the place of chains: resampling at every few updates leaves copies of a few.
    """

    def __init__(
        self,
        resample_below: float = 0.5,
        observers: int | None = None,
        gibbs_steps: int = 1,
        minimum_ess: float = 0.0,
    ) -> None:
        number = isinstance(resample_below, (int, float)) and not isinstance(resample_below, bool)
        if not number or not 0 <= resample_below <= 1:
            raise ValueError(
                f"`resample_below` must be a number from 0 to 1. Received: resample_below={resample_below!r}"
            )
        self.resample_below = float(resample_below)
        self.observers = None if observers is None else check_integer("observers", observers, least=0)
        self.gibbs_steps = check_integer("gibbs_steps", gibbs_steps)
        self.minimum_ess = check_minimum_ess(minimum_ess)
        self._watching = Observers(self.gibbs_steps, self.resample_below)

    def initial_state(self, machine: Machine, state: State, key: tf.Tensor) -> State:
        if not {"visible", "hidden"} <= state.keys():
            raise ValueError(
                "Jarzynski's weights are those of persistent chains, which keep visible and hidden states. "
                f"Received: state {sorted(state)}"
            )
        energy = machine.energy(state["visible"], state["hidden"])[..., None]
        own = {
            "energy": energy,
            "log_weights": tf.zeros_like(energy),
            "resamplings": tf.zeros(machine.members, energy.dtype),
        }
        observers = max(energy.shape[-2], LEAST_OBSERVERS) if self.observers is None else self.observers
        if not observers:
            return own
        return {**own, **self._watching.initial_state(machine, observers, subkey(key, _OBSERVERS))}

    def before(self, machine: Machine, state: State, key: tf.Tensor) -> State:
        field = machine.visible_field(state["hidden"])
        change = state["energy"][..., 0] - machine.energy(state["visible"], state["hidden"], visible_field=field)
        log_weights = replicas.normalise(state["log_weights"][..., 0] + change)
        if self.minimum_ess:
            log_weights = tempered_log_weights(log_weights, self.minimum_ess)
        number = uniform(subkey(key, _RESAMPLING), 0, machine.members, log_weights.dtype)
        state = {**state, "log_weights": log_weights[..., None], _NUMBER: number}
        return self._watching.before(machine, state, subkey(key, _OBSERVERS))

    def log_weights(self, machine: Machine, batch: Batch, points: Points, state: State) -> tuple[tf.Tensor, State]:
        """The weights of this update; where too few chains count, they are resampled for the next."""
        log_weights, number = state["log_weights"][..., 0], state[_NUMBER]
        energy = machine.energy(points.visible, state["hidden"], hidden_field=points.hidden_field)
        count = points.visible.shape[-2] * replicas.count()
        low = effective_sample_size(log_weights) < self.resample_below * count
        chains = {"visible": state["visible"], "hidden": state["hidden"], "energy": energy[..., None]}
        equal = -tf.math.log(tf.cast(count, log_weights.dtype))
        kept = {name: value for name, value in state.items() if name != _NUMBER}
        return log_weights, {
            **kept,
            **resampled_where(low, chains, log_weights, number),
            "log_weights": tf.where(low[..., None], equal, log_weights)[..., None],
            "resamplings": state["resamplings"] + tf.cast(low, log_weights.dtype),
        }

    def log_partition(self, machine: Machine, state: State) -> LogPartition | None:
        return self._watching.log_partition(machine, state)

    def metrics(self, state: State) -> dict[str, tf.Tensor]:
        return {"resamplings": state["resamplings"], **self._watching.metrics(state)}

    def get_config(self) -> dict[str, Any]:
        return {
            "resample_below": self.resample_below,
            "observers": self.observers,
            "gibbs_steps": self.gibbs_steps,
            "minimum_ess": self.minimum_ess,
        }


LEAST_OBSERVERS = 100
