"""What a negative phase is: a set of points and their weights."""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple

import tensorflow as tf

from tf_wcd import replicas
from tf_wcd.machine import Machine
from tf_wcd.weights import check_minimum_ess, model_log_weights, tempered_log_weights

State = dict[str, tf.Tensor]


class Batch(NamedTuple):
    """The positive phase: the data of one update.

    Attributes:
        visible: ``[..., B, n_v]``.
        log_weights: ``[..., B]`` logarithm of the normalised sample weights.
        hidden_field: ``[..., B, n_h]`` c + W x.
    """

    visible: tf.Tensor
    log_weights: tf.Tensor
    hidden_field: tf.Tensor


class Points(NamedTuple):
    """The points Y of a negative phase.

    Attributes:
        visible: ``[..., M, n_v]``.
        hidden_field: ``[..., M, n_h]`` c + W y.
        data_hidden_field: the batch's hidden field again, where it came out of the same matrix product as the points':
            the training then uses this one, and the batch's own is never computed. ``None`` otherwise.
    """

    visible: tf.Tensor
    hidden_field: tf.Tensor
    data_hidden_field: tf.Tensor | None = None


class NegativePhase:
    """The weighted negative phase over any points: subclass it, say where the points come from, and pass an object.

    A subclass implements `points`. The weights are the model's, softmax(-F), unless it overrides `log_weights` too.
    State that lives from update to update (persistent chains) is a dictionary of tensors: `initial_state` makes it,
    `points` takes it and returns what it has become; the layer keeps it in variables and saves it with the model.

    Under `tf.distribute` every replica has its own part of the batch, of the points and of the state: arrays of the
    state with two axes or more are divided along the last but one. Weights are normalised over all replicas with
    `tf_wcd.replicas.normalise`.

    A subclass with a ``name`` can be asked for by that name, ``RBMLayer(..., negative_phase="name")``. To save models
    with it, register it with `keras.saving.register_keras_serializable`; `get_config` must return the arguments
    of ``__init__``.

    Example:

    >>> class TrainingSet(NegativePhase):
    ...     '''Weighs the batch itself against the model.'''
    ...
    ...     def points(self, machine, batch, state, key):
    ...         return Points(batch.visible, batch.hidden_field), state
    >>> import tf_wcd
    >>> rbm = tf_wcd.RBMLayer(3, negative_phase=TrainingSet())
    """

    name: ClassVar[str | None] = None
    by_name: ClassVar[dict[str, type[NegativePhase]]] = {}

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "name" in cls.__dict__ and cls.name is not None:
            NegativePhase.by_name[cls.name] = cls

    def validate(self, machine: Machine) -> None:
        """Raises ValueError where this phase does not fit the machine. Called once, before training."""

    def initial_state(self, machine: Machine, batch_size: int, key: tf.Tensor) -> State:
        """State before the first update; the layer calls it once."""
        return {}

    def points(self, machine: Machine, batch: Batch, state: State, key: tf.Tensor) -> tuple[Points, State]:
        """The points, and the new state.

        Args:
            machine: the RBM at its present parameters.
            batch: the data of this update.
            state: what this method returned at the update before.
            key: uint32 [2], new at each update; see `tf_wcd.random_bits.uniform`.
        """
        raise NotImplementedError(f"{type(self).__name__} must implement `points`.")

    def log_weights(self, machine: Machine, batch: Batch, points: Points) -> tf.Tensor:
        """``[..., M]`` normalised log-weights of the points."""
        return model_log_weights(machine, points.visible, points.hidden_field)

    def get_config(self) -> dict[str, Any]:
        return {}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> NegativePhase:
        return cls(**config)


class Tempered(NegativePhase):
    """A negative phase with the model's weights, tempered where they would collapse onto a few points.

    Args:
        minimum_ess: the effective sample size to keep, as a fraction of the number of points; 0 for the plain weights.
    """

    def __init__(self, minimum_ess: float = 0.0) -> None:
        self.minimum_ess = check_minimum_ess(minimum_ess)

    def log_weights(self, machine: Machine, batch: Batch, points: Points) -> tf.Tensor:
        log_weights = super().log_weights(machine, batch, points)
        return tempered_log_weights(log_weights, self.minimum_ess) if self.minimum_ess else log_weights

    def get_config(self) -> dict[str, Any]:
        return {"minimum_ess": self.minimum_ess}


def uniform_log_weights(points: Points) -> tf.Tensor:
    """Equal weights, 1 / M, where M counts the points of all replicas."""
    shape = tf.shape(points.visible)[:-1]
    count = replicas.total(tf.cast(shape[-1], points.visible.dtype))
    return tf.zeros(shape, points.visible.dtype) - tf.math.log(count)
