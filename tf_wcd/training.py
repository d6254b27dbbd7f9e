"""How an RBM learns inside Keras: one update, and many of them in one compiled call."""

from __future__ import annotations

from typing import Any, NamedTuple

import keras
import tensorflow as tf

from tf_wcd import blocks, replicas, xla
from tf_wcd.gradient import Gradient, phase_difference
from tf_wcd.machine import Machine, static_shape
from tf_wcd.negative_phases import Batch, Points, State
from tf_wcd.random_bits import key_of
from tf_wcd.weights import effective_sample_size
from tf_wcd.xla import compiled


class Phases(NamedTuple):
    """Both phases of one update, before the parameters change."""

    machine: Machine
    batch: Batch
    scale: tf.Tensor
    points: Points
    log_weights: tf.Tensor
    state: State


class CompiledFunctions:
    """A model's compiled functions, in an object that Keras does not track: they are never saved or exported."""

    def __init__(self) -> None:
        self.run: dict[tuple[str, int | None], Any] = {}
        self.sample: Any = None


class MeasuredModel(keras.Model):
    """A Keras model with the metrics of two phases, which can be measured before there are any persistent chains."""

    evaluation_rows: int | None = None  # examples in a batch of the last `evaluate`

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._measures = [keras.metrics.Mean(name=name) for name in ("loss", "reconstruction_error", "ess")]
        self._tested_with: Any = None

    @property
    def metrics(self) -> list[keras.metrics.Metric]:
        return self._measures

    def _record(self, measured: tuple[tf.Tensor, ...]) -> dict[str, tf.Tensor]:
        for metric, value in zip(self._measures, measured, strict=True):
            metric.update_state(value)
        return {metric.name: replicas.for_logs(metric.result()) for metric in self._measures}

    def has_phase_state(self) -> bool:
        """Whether training has made the state of the negative phase."""
        raise NotImplementedError(f"{type(self).__name__} must implement `has_phase_state`.")

    def rows_of_evaluation(self, visible: tf.Tensor) -> Any:
        """Examples in a batch of all replicas, as far as they are known: those of `evaluate`, or of this batch."""
        return self.evaluation_rows or static_shape(tf.convert_to_tensor(visible))[0] * replicas.count()

    def make_test_function(self, force: bool = False) -> Any:
        """Compiles `test_step` again where it would do otherwise now: once there are chains, it reads them."""
        state = self.has_phase_state()
        present = state, None if state else self.evaluation_rows
        super().make_test_function(force or present != self._tested_with)
        self._tested_with = present


