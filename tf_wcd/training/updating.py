"""What an update is: the methods that a model declares, and Keras' steps made of them."""

from __future__ import annotations

import math
from typing import Any

import keras
import tensorflow as tf

from tf_wcd import compat, replicas
from tf_wcd.arguments import check_variable_dtype
from tf_wcd.negative_phases import State
from tf_wcd.random import key_of
from tf_wcd.shapes import static_shape
from tf_wcd.training.guard import DivergenceGuard
from tf_wcd.training.inputs import DataSpec, Input
from tf_wcd.training.inputs.arrays import ResidentData
from tf_wcd.training.loop import BlockRunner
from tf_wcd.training.resume import FirstUpdate
from tf_wcd.training.sharing import Programs
from tf_wcd.training.step import Weighted

MEASURES = ("loss", "reconstruction_error", "ess")
_EVALUATION = 0x5EED  # the purpose of the key of evaluations: training never uses it


class Untracked:
    """What belongs to a model but is never saved or exported: compiled functions, data of the present training."""

    def __init__(self) -> None:
        self.programs = Programs()
        self.mixing: Any = None  # what was found of the chains, and the parameters that it was found for
        self.warned_of_mixing = False
        self.resident: dict[int, ResidentData] = {}
        self.runner: BlockRunner | None = None
        self.first_update: FirstUpdate | None = None
        self.guard: DivergenceGuard | None = None  # of updates outside of `fit`
        self.tested_with: Any = None
        self.part: Any = None  # of an ensemble: what its members have of their own
        self.with_xla: bool | None = (
            None  # whether the present training pays the compiler; None for what `compile` said
        )
        self.phase_measures: list[keras.metrics.Metric] = []
        self.compile_arguments: dict[str, Any] = {}


