"""Gibbs reconstructions of the batch, or of other points."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import keras
import tensorflow as tf

from tf_wcd import replicas
from tf_wcd.arguments import check_integer
from tf_wcd.machine import Machine
from tf_wcd.negative_phases.base import Batch, Points, PointSource, State
from tf_wcd.negative_phases.points.nearby import Nearby
from tf_wcd.random import batch_source, subkey
from tf_wcd.sampling import gibbs_from_hidden
from tf_wcd.units import Unit

_START = 0x57A7  # the purpose of the key of the points to start from


@dataclasses.dataclass(frozen=True)
class Reconstructed(Points):
    """Points that are reconstructions, with what their density follows from.

    Attributes:
        hidden: ``[..., M, n_h]`` the first hidden states of each chain, drawn given its start.
        visible_field: ``[..., M, n_v]`` the field that the points were drawn in.
        start: the points that the chains start from; ``None`` for the batch.
    """

    hidden: tf.Tensor | None = None
    visible_field: tf.Tensor | None = None
    start: Points | None = None

    def log_density(self, machine: Machine, states: tf.Tensor) -> tf.Tensor:
        density = log_mixture(machine.visible, states, self.visible_field)
        base = machine.visible.total_base_energy(states)
        return density if base is None else density - base


@keras.saving.register_keras_serializable(package="tf_wcd")
class Reconstructions(PointSource):
    """Each example after k Gibbs steps.

    Args:
        gibbs_steps: k. With 0 the points are the examples themselves.
        start: where the points come from that the steps start from; the batch if not given.

    Example:

    >>> from tf_wcd.negative_phases.points import Joined, RandomStates
    >>> from tf_wcd.negative_phases.weights import BalancedWeights
    >>> source = Reconstructions(1, start=Joined([Reconstructions(0), RandomStates(per_example=0.5)]))
    >>> rbm = tf_wcd.RBMLayer(3, negative_phase=tf_wcd.NegativePhase(source, BalancedWeights()))
    """

    def __init__(self, gibbs_steps: int = 1, start: PointSource | None = None) -> None:
        self.gibbs_steps = check_integer("gibbs_steps", gibbs_steps, least=0)
        if start is not None and not isinstance(start, PointSource):
            raise ValueError(f"`start` must be a source of points. Received: start={start!r}")
        self.start = start
        self.row_by_row = self.members_apart = start is None

    def validate(self, machine: Machine) -> None:
        if self.start is not None:
            self.start.validate(machine)

    def initial_state(self, machine: Machine, batch_size: int, key: tf.Tensor) -> State:
        return {} if self.start is None else self.start.initial_state(machine, batch_size, key)

    def state_at(self, machine: Machine, visible: tf.Tensor, state: State, key: tf.Tensor) -> State:
        return state if self.start is None else self.start.state_at(machine, visible, state, key)

    def points(self, machine: Machine, batch: Batch, state: State, key: tf.Tensor) -> tuple[Points, State]:
        begun, state = self._starts(machine, batch, state, key)
        if not self.gibbs_steps:
            return begun, state
        source = batch_source(key)
        hidden = machine.sample_hidden(begun.hidden_field, source, 0)
        drawn = gibbs_from_hidden(machine, hidden, self.gibbs_steps, source)
        points = Reconstructed(
            drawn.visible,
            machine.hidden_field(drawn.visible),
            hidden=hidden,
            visible_field=drawn.field,
            start=begun,
        )
        return points, state

    def _starts(self, machine: Machine, batch: Batch, state: State, key: tf.Tensor) -> tuple[Points, State]:
        if self.start is None:
            return Nearby(batch.visible, batch.hidden_field, examples=batch.visible), state
        return self.start.points(machine, batch, state, subkey(key, _START))

    def num_points(self, machine: Machine, batch_size: int, shapes: Mapping[str, tuple[int, ...]]) -> int | None:
        return batch_size if self.start is None else self.start.num_points(machine, batch_size, shapes)

    def alternatives(self) -> tuple[str, ...]:
        return "bcd", "pcd"

    def metrics(self, state: State) -> dict[str, tf.Tensor]:
        return {} if self.start is None else self.start.metrics(state)

    def get_config(self) -> dict[str, Any]:
        start = {} if self.start is None else {"start": keras.saving.serialize_keras_object(self.start)}
        return {"gibbs_steps": self.gibbs_steps, **start}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Any:
        start = {
            name: keras.saving.deserialize_keras_object(value) for name, value in config.items() if name == "start"
        }
        return cls(**{**config, **start})


def log_mixture(unit: Unit, states: tf.Tensor, fields: tf.Tensor) -> tf.Tensor:
    """Log of the mean density of states ``[..., N, n]`` in the fields of all replicas, without their base energy.

    Args:
        unit: type of the units.
        states: ``[..., N, n]``.
        fields: ``[..., M, n]`` this replica's fields.

    Returns:
        ``[..., N]``.
    """
    count = replicas.total(tf.cast(tf.shape(fields)[-2], fields.dtype))
    return log_sum_of_overlaps(states, fields, unit.total_cumulant(fields)) - tf.math.log(count)


def log_sum_of_overlaps(rows: tf.Tensor, columns: tf.Tensor, cumulants: tf.Tensor) -> tf.Tensor:
    """log sum_j exp(row_m . column_j - cumulant_j), over the columns of all replicas.

    Args:
        rows: ``[..., N, n]``.
        columns: ``[..., M, n]`` this replica's.
        cumulants: ``[..., M]``.

    Returns:
        ``[..., N]``.
    """
    columns, cumulants = replicas.gather(columns, axis=-2), replicas.gather(cumulants)
    # One product gives the differences, and has no transposed operand, for which XLA's code is slow.
    right = tf.concat([tf.linalg.matrix_transpose(columns), cumulants[..., None, :]], axis=-2)
    left = tf.concat([rows, -tf.ones_like(rows[..., :1])], axis=-1)
    return tf.reduce_logsumexp(tf.matmul(left, right), axis=-1)
