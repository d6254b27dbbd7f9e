"""What a negative phase is: a source of points, and a rule for their weights."""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf

from tf_wcd import replicas
from tf_wcd.machine import Machine
from tf_wcd.negative_phases.base import Batch, Points, PointSource, State, Weights
from tf_wcd.negative_phases.weights.model import ModelWeights
from tf_wcd.random import subkey
from tf_wcd.sampling.population import LogPartition

_WEIGHTS = 0x3E16  # the purpose of the key of the weights, so that they draw other numbers than the points


@keras.saving.register_keras_serializable(package="tf_wcd")
class NegativePhase:
    """A negative phase: a source of points, and a rule for their weights.

    Pass it both, or subclass it: a subclass may implement `points` itself, and name its rule in the class attribute
    ``weights``. The default rule is the model's probability within the set. Where `points` returns ``log_weights``,
    these are used.

    State that lives from update to update (persistent chains, their weights) is a dictionary of floating tensors of
    constant shape: `initial_state` makes it, `points` takes it and returns what it has become. The layer keeps it in
    variables and saves it with the model. Chains that are called ``visible`` can be started by `RBMLayer.start_chains`.

    Under `tf.distribute` every replica has a part of the batch, of the points and of the state: arrays of the state
    with two axes or more are divided along the last but one. Weights are normalised over all replicas.

    `tf_wcd.negative_phases.register` gives a phase a name for ``RBMLayer(..., negative_phase="name")``. To save models
    with it, register its class with `keras.saving.register_keras_serializable`; `get_config` must return the arguments
    of ``__init__``.

    Args:
        source: where the points come from.
        weights: the rule for their weights; the model's if not given.

    Example:

    >>> class TrainingSet(NegativePhase):
    ...     '''Weighs the batch itself by the model.'''
    ...
    ...     def points(self, machine, batch, state, key):
    ...         return Points(batch.visible, batch.hidden_field), state
    >>> import tf_wcd
    >>> rbm = tf_wcd.RBMLayer(3, negative_phase=TrainingSet())
    """

    source: PointSource = PointSource()
    weights: Weights = ModelWeights()

    def __init__(self, source: PointSource | None = None, weights: Weights | None = None) -> None:
        if source is not None:
            self.source = source
        if weights is not None:
            self.weights = weights

    @property
    def row_by_row(self) -> bool:
        """Whether point m is a reconstruction of example m, with its weight; what a subclass does is not known."""
        own = type(self).points is not NegativePhase.points
        return self.source.row_by_row and self.weights.row_by_row and not own

    @property
    def answers_each_row(self) -> bool:
        """Whether each example may have a model of its own, as under conditions: its points then answer it alone."""
        own = type(self).points is not NegativePhase.points
        plain = type(self.weights) is ModelWeights and not self.weights.minimum_ess
        return self.row_by_row or (self.source.answers_each_row and plain and not own)

    @property
    def members_apart(self) -> bool:
        """Whether members of an ensemble may be computed in parts; what a subclass does is not known."""
        own = type(self).points is not NegativePhase.points
        return self.source.members_apart and self.weights.members_apart and not own

    def validate(self, machine: Machine) -> None:
        """Raises ValueError where this phase does not fit the machine. Called once, before training."""
        self.source.validate(machine)

    def initial_state(self, machine: Machine, batch_size: int, key: tf.Tensor) -> State:
        """State before the first update; the layer calls it once.

        Args:
            machine: the RBM.
            batch_size: examples in the first batch, of all replicas.
            key: uint32 [2].
        """
        return self.source.initial_state(machine, batch_size, key)

    def state_at(self, machine: Machine, visible: tf.Tensor, key: tf.Tensor) -> State:
        """The initial state with its chains at the given visible states ``[..., chains, n_v]``."""
        state = self.initial_state(machine, visible.shape[-2], key)
        if "visible" not in state:
            raise ValueError(
                "The negative phase has no persistent chains: use 'pcd', 'wpcd' or 'jpcd'. "
                f"Received: {type(self).__name__}"
            )
        return self.source.state_at(machine, visible, state, key)

    def points(self, machine: Machine, batch: Batch, state: State, key: tf.Tensor) -> tuple[Points, State]:
        """The points of an update, and the state that it leaves.

        Args:
            machine: the RBM at its present parameters.
            batch: the data of this update.
            state: what this method returned at the update before.
            key: uint32 [2], new at each update; see `tf_wcd.random`.
        """
        return self.source.points(machine, batch, state, key)

    def metrics(self, state: State) -> dict[str, tf.Tensor]:
        """Scalars of the state for the logs of training, by name; always the same names."""
        return {**self.source.metrics(state), **self.weights.metrics(state)}

    def log_partition(self, machine: Machine, state: State) -> LogPartition | None:
        """log Z at the present parameters, if the state of all replicas together knows it; ``None`` if it does not.

        See `tf_wcd.evaluation.online_log_partition`.
        """
        known = self.source.log_partition(machine, state)
        return self.weights.log_partition(machine, state) if known is None else known

    def get_config(self) -> dict[str, Any]:
        """Arguments of ``__init__``; a subclass that takes none leaves it as it is."""
        if type(self) is not NegativePhase:
            return {}
        parts = {"source": self.source, "weights": self.weights}
        return {name: keras.saving.serialize_keras_object(part) for name, part in parts.items()}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> NegativePhase:
        """The phase that `get_config` describes."""
        if cls is NegativePhase:
            config = {name: keras.saving.deserialize_keras_object(part) for name, part in config.items()}
        return cls(**config)


def start(
    phase: NegativePhase,
    machine: Machine,
    key: tf.Tensor,
    batch_size: Any = None,
    visible: tf.Tensor | None = None,
) -> State:
    """The state before the first update, with what the rule of the weights remembers.

    Args:
        phase: the negative phase.
        machine: the RBM.
        key: uint32 [2].
        batch_size: examples in the first batch, of all replicas.
        visible: states ``[..., chains, n_v]`` for the chains to start from, in the place of a number.
    """
    if visible is not None:
        state = phase.state_at(machine, visible, key)
    else:
        state = phase.initial_state(machine, batch_size, key)
    return {**state, **phase.weights.initial_state(machine, state, subkey(key, _WEIGHTS))}


def weighted_points(
    phase: NegativePhase, machine: Machine, batch: Batch, state: State, key: tf.Tensor
) -> tuple[Points, tf.Tensor, State]:
    """What an update needs: the points, the logarithm of their normalised weights, and the new state."""
    state = phase.weights.before(machine, state, subkey(key, _WEIGHTS))
    points, state = phase.points(machine, batch, state, key)
    if points.log_weights is not None:
        return points, replicas.normalise(points.log_weights), state
    log_weights, state = phase.weights.log_weights(machine, batch, points, state)
    return points, log_weights, state