class UpdatingModel(compat.WithoutSymbolicBuild, keras.Model):
    """A Keras model that learns by updates which it declares itself.

    Metrics, each measured at the last update of every compiled call and averaged over the epoch:

    - ``loss``: mean free energy of the data minus that of the negative points, each with its weights. Its gradient with
      the points and weights held is the update. It is *not* the likelihood, and need not fall.
    - ``reconstruction_error``: mean square of x - E[x | E[h | x]].
    - ``ess``: effective sample size of the negative phase's weights, as a fraction of the number of points.
    - ``accuracy``, of an RBM with ``classes``: fraction of examples whose label is the most probable one. Without a
      generative objective the ``loss`` is the mean of -log P(label | x), and there is no ``ess``.
    - what the negative phase adds (`NegativePhase.metrics`).
    """

    evaluation_rows: int | None = None  # examples in a batch of the last `evaluate`
    warned_of_monitor: bool = False  # whether `fit` has warned of a callback that watches the loss
    warned_of_collapse: bool = False  # whether `fit` has warned of weights that have collapsed
    optimizer: Any = None  # Keras' callbacks ask for it before `compile`, too

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        check_variable_dtype(self.dtype_policy)
        self._measures = [keras.metrics.Mean(name=name) for name in MEASURES]
        self._untracked = Untracked()
        self.train_function: Any = None
        self.test_function: Any = None

    # What a model declares

    @property
    def trained_variables(self) -> list[keras.Variable]:
        """The variables that the optimizer of `compile` moves."""
        return self.trainable_variables

    @property
    def members(self) -> tuple[int, ...]:
        """Leading axes of the trained variables, along which there are independent models."""
        return ()

    def data_spec(self) -> DataSpec:
        """What the model takes as data."""
        raise NotImplementedError(f"{type(self).__name__} must implement `data_spec`.")

    def build_training(self, batch_size: int) -> None:
        """Makes the variables that training needs on a built model, but for the optimizer's."""
        raise NotImplementedError(f"{type(self).__name__} must implement `build_training`.")

    def validate(self) -> None:
        """Raises ValueError where the model, once built, cannot be trained as it was asked to be."""

    @property
    def largest_parameter(self) -> float:
        """Size beyond which a parameter means that training has diverged: here, where its square is infinite."""
        return math.sqrt(float(tf.as_dtype(self.variable_dtype).max))

    def flaw(self) -> str:
        """What is wrong with parameters that are finite, in words; empty if nothing is. Training stops for it."""
        return ""

    def has_phase_state(self) -> bool:
        """Whether training has made the state of the negative phase."""
        raise NotImplementedError(f"{type(self).__name__} must implement `has_phase_state`.")

    def phase_state(self) -> State:
        """The state of the negative phase as tensors."""
        raise NotImplementedError(f"{type(self).__name__} must implement `phase_state`.")

    def evaluation_state(self, batch_size: int) -> State:
        """The state of the negative phase to measure with: before training, one that is not kept."""
        raise NotImplementedError(f"{type(self).__name__} must implement `evaluation_state`.")

    def update(
        self, rows: tf.Tensor, sample_weight: tf.Tensor | None, state: State, key: tf.Tensor, training: bool = False
    ) -> Any:
        """Computes an update of a batch; nothing changes. With ``training`` it may drop units, see `RBMLayer`."""
        raise NotImplementedError(f"{type(self).__name__} must implement `update`.")

    def measures(self, update: Any) -> dict[str, Any]:
        """Values of the metrics, by name: tensors, or `Weighted` ones."""
        raise NotImplementedError(f"{type(self).__name__} must implement `measures`.")

    def doubts(self, batch_size: int) -> list[str]:
        """What `fit` warns of before it begins, once everything is built."""
        return []

    @property
    def loss_is_objective(self) -> bool:
        """Whether a lower ``loss`` is a better model."""
        return False

    def collapse_warning(self, ess: float, batch_size: int) -> str | None:
        """What to say of weights with this effective sample size, as a fraction of the points, in an epoch."""
        return None

    def apply_update(self, update: Any) -> None:
        """Moves the parameters, and the state of the negative phase, one step."""
        raise NotImplementedError(f"{type(self).__name__} must implement `apply_update`.")

    def flops_of_update(self, batch_size: int) -> float:
        """Floating-point operations of an update, roughly."""
        raise NotImplementedError(f"{type(self).__name__} must implement `flops_of_update`.")

    def remember_data(self, data: Input) -> None:
        """Keeps what the model wants to know of its training data."""

    # One update

    @property
    def metrics(self) -> list[keras.metrics.Metric]:
        return [*self._measures, *self._untracked.phase_measures]

    def next_update(self, rows: tf.Tensor, sample_weight: tf.Tensor | None) -> Any:
        """`update` with the present state and the next random numbers."""
        key = replicas.own_key(key_of(self.seed_generator.next()))
        return self.update(rows, sample_weight, self.phase_state(), key, training=True)

    def record(self, update: Any) -> dict[str, tf.Tensor]:
        """Puts the measures of an update into the metrics, and returns the logs."""
        measures = self.measures(update)
        for metric in self.metrics:
            measure = measures[metric.name]
            metric.update_state(*(measure if isinstance(measure, Weighted) else (measure,)))
        return {metric.name: replicas.for_logs(metric.result()) for metric in self.metrics}

    def train_step(self, data: Any) -> dict[str, tf.Tensor]:
        rows, _, sample_weight = keras.utils.unpack_x_y_sample_weight(data)
        update = self.next_update(rows, sample_weight)
        logs = self.record(update)
        self.apply_update(update)
        return logs

    def test_step(self, data: Any) -> dict[str, tf.Tensor]:
        rows, _, sample_weight = keras.utils.unpack_x_y_sample_weight(data)
        # Examples in a batch of all replicas, as far as they are known: those of `evaluate`, or of this batch.
        count = self.evaluation_rows or static_shape(tf.convert_to_tensor(rows))[0] * replicas.count()
        key = replicas.own_key(key_of(self.seed_generator.state, purpose=_EVALUATION))
        return self.record(self.update(rows, sample_weight, self.evaluation_state(count), key))

    def add_phase_measures(self, names: Any) -> None:
        """Adds metrics for what the negative phase measures, when its state is made."""
        if taken := set(MEASURES) & set(names):
            raise ValueError(f"The metrics {list(MEASURES)} are the library's. Received: {sorted(taken)} of the phase")
        known = {metric.name for metric in self.metrics}
        with self.distribute_strategy.scope():
            self._untracked.phase_measures += [keras.metrics.Mean(name=n) for n in sorted(names) if n not in known]

    # Keras' functions of a training

    def make_train_function(self, force: bool = False) -> None:
        if self.train_function is not None and not force:
            return
        super().make_train_function(force)
        one_by_one = self.train_function

        def train_function(iterator: Any) -> dict[str, Any]:
            # With a strategy of one replica, Keras distributes the ticks to it.
            runner = self._untracked.runner
            if runner is not None and isinstance(iterator, (tf.data.Iterator, tf.distribute.DistributedIterator)):
                return runner(iterator)
            return one_by_one(iterator)

        self.train_function = train_function

    def make_test_function(self, force: bool = False) -> Any:
        """The steps of `evaluate`. They change once there are chains, which they then read."""
        if self.distribute_strategy.num_replicas_in_sync > 1:
            state = self.has_phase_state()
            present = state, None if state else self.evaluation_rows
            super().make_test_function(force or present != self._untracked.tested_with)
            self._untracked.tested_with = present
            return self.test_function
        purpose = "evaluate", None if self.has_phase_state() else self.evaluation_rows
        step = self._untracked.programs.bound(self, purpose, self.test_step, jit_compile=self._untracked.with_xla)
        self.test_function = lambda iterator: step(next(iterator))
        return self.test_function
