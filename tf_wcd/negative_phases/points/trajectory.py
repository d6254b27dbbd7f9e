"""Chains that swap states with frozen moments of the training."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tf_wcd import replicas
from tf_wcd.arguments import check_integer
from tf_wcd.machine import Machine
from tf_wcd.negative_phases.base import Batch, Points, PointSource, State
from tf_wcd.negative_phases.points.tempered import check_undivided
from tf_wcd.random import batch_source, subkey
from tf_wcd.sampling import gibbs_from_hidden, gibbs_step
from tf_wcd.sampling.independent import independent_log_partition, independent_visible, without_weights
from tf_wcd.sampling.population import LogPartition
from tf_wcd.sampling.trajectory import (
    Swapped,
    bennett_ladder,
    packed,
    run_sweeps,
    swap,
    sweep,
    unpacked,
)
from tf_wcd.xla import compiled

MEMORY = 0.2  # weight of the last exchange in the averages of the swap rates
MOST_RETURNS = 5  # an update is taken back by halves so often, and is then left as it is
TURNS = 2**20  # turns are counted in floats, up to this
WARM_UP, SWEEPS = 30, 50  # of the whole ladder, for log Z
_LADDER, _LOG_PARTITION = 0x7A11, 0x10C2  # purposes of random numbers, each with another key


@keras.saving.register_keras_serializable(package="tf_wcd")
class TrajectoryChains(PointSource):
    """Parallel trajectory tempering: chains of the model that swap states with chains of its own past.

    The ladder begins with the independent units of the model's start, which every Gibbs step samples exactly. When the
    model has moved so far from the newest rung that few states are exchanged any more, its present parameters are
    frozen as the next rung. So states of the model come from exact samples through moments between which they pass
    easily, whatever modes it has by now, and its log Z follows from theirs.

    At each update the chains of the model make k Gibbs steps, and those of *one* rung make one, followed by exchanges
    with the rung above it: an update costs about twice one of persistent chains, however many rungs there are. Every
    second update is the newest rung's turn, whose exchange is with the model. The others take turns from below.

    Where the swap rate with the newest rung falls below ``floor`` within so few updates that nothing could be frozen,
    the parameters go half-way back to where they last were above it, instead of a step; again and again, up to five
    times. (On several replicas they do not.) A ladder that is full takes no more rungs.

    The state has ``ladder_parameters`` and ``ladder_visible``, with room for all rungs, the number of ``rungs``, the
    running ``swap_rates`` of each with the next, and ``visible`` and ``hidden`` of the model's chains. (The chains of
    the last exchange are in ``moved_visible``, and come to their places at the next update.) All of it is saved with
    the model, for as many replicas as it was made with.

    Args:
        gibbs_steps: k, at least 1.
        chains: number of chains of the model, and of each rung; ``None`` for as many as there are examples in the first
            batch.
        max_rungs: room for so many rungs.
        threshold: swap rate with the newest rung at which the next one is frozen.
        floor: swap rate below which an update is taken back.
    """

    def __init__(
        self,
        gibbs_steps: int = 1,
        chains: int | None = None,
        max_rungs: int = 20,
        threshold: float = 0.3,
        floor: float = 0.1,
    ) -> None:
        self.gibbs_steps = check_integer("gibbs_steps", gibbs_steps)
        self.chains = None if chains is None else check_integer("chains", chains)
        self.max_rungs = check_integer("max_rungs", max_rungs)
        if not 0 <= floor < threshold < 1:
            raise ValueError(
                "`floor` and `threshold` must be rates with 0 <= floor < threshold < 1. "
                f"Received: floor={floor!r}, threshold={threshold!r}"
            )
        self.threshold, self.floor = float(threshold), float(floor)
        self._functions: dict[Any, Any] = {}

    @property
    def copies(self) -> int:
        """Chains that advance for each point, roughly."""
        return 3

    def validate(self, machine: Machine) -> None:
        check_undivided(machine)

    def initial_state(self, machine: Machine, batch_size: int, key: tf.Tensor) -> State:
        visible = independent_visible(machine, self.chains or batch_size, batch_source(key), draw=0)
        return self.state_at(machine, visible, {}, key)

    def state_at(self, machine: Machine, visible: tf.Tensor, state: State, key: tf.Tensor) -> State:
        base, present = packed(without_weights(machine)), packed(machine)
        first = independent_visible(machine, visible.shape[-2], batch_source(key), draw=2)
        # Replicas divide the last axis but one: each has its own copy of the parameters along it.
        copies = tf.distribute.get_strategy().num_replicas_in_sync
        parameters = tf.stack([base] + [present] * self.max_rungs, axis=-2)
        numbers = {"rungs": 1.0, "turn": 0.0, "place": 0.0, "returns": -1.0, "going_back": 0.0}
        return {
            **state,
            "visible": visible,
            "hidden": machine.sample_hidden(machine.hidden_field(visible), batch_source(key), draw=1),
            "ladder_visible": tf.stack([first] + [visible] * self.max_rungs, axis=-3),
            "moved_visible": tf.stack([first, visible], axis=-3),
            "ladder_parameters": tf.repeat(parameters[..., None, :], copies, axis=-2),
            "last_parameters": tf.repeat(present[..., None, :], copies, axis=-2),
            "swap_rates": tf.ones([*machine.members, self.max_rungs + 1], visible.dtype),
            **{name: tf.fill(machine.members, tf.constant(value, visible.dtype)) for name, value in numbers.items()},
        }

    def points(self, machine: Machine, batch: Batch, state: State, key: tf.Tensor) -> tuple[Points, State]:
        source = batch_source(key)
        visible = gibbs_from_hidden(machine, state["hidden"], self.gibbs_steps, source).visible
        field = batch.hidden_field_beside(visible)
        rungs, turn = (tf.cast(state[name], tf.int32) for name in ("rungs", "turn"))
        lower = tf.where(turn % 2 == 0, rungs - 1, (turn // 2) % rungs)
        newest = lower == rungs - 1
        # The place above the newest rung has the present parameters at every update: freezing is to count it. XLA
        # writes into large arrays in place only if that comes first, and reading after it.
        rows = state["ladder_parameters"].shape[-2]
        parameters = put(state["ladder_parameters"], rungs, tf.repeat(packed(machine)[..., None, :], rows, axis=-2))
        chains = self._settled(state)
        swapped = self._exchange(machine, visible, lower, newest, parameters, chains, subkey(key, _LADDER))
        top = newest[..., None, None]
        visible = tf.where(top, swapped.upper, visible)
        field = tf.where(top, swapped.upper_field, field)
        new = {
            **state,
            "visible": visible,
            "hidden": machine.sample_hidden(field, source, draw=0),
            "ladder_parameters": parameters,
            "ladder_visible": chains,
            "moved_visible": tf.stack([swapped.lower, swapped.upper], axis=-3),
            "place": tf.cast(lower, visible.dtype),
            "turn": (state["turn"] + 1) % TURNS,
            **self._watched(machine, lower, newest, state, swapped),
        }
        return Points(visible, field), new

    @staticmethod
    def _settled(state: State) -> tf.Tensor:
        """Chains of all rungs, with those that have moved at the last update in their places."""
        place, moved = tf.cast(state["place"], tf.int32), state["moved_visible"]
        chains = put(state["ladder_visible"], place, moved[..., 0, :, :])
        return put(chains, place + 1, moved[..., 1, :, :])

    @staticmethod
    def _exchange(
        machine: Machine,
        visible: tf.Tensor,
        lower: tf.Tensor,
        newest: tf.Tensor,
        parameters: tf.Tensor,
        chains: tf.Tensor,
        key: tf.Tensor,
    ) -> Swapped:
        """A Gibbs step of the chains of a rung, and their exchange with the rung above: for the newest, the model."""
        source = batch_source(key)
        rung, above = (unpacked(machine, take(parameters, place)[..., 0, :]) for place in (lower, lower + 1))
        _, moved = gibbs_step(rung, rung.hidden_field(take(chains, lower)), source, 0)
        others = tf.where(newest[..., None, None], visible, take(chains, lower + 1))
        return swap(rung, above, moved, others, source(2, moved[..., 0]))

    def _watched(self, machine: Machine, lower: tf.Tensor, newest: tf.Tensor, state: State, swapped: Swapped) -> State:
        """What follows from the swap rate of this turn: a new rung, an update that is taken back, or neither."""
        # Replicas have as many chains each.
        rate = replicas.total(tf.reduce_mean(swapped.acceptance, axis=-1)) / replicas.count()
        before = take(state["swap_rates"], lower)
        average = before + MEMORY * (rate - before)
        full = state["rungs"] >= self.max_rungs
        good = (rate >= self.floor) | full
        given_up = (state["returns"] < 0) | (state["returns"] >= MOST_RETURNS)
        returns = tf.where(good, 0.0, tf.where(given_up, -1.0, state["returns"] + 1.0))
        freeze = newest & ~full & (returns <= 0) & (rate <= self.threshold)
        sound = (newest & (returns <= 0))[..., None, None]
        return {
            "last_parameters": tf.where(sound, packed(machine)[..., None, :], state["last_parameters"]),
            "swap_rates": put(state["swap_rates"], lower, average),
            "rungs": state["rungs"] + tf.cast(freeze, rate.dtype),
            "returns": tf.where(newest, returns, state["returns"]),
            "going_back": tf.cast(newest & (returns > 0), rate.dtype),
        }

    def corrected(self, before: Machine, after: Machine, state: State) -> Machine | None:
        """The machine half-way back where an update is taken back."""
        middle = 0.5 * (state["last_parameters"][..., 0, :] + packed(before))
        return unpacked(after, tf.where(state["going_back"][..., None] > 0, middle, packed(after)))

    def num_points(self, machine: Machine, batch_size: int, shapes: Mapping[str, tuple[int, ...]]) -> int:
        return shapes["visible"][-2] if "visible" in shapes else self.chains or batch_size

    def metrics(self, state: State) -> dict[str, tf.Tensor]:
        used = tf.range(self.max_rungs + 1, dtype=state["rungs"].dtype) < state["rungs"][..., None]
        rates = tf.where(used, state["swap_rates"], 1.0)
        return {"rungs": state["rungs"], "swap_rate": tf.reduce_min(rates, axis=-1)}

    # The whole ladder

    def ladder(self, machine: Machine, state: State) -> tuple[Machine, tf.Tensor]:
        """All machines of a ladder, the model last, along a leading axis, and their chains ``[rungs + 1, M, n_v]``."""
        rungs = int(state["rungs"])
        parameters = tf.concat([state["ladder_parameters"][:rungs, 0], packed(machine)[None]], axis=0)
        return unpacked(machine, parameters), tf.concat([self._settled(state)[:rungs], state["visible"][None]], axis=0)

    def samples(self, machine: Machine, state: State, rows: int, steps: tf.Tensor, key: tf.Tensor) -> tf.Tensor:
        """Visible states of the model ``[rows, n_v]``, after sweeps of the whole ladder from where its chains are."""
        machines, visible = self.ladder(machine, state)
        have = visible.shape[-2]
        chosen = tf.gather(visible, tf.range(rows) % have, axis=-2)
        return self._compiled(run_sweeps, machine)(packed(machines), chosen, steps, key)[-1]

    def log_partition(self, machine: Machine, state: State) -> LogPartition | None:
        """log Z by Bennett's ratio between neighbours, from sweeps of the whole ladder.

        The error is at least half of the difference between the two halves of the sweeps: chains that were not samples
        of their machines yet drift, which their spread alone does not tell.
        """
        if not state:
            return None
        if machine.members:
            each: Any = [
                self.log_partition(unpacked(machine, packed(machine)[i]), {n: v[i] for n, v in state.items()})
                for i in range(machine.members[0])
            ]
            return LogPartition(*(tf.stack(values) for values in zip(*each, strict=True)))
        machines, visible = self.ladder(machine, state)
        key, run = tf.constant([_LOG_PARTITION, 0], tf.uint32), self._compiled(sweep, machine)
        theta, lower, upper = packed(machines), [], []
        for i in range(WARM_UP + SWEEPS):
            visible, down, up = run(theta, visible, tf.constant(i % 2), subkey(key, i))
            lower.append(down.numpy())
            upper.append(up.numpy())
        works = np.stack(lower[WARM_UP:]), np.stack(upper[WARM_UP:])
        ratio, error = bennett_ladder(*works)
        halves = slice(None, SWEEPS // 2), slice(SWEEPS // 2, None)
        early, late = (bennett_ladder(*(work[half] for work in works))[0] for half in halves)
        first = independent_log_partition(unpacked(machine, theta[0]))
        return LogPartition(first + ratio, tf.constant(max(error, abs(late - early) / 2), tf.float64))

    def _compiled(self, function: Callable[..., Any], like: Machine) -> Any:
        """``function`` of machines as parameter vectors, states, a number and a key; compiled once for a shape."""
        which = function, tuple(like.kernel.shape), type(like.visible), type(like.hidden)
        if which not in self._functions:

            def run(theta: tf.Tensor, visible: tf.Tensor, number: tf.Tensor, key: tf.Tensor) -> Any:
                return function(unpacked(like, theta), visible, number, batch_source(key))

            self._functions[which] = compiled(run)
        return self._functions[which]

    def get_config(self) -> dict[str, Any]:
        names = ("gibbs_steps", "chains", "max_rungs", "threshold", "floor")
        return {name: getattr(self, name) for name in names}


def take(values: tf.Tensor, index: tf.Tensor) -> tf.Tensor:
    """Entry ``index`` of the axis behind the leading ones: ``[..., rungs, ...]`` and ``[...]`` -> ``[..., ...]``."""
    return tf.gather(values, index, axis=index.shape.rank, batch_dims=index.shape.rank)


def put(values: tf.Tensor, index: tf.Tensor, value: tf.Tensor) -> tf.Tensor:
    """``values`` with ``value`` as the entry ``index`` of the axis behind the leading ones."""
    if not index.shape.rank:
        return tf.tensor_scatter_nd_update(values, index[None, None], value[None])
    members = tf.range(index.shape[0])
    return tf.tensor_scatter_nd_update(values, tf.stack([members, index], axis=-1), value)
