"""The parts of a negative phase: data in, points out, and the rule for their weights."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from tf_wcd.machine import Machine
from tf_wcd.sampling.population import LogPartition

State = dict[str, tf.Tensor]


class Batch:
    """The positive phase: the data of one update.

    Attributes:
        machine: the RBM at its present parameters.
        visible: ``[..., B, n_v]``.
        log_weights: ``[..., B]`` logarithm of the normalised sample weights.
    """

    def __init__(self, machine: Machine, visible: tf.Tensor, log_weights: tf.Tensor) -> None:
        self.machine, self.visible, self.log_weights = machine, visible, log_weights
        self._hidden_field: tf.Tensor | None = None
        self.joint = False  # whether the field came out of one product with that of the points

    @property
    def hidden_field(self) -> tf.Tensor:
        """``[..., B, n_h]`` c + W x of the data, computed when it is first asked for."""
        if self._hidden_field is None:
            self._hidden_field = self.machine.hidden_field(self.visible)
        return self._hidden_field

    def hidden_field_beside(self, points: tf.Tensor) -> tf.Tensor:
        """c + W y of points that do not depend on the data's field: one matrix product gives both.

        Args:
            points: ``[..., M, n_v]``.
        """
        if self._hidden_field is not None:
            return self.machine.hidden_field(points)
        self.joint = True
        self._hidden_field, field = self.machine.hidden_fields(self.visible, points)
        return field


@dataclasses.dataclass(frozen=True)
class Points:
    """The points Y of a negative phase.

    Attributes:
        visible: ``[..., M, n_v]``.
        hidden_field: ``[..., M, n_h]`` c + W y.
        log_weights: ``[..., M]`` logarithm of their weights, up to a constant; ``None`` leaves them to the rule of the
            negative phase.
    """

    visible: tf.Tensor
    hidden_field: tf.Tensor
    log_weights: tf.Tensor | None = None

    def log_density(self, machine: Machine, states: tf.Tensor) -> tf.Tensor:
        """Log of the density, at given states, of what the points of all replicas were drawn from; -inf for zero.

        Args:
            machine: the RBM.
            states: ``[..., N, n_v]``.

        Returns:
            ``[..., N]``.
        """
        raise ValueError(
            "Balanced weights need points whose density is known: reconstructions, neighbours, random states, or some "
            f"of these joined. Received: {type(self).__name__}"
        )


class Part:
    """What sources of points and rules for weights have in common.

    Attributes:
        row_by_row: whether point m is a reconstruction of example m, with its weight. Then examples may differ in more
            than their states: in the hidden units that they have, say.
        answers_each_row: whether the points of machines that differ row by row come with weights for each row.
        members_apart: whether the members of an ensemble may be computed in parts: each array of random numbers has the
            members as its first axis.
    """

    row_by_row: bool = False
    answers_each_row: bool = False
    members_apart: bool = False

    def metrics(self, state: State) -> dict[str, tf.Tensor]:
        """Scalars of the state for the logs of training, by name; always the same names."""
        return {}

    def log_partition(self, machine: Machine, state: State) -> LogPartition | None:
        """log Z at the present parameters, if the state of all replicas together knows it; ``None`` if it does not.

        See `tf_wcd.evaluation.online_log_partition`.
        """
        return None

    def get_config(self) -> dict[str, Any]:
        """Arguments of ``__init__``."""
        return {}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Any:
        """The object that `get_config` describes."""
        return cls(**config)


class PointSource(Part):
    """Where the points of a negative phase come from."""

    def validate(self, machine: Machine) -> None:
        """Raises ValueError where the source does not fit the machine. Called once, before training."""

    def initial_state(self, machine: Machine, batch_size: int, key: tf.Tensor) -> State:
        """State before the first update: tensors by name; empty for a source that remembers nothing."""
        return {}

    def state_at(self, machine: Machine, visible: tf.Tensor, state: State, key: tf.Tensor) -> State:
        """The state with its chains at the given visible states; ``state`` is an initial one."""
        return {**state, "visible": visible}

    def points(self, machine: Machine, batch: Batch, state: State, key: tf.Tensor) -> tuple[Points, State]:
        """The points of an update, and the state that it leaves; see `NegativePhase.points`."""
        raise NotImplementedError(f"{type(self).__name__} must implement `points`.")

    def corrected(self, before: Machine, after: Machine, state: State) -> Machine | None:
        """The machine that an update is to leave instead of ``after``; ``None`` to leave it as it is.

        Called after each update on a single replica.

        Args:
            before: the RBM at the parameters before the update.
            after: the RBM at the parameters that the optimizer has set.
            state: what `points` of this update returned.
        """
        return None

    def samples(self, machine: Machine, state: State, rows: int, steps: tf.Tensor, key: tf.Tensor) -> tf.Tensor | None:
        """Visible states of the model ``[rows, n_v]`` from the chains of the state; ``None`` if it has none to offer.

        Args:
            machine: one RBM at its present parameters.
            state: the state of training, of all replicas.
            rows: number of samples.
            steps: int32, steps to make from where the chains are.
            key: uint32 [2].
        """
        return None

    def num_points(self, machine: Machine, batch_size: int, shapes: Mapping[str, tuple[int, ...]]) -> int | None:
        """Number of points of an update, of all replicas; ``None`` if it is not known.

        Args:
            machine: the RBM.
            batch_size: examples in the batch.
            shapes: shapes of the arrays of the state, by name.
        """
        return None

    def alternatives(self) -> tuple[str, ...]:
        """Names of phases to take instead where the weights of these points collapse; none if that is no fault."""
        return ()


class Weights(Part):
    """A rule for the weights of points."""

    def initial_state(self, machine: Machine, state: State, key: tf.Tensor) -> State:
        """What the rule remembers before the first update, given the state of the points: tensors by name."""
        return {}

    def before(self, machine: Machine, state: State, key: tf.Tensor) -> State:
        """The state before the points move: the parameters have changed since they stood where they stand."""
        return state

    def log_weights(self, machine: Machine, batch: Batch, points: Points, state: State) -> tuple[tf.Tensor, State]:
        """``[..., M]`` logarithm of the weights, normalised over the points of all replicas, and the new state."""
        raise NotImplementedError(f"{type(self).__name__} must implement `log_weights`.")

    def remedies(self, source: PointSource) -> tuple[str, ...]:
        """What to do where the weights of these points collapse, for a warning; none if they cannot, or should."""
        return ()