class ContrastiveModel(MeasuredModel):
    """A Keras model whose gradient is the difference of a positive and a negative phase.

    Subclasses provide the parameters (`machine`), the negative phase with its state, and `descend`, which applies a
    gradient.

    Metrics, each measured at the last update of every compiled call and averaged over the epoch:

    - ``loss``: mean free energy of the data minus that of the negative points, each with its weights. Its gradient with
      the points and weights held is the update. It is *not* the likelihood, and need not fall.
    - ``reconstruction_error``: mean square of x - E[x | E[h | x]].
    - ``ess``: effective sample size of the negative phase's weights, as a fraction of the number of points.
    """

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._resident: blocks.ResidentData | None = None
        self._runner: blocks.BlockRunner | None = None
        self.train_function: Any = None
        self._compiled = CompiledFunctions()
        self._compile_arguments: dict[str, Any] = {}

    def has_phase_state(self) -> bool:
        return bool(self.phase_variables.built)

    # Compilation

    def compile(
        self,
        optimizer: Any = "sgd",
        *,
        steps_per_execution: int | str = "auto",
        run_eagerly: bool = False,
        jit_compile: bool | str = "auto",
    ) -> None:
        """Configures the training.

        There is no ``loss``: the update is the difference of the two phases.

        Args:
            optimizer: a Keras optimizer, or its name.
            steps_per_execution: updates in one compiled call. Callbacks for batches fire once per call. ``"auto"``
                takes about half a second's worth, at most one epoch.
            run_eagerly: run step by step in Python, for debugging.
            jit_compile: compile with XLA; ``"auto"`` does so wherever it can.
        """
        automatic = steps_per_execution == "auto"
        if not automatic and (isinstance(steps_per_execution, (bool, str)) or steps_per_execution < 1):
            raise ValueError(
                f"`steps_per_execution` must be 'auto' or an integer of at least 1. Received: {steps_per_execution!r}"
            )
        # Keras' own "auto" leaves XLA out on machines without an accelerator, where it helps small updates most.
        jit = (
            xla.BY_DEFAULT and not run_eagerly and self.distribute_strategy.num_replicas_in_sync == 1
            if jit_compile == "auto"
            else jit_compile
        )
        super().compile(optimizer=optimizer, run_eagerly=run_eagerly, jit_compile=jit)
        self._compiled.run = {}
        self._compile_arguments = {
            "optimizer": self.optimizer,
            "steps_per_execution": steps_per_execution,
            "run_eagerly": run_eagerly,
            "jit_compile": jit_compile,
        }

    def get_compile_config(self) -> dict[str, Any]:
        return {name: keras.saving.serialize_keras_object(value) for name, value in self._compile_arguments.items()}

    def compile_from_config(self, config: dict[str, Any]) -> None:
        self.compile(**{name: keras.saving.deserialize_keras_object(value) for name, value in config.items()})
        if self.built:
            self.optimizer.build(self.trainable_variables)

    # One update

    def phases(self, visible: tf.Tensor, sample_weight: tf.Tensor | None, state: State, key: tf.Tensor) -> Phases:
        """The positive phase of a batch, and the negative phase that answers it."""
        machine = self.machine()
        visible = tf.cast(visible, machine.kernel.dtype)
        log_weights, scale = normalise_sample_weight(visible, sample_weight)
        batch = Batch(visible, log_weights, machine.hidden_field(visible))
        points, state = self.negative_phase.points(machine, batch, state, key)
        if points.data_hidden_field is not None:
            batch = batch._replace(hidden_field=points.data_hidden_field)
        return Phases(machine, batch, scale, points, self.negative_phase.log_weights(machine, batch, points), state)

    def measure(self, phases: Phases) -> tuple[tf.Tensor, ...]:
        """Values of the metrics, in their order."""
        machine, batch, _, points, log_weights, _ = phases
        positive, negative = tf.exp(batch.log_weights), tf.exp(log_weights)
        data_energy = tf.reduce_sum(positive * machine.free_energy(batch.visible, batch.hidden_field), axis=-1)
        model_energy = tf.reduce_sum(negative * machine.free_energy(points.visible, points.hidden_field), axis=-1)
        reconstruction = machine.visible.mean(machine.visible_field(machine.hidden.mean(batch.hidden_field)))
        errors = tf.reduce_mean(tf.square(batch.visible - reconstruction), axis=-1)
        count = replicas.total(tf.cast(tf.shape(log_weights)[-1], log_weights.dtype))
        sums = replicas.total(tf.stack([data_energy - model_energy, tf.reduce_sum(positive * errors, axis=-1)]))
        return sums[0], sums[1], effective_sample_size(log_weights) / count

    def update(self, phases: Phases) -> None:
        """Moves the parameters and the state of the negative phase one step."""
        self.descend(
            phase_difference(
                phases.machine,
                phases.batch,
                phases.points,
                phases.log_weights,
                scale=phases.scale,
                offsets=self.centering_offsets(),
            )
        )
        self.assign_phase_state(phases.state)

    def machine(self) -> Machine:
        raise NotImplementedError(f"{type(self).__name__} must implement `machine`.")

    def descend(self, gradient: Gradient) -> None:
        raise NotImplementedError(f"{type(self).__name__} must implement `descend`.")

    def train_step(self, data: Any) -> dict[str, tf.Tensor]:
        visible, _, sample_weight = keras.utils.unpack_x_y_sample_weight(data)
        key = replicas.own_key(key_of(self.seed_generator.next()))
        phases = self.phases(visible, sample_weight, self.phase_state(), key)
        measured = self.measure(phases)
        self.update(phases)
        return self._record(measured)

    def test_step(self, data: Any) -> dict[str, tf.Tensor]:
        visible, _, sample_weight = keras.utils.unpack_x_y_sample_weight(data)
        # A key that training never uses, so that an evaluation in between does not change what training does next.
        key = replicas.own_key(key_of(self.seed_generator.state, purpose=0x5EED))
        state = self.evaluation_state(self.rows_of_evaluation(visible))
        return self._record(self.measure(self.phases(visible, sample_weight, state, key)))

    # Many updates in one call

    def _run_function(self, kind: str, all_rows: int | None = None) -> Any:
        """The compiled loop over the updates of a block: ``run(block, start, stop)``.

        Args:
            kind: what a block holds, ``"indices"`` of resident rows or ``"batches"``.
            all_rows: number of resident rows, where each batch is all of them.
        """
        if (kind, all_rows) not in self._compiled.run:

            def fetch(block: Any, i: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
                if kind == "batches":
                    return block[0][i], block[1][i]
                assert self._resident is not None
                visible, weights = self._resident.visible, self._resident.weights
                if all_rows is None:
                    return tf.gather(visible, block[i]), tf.gather(weights, block[i])
                return tf.ensure_shape(visible, [all_rows, self.num_visible]), tf.ensure_shape(weights, [all_rows])

            def run(block: Any, start: tf.Tensor, stop: tf.Tensor) -> dict[str, tf.Tensor]:
                def next_phases(i: tf.Tensor) -> Phases:
                    return self.phases(*fetch(block, i), self.phase_state(), key_of(self.seed_generator.next()))

                def body(i: tf.Tensor) -> list[tf.Tensor]:
                    self.update(next_phases(i))
                    return [i + 1]

                # Metrics are read at the last update only: the others do no work for them.
                (last,) = tf.while_loop(lambda i: i < stop - 1, body, [start], parallel_iterations=1)
                phases = next_phases(last)
                measured = self.measure(phases)
                self.update(phases)
                return self._record(measured)

            if not self.run_eagerly:
                run = compiled(run, self.jit_compile, reduce_retracing=True)
            self._compiled.run[kind, all_rows] = run
        return self._compiled.run[kind, all_rows]

    def _maybe_symbolic_build(self, iterator: Any = None, data_batch: Any = None) -> None:
        """Nothing to do: `fit` has made every variable. (Keras would average the replicas' parts of a batch here.)"""

    def make_train_function(self, force: bool = False) -> None:
        if self.train_function is not None and not force:
            return
        super().make_train_function(force)
        one_by_one = self.train_function

        def train_function(iterator: Any) -> dict[str, Any]:
            # With a strategy of one replica, Keras distributes the ticks to it.
            if self._runner is not None and isinstance(iterator, (tf.data.Iterator, tf.distribute.DistributedIterator)):
                return self._runner(iterator)
            return one_by_one(iterator)

        self.train_function = train_function


def normalise_sample_weight(visible: tf.Tensor, sample_weight: tf.Tensor | None) -> tuple[tf.Tensor, tf.Tensor]:
    """Logarithm of the weights normalised to sum one, and their mean, which scales the whole step.

    A batch without weight (possible by chance in a shuffled array) gives a step of length zero. Under `tf.distribute`
    the batch is that of all replicas together.
    """
    dtype = visible.dtype
    rows = replicas.total(tf.cast(tf.shape(visible)[-2], dtype))
    if sample_weight is None:
        return tf.fill(tf.shape(visible)[:-1], -tf.math.log(rows)), tf.ones([], dtype)
    sample_weight = tf.reshape(tf.cast(sample_weight, dtype), tf.shape(visible)[:-1])
    total = replicas.total(tf.reduce_sum(sample_weight, axis=-1, keepdims=True))
    normalised = tf.where(total > 0, sample_weight / tf.where(total > 0, total, 1.0), 1.0 / rows)
    return tf.math.log(normalised), total[..., 0] / rows
