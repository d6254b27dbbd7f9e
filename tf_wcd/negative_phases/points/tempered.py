"""Chains at several temperatures, which live through the whole training and swap their states."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tf_wcd import replicas
from tf_wcd.arguments import check_integer
from tf_wcd.machine import Machine
from tf_wcd.negative_phases.base import Batch, Points, PointSource, State
from tf_wcd.random import batch_source
from tf_wcd.sampling import random_visible
from tf_wcd.sampling.annealing import check_temperatures
from tf_wcd.sampling.exchange import Exchanged, Ladder, exchange, exchange_step, flat

MEMORY = 0.05  # weight of the last update in the averages of the swap rates


@keras.saving.register_keras_serializable(package="tf_wcd")
class TemperedChains(PointSource):
    """Replica exchange: chains at each of several temperatures, of which those of the model are the points.

    At each update all chains make k Gibbs steps, each followed by exchanges between neighbouring temperatures. Hot
    chains cross between modes, and the exchanges carry them down to the model. The coldest chains are the model's, the
    hottest ones independent units with the visible bias that the model had when the chains were made: call
    `RBMLayer.start_at_means` before.

    The state has ``ladder_hidden`` with the temperatures as an axis, ``visible`` of the model's chains, and the running
    ``swap_rates`` of all pairs of neighbours. An update costs about as much as one of so many more persistent chains
    as there are temperatures.

    Args:
        gibbs_steps: k, at least 1.
        chains: number of chains at each temperature; ``None`` for as many as there are examples in the first batch.
        temperatures: number of temperatures, which lie closer together near the model; or the inverse temperatures
            themselves, increasing from 0 to 1.
        all_points: take the chains of all temperatures as points. They are no samples of the model: for rules that
            weight them.
    """

    def __init__(
        self, gibbs_steps: int = 1, chains: int | None = None, temperatures: Any = 10, all_points: bool = False
    ) -> None:
        self.gibbs_steps = check_integer("gibbs_steps", gibbs_steps)
        self.chains = None if chains is None else check_integer("chains", chains)
        self.inverse_temperatures = check_temperatures(temperatures)
        self.temperatures = temperatures if isinstance(temperatures, int) else self.inverse_temperatures.tolist()
        self.all_points = bool(all_points)

    @property
    def copies(self) -> int:
        """Chains that advance for each point."""
        return len(self.inverse_temperatures)

    def validate(self, machine: Machine) -> None:
        check_undivided(machine)

    def initial_state(self, machine: Machine, batch_size: int, key: tf.Tensor) -> State:
        visible = random_visible(machine, self.chains or batch_size, batch_source(key), draw=0)
        return self.state_at(machine, visible, {}, key)

    def state_at(self, machine: Machine, visible: tf.Tensor, state: State, key: tf.Tensor) -> State:
        count = len(self.inverse_temperatures)
        ladder = self.ladder(machine, machine.visible_bias)
        field = tf.repeat(machine.hidden_field(visible)[..., None, :, :], count, axis=-3)
        dtype = visible.dtype
        return {
            **state,
            "visible": visible,
            "ladder_hidden": ladder.sample_hidden(field, batch_source(key), draw=1),
            "base_bias": tf.identity(machine.visible_bias),
            "swap_rates": tf.ones([*machine.members, count - 1], dtype),
            "turn": tf.zeros(machine.members, dtype),
        }

    def ladder(self, machine: Machine, base_bias: tf.Tensor) -> Ladder:
        """The machine at the temperatures."""
        return Ladder(machine, base_bias, tf.constant(self.inverse_temperatures, machine.kernel.dtype))

    def points(self, machine: Machine, batch: Batch, state: State, key: tf.Tensor) -> tuple[Points, State]:
        source, ladder = batch_source(key), self.ladder(machine, state["base_bias"])
        hidden, before = state["ladder_hidden"], self.gibbs_steps - 1
        # Pairs take turns over updates, too; all members count the same.
        parity = tf.cast(tf.reshape(state["turn"], [-1])[0], tf.int32)
        if before:
            hidden = exchange(ladder, hidden, before, source, parity)
        last = exchange_step(
            ladder, hidden, (parity + before) % 2, source, 3 * before, hidden_field=batch.hidden_field_beside
        )
        chosen = flat if self.all_points else lambda values: values[..., -1, :, :]
        new = {
            **state,
            "visible": last.visible[..., -1, :, :],
            "ladder_hidden": last.hidden,
            "swap_rates": averaged(state["swap_rates"], last),
            "turn": (state["turn"] + self.gibbs_steps) % 2,
        }
        return Points(chosen(last.visible), chosen(last.hidden_field)), new

    def num_points(self, machine: Machine, batch_size: int, shapes: Mapping[str, tuple[int, ...]]) -> int:
        chains = shapes["visible"][-2] if "visible" in shapes else self.chains or batch_size
        return chains * self.copies if self.all_points else chains

    def alternatives(self) -> tuple[str, ...]:
        return ("pt",)

    def metrics(self, state: State) -> dict[str, tf.Tensor]:
        return {"swap_rate": tf.reduce_min(state["swap_rates"], axis=-1)}

    def get_config(self) -> dict[str, Any]:
        config = {"gibbs_steps": self.gibbs_steps, "chains": self.chains, "temperatures": self.temperatures}
        return {**config, "all_points": True} if self.all_points else config


def averaged(rates: tf.Tensor, last: Exchanged) -> tf.Tensor:
    """Running averages of the swap rates of all pairs, ``[..., R - 1]``, those of the last step included."""
    mean = replicas.total(tf.reduce_mean(last.acceptance, axis=-1)) / replicas.count()  # as many chains in each
    return tf.where(tf.math.is_nan(mean), rates, rates + MEMORY * (mean - rates))


def check_undivided(machine: Machine) -> None:
    """Raises ValueError where several replicas would divide what all of them need.

    Parameters of a ladder are one axis long, which replicas do not divide; those of an ensemble have one more.
    """
    count = tf.distribute.get_strategy().num_replicas_in_sync
    if machine.members and count > 1:
        raise ValueError(
            "Ensembles whose chains swap states train on one replica. "
            f"Received: {int(np.prod(machine.members))} members and {count} replicas"
        )
