"""How models learn inside Keras: `compile`, `fit`, `evaluate` and `train_on_batch` for every model of this library.

A model declares what an update is, in the methods of `UpdatingModel`. All else is here: the kinds of data, many updates
in one compiled call, the guard against divergence, exact resume.
"""

from __future__ import annotations

import functools
import sys
import warnings
from typing import Any

import keras
import numpy as np

from tf_wcd import compat, data_checks, xla
from tf_wcd.arguments import check_integer, is_integer
from tf_wcd.images import as_rows
from tf_wcd.tables import array_of, is_table
from tf_wcd.training import inputs
from tf_wcd.training.collapse import CollapseWarning
from tf_wcd.training.guard import DivergenceGuard
from tf_wcd.training.inputs import ArrayInput, Input
from tf_wcd.training.inputs.arrays import ResidentData
from tf_wcd.training.inputs.base import Blocks
from tf_wcd.training.loop import BlockRunner, automatic_updates_per_call, run_updates
from tf_wcd.training.monitors import monitor_doubts
from tf_wcd.training.resume import FirstUpdate, save_weights_atomically, with_ours
from tf_wcd.training.sharing import Programs
from tf_wcd.training.updating import UpdatingModel


class TrainingModel(UpdatingModel):
    """A model that learns by the updates which it declares."""

    epochs_of_fit: int | None = None  # epochs that `fit` has done, for a training that goes on after a restart

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
            jit_compile: compile with XLA; ``"auto"`` does so wherever it can, but for a training of so few updates that
                it would end before the compiler had paid.
        """
        if steps_per_execution != "auto" and not (is_integer(steps_per_execution) and int(steps_per_execution) >= 1):
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
        self.loss = "free_energy_difference"  # a name for the metric: Keras' wrappers for scikit-learn ask for one
        self._untracked.programs = Programs()
        self._untracked.guard = None
        self._untracked.compile_arguments = {
            "optimizer": self.optimizer,
            "steps_per_execution": steps_per_execution,
            "run_eagerly": run_eagerly,
            "jit_compile": jit_compile,
        }

    def get_compile_config(self) -> dict[str, Any]:
        arguments = self._untracked.compile_arguments
        return {name: keras.saving.serialize_keras_object(value) for name, value in arguments.items()}

    def compile_from_config(self, config: dict[str, Any]) -> None:
        self.compile(**{name: keras.saving.deserialize_keras_object(value) for name, value in config.items()})
        if self.built:
            self.build_optimizer()

    def build_optimizer(self) -> None:
        """Makes the variables of the optimizer, if there is one and they are not there yet."""
        if self.optimizer is not None and not self.optimizer.built:
            self.optimizer.build(self.trained_variables)

    def updates_per_call(self, updates_per_epoch: int | None, batch_size: int) -> int:
        """Updates in one compiled call: as many as were asked for, or as take about half a second."""
        wished = self._untracked.compile_arguments["steps_per_execution"]
        if wished != "auto":
            return int(wished)
        return automatic_updates_per_call(updates_per_epoch, self.flops_of_update(batch_size))

    # Training

    def fit(
        self,
        x: Any = None,
        y: Any = None,
        batch_size: int | None = None,
        epochs: int = 1,
        verbose: Any = "auto",
        callbacks: Any = None,
        validation_split: float = 0.0,
        validation_data: Any = None,
        shuffle: bool = True,
        class_weight: Any = None,
        sample_weight: Any = None,
        initial_epoch: int = 0,
        steps_per_epoch: int | None = None,
        **kwargs: Any,
    ) -> keras.callbacks.History:
        """Trains the model. Arguments are those of `keras.Model.fit`; there are no targets but labels.

        Args:
            x: an array ``[examples, visible units]``, or ``[examples, *visible_shape]``; a `tf.data.Dataset` of
                batches, a `keras.utils.PyDataset` or a generator. Data sets yield ``x``, ``(x, y)`` or
                ``(x, y, sample_weight)``. Of a layer with ``conditions`` a pair of arrays, ``[x, condition]``; data
                sets yield the condition in the place of ``y``, or pairs, ``((x, condition),)``.
            y: labels, class numbers or one-hot, of a model with labels: `RBMLayer(..., classes=...)`. Other models
                have no use for it, and refuse it beside an array. What a data set yields as ``y`` they ignore.
            batch_size: examples in a batch of an array, 32 if not given, at most all. Validation data in arrays come in
                batches of the same size, unless ``validation_batch_size`` says otherwise.
            sample_weight: weight of each example of an array: the target probabilities if the examples are distinct
                states. They are rescaled to mean one. Weights in a data set are taken as given.
            steps_per_epoch: updates in an epoch. With it, arrays are reshuffled and repeated without end;
                without it, an epoch is one pass over the data.

        Returns:
            Keras' history.

        Raises:
            tf_wcd.DivergenceError: if a parameter becomes infinite, NaN or absurdly large. The model is then as it was
                a moment before.
        """
        self._check_fit(batch_size, steps_per_epoch, class_weight)
        data = inputs.input_of(x, y, sample_weight, self.data_spec(), batch_size, steps_per_epoch, shuffle)
        data_checks.warn_of_doubt(data.looked_at(), data.spec.unit)
        if validation_split:
            data, validation_data = self._split(data, validation_split, validation_data)
        validation_data = self._check_validation(validation_data, data)
        self._prepare(data)
        for text in [*self.doubts(data.batch_size), *monitor_doubts(self, callbacks)]:
            warnings.warn(text, stacklevel=2)
        self.remember_data(data)
        self._untracked.first_update, self._untracked.guard = FirstUpdate(), None
        ours = [
            DivergenceGuard(before_others=bool(callbacks)),
            self._untracked.first_update,
            CollapseWarning(data.batch_size),
        ]
        # Weights within a batch depend on its size: validation has batches as large as those of training.
        kwargs["validation_batch_size"] = kwargs.get("validation_batch_size") or data.batch_size
        return self._run(
            data,
            callbacks=with_ours(callbacks, self, ours),
            validation_data=validation_data,
            epochs=epochs,
            verbose=verbose,
            initial_epoch=initial_epoch,
            **kwargs,
        )

    def _run(self, data: Input, **arguments: Any) -> keras.callbacks.History:
        """Keras' `fit` on the data."""
        feed = data.feed(self)
        try:
            blocks = feed.blocks
            if blocks is not None:
                compiled = functools.partial(self._compiled_updates, blocks, feed.steps_per_epoch, data.batch_size)
                self._untracked.runner = BlockRunner(
                    compiled, blocks.updates_per_call, feed.steps_per_epoch, blocks.start
                )
                self.steps_per_execution = blocks.updates_per_call
            arguments |= {"steps_per_epoch": feed.steps_per_epoch, "shuffle": feed.shuffle}
            return inputs.with_readable_errors(super().fit, feed.dataset, **arguments)
        finally:
            self._untracked.runner = None
            self._untracked.with_xla = None
            self.steps_per_execution = 1
            compat.set_initial_epoch(self, None)  # or the next `fit` would leave out what an interrupted one had done
            feed.close()

    def _compiled_updates(self, blocks: Blocks, updates_per_epoch: int | None, batch_size: int) -> Any:
        """The updates of this training as a function; with XLA, where it was left to us, if there are enough of them.

        All updates of the model count, so that one which goes on after a restart decides as it would have without.
        """
        first = self._untracked.first_update
        assert first is not None
        if self._untracked.compile_arguments["jit_compile"] == "auto" and updates_per_epoch is not None:
            updates = first.number + first.epochs * updates_per_epoch
            self._untracked.with_xla = self.jit_compile and xla.pays(updates, self.flops_of_update(batch_size))
        update = functools.partial(run_updates, self, blocks.fetch)
        return self._untracked.programs.bound(
            self, ("fit", blocks.kind), update, blocks.variables, self._untracked.with_xla
        )

    def evaluate(
        self, x: Any = None, y: Any = None, batch_size: int | None = None, sample_weight: Any = None, **kwargs: Any
    ) -> Any:
        """Mean of the metrics over data, as `keras.Model.evaluate`. It changes neither the model nor its chains.

        Arguments are those of `fit`.
        """
        kwargs.pop(compat.VALIDATION_KEYWORD, None)
        data = inputs.input_of(x, y, sample_weight, self.data_spec(), batch_size)
        self._build_for(data)
        self.evaluation_rows = data.batch_size
        executions, self.steps_per_execution = self.steps_per_execution, 1
        try:
            return inputs.with_readable_errors(super().evaluate, **data.evaluation(), **kwargs)
        finally:
            self.steps_per_execution = executions

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """As of every Keras layer; frames and sparse matrices are data, too."""
        if args and is_table(args[0]):
            args = (self.arrays_of(args[0]), *args[1:])
        return super().__call__(*args, **kwargs)

    def predict(self, x: Any, *args: Any, **kwargs: Any) -> Any:
        """As `keras.Model.predict`, of data of every kind that `fit` takes."""
        if not inputs.is_stream(x):
            x, spec = self.arrays_of(x), self.data_spec()
            rows = as_rows(array_of(x[0] if spec.conditions else x), spec.shape)
            data_checks.check_matrix(rows, spec.width, shape=spec.shape)
        return super().predict(x, *args, **kwargs)

    def arrays_of(self, x: Any) -> Any:
        """What the model is called with as arrays."""
        spec = self.data_spec()
        return as_rows(array_of(x, names=spec.names), spec.shape)

    def train_on_batch(self, x: Any, y: Any = None, sample_weight: Any = None, **kwargs: Any) -> Any:
        """One update on one batch, as `keras.Model.train_on_batch`.

        Raises:
            tf_wcd.DivergenceError: as `fit`, which looks for it a few times a second, too.
        """
        data = ArrayInput(x, y, sample_weight, self.data_spec(), batch_size=sys.maxsize)
        self._prepare(data)
        if self._untracked.guard is None:
            self._untracked.guard = DivergenceGuard()
            self._untracked.guard.set_model(self)
        with self._untracked.guard.single_update():
            return super().train_on_batch(data.rows(), sample_weight=data.weights.astype(data.spec.dtype), **kwargs)

    def test_on_batch(self, x: Any, y: Any = None, sample_weight: Any = None, **kwargs: Any) -> Any:
        """The metrics of one batch, as `keras.Model.test_on_batch`."""
        data = ArrayInput(x, y, sample_weight, self.data_spec(), batch_size=sys.maxsize)
        self._build_for(data)
        return super().test_on_batch(data.rows(), sample_weight=data.weights.astype(data.spec.dtype), **kwargs)

    @property
    def first_update(self) -> int:
        """Number of updates before this training, which decides the order of the data."""
        assert self._untracked.first_update is not None
        return self._untracked.first_update.number

    def resident_data(self, width: int) -> ResidentData:
        """Where arrays of so many columns are kept on the device while the model trains."""
        if width not in self._untracked.resident:
            self._untracked.resident[width] = ResidentData(width, self.data_spec().dtype)
        return self._untracked.resident[width]

    def save_weights(self, filepath: Any, overwrite: bool = True, **kwargs: Any) -> None:
        """As `keras.Model.save_weights`, but that a file that is there already is replaced atomically."""
        save_weights_atomically(self, super().save_weights, filepath, overwrite, **kwargs)

    # What is saved beside the variables

    def save_own_variables(self, store: Any) -> None:
        super().save_own_variables(store)
        if self.epochs_of_fit is not None:
            store["epochs_of_fit"] = np.asarray(self.epochs_of_fit)

    def load_own_variables(self, store: Any) -> None:
        known = {name: store[name] for name in store.keys()}  # noqa: SIM118 - it cannot be iterated
        if "epochs_of_fit" in known:
            self.epochs_of_fit = int(np.asarray(known.pop("epochs_of_fit")))
        super().load_own_variables(known)

    # Checks and preparation

    def _check_fit(self, batch_size: Any, steps_per_epoch: Any, class_weight: Any) -> None:
        if class_weight is not None:
            raise ValueError(
                f"Weights are those of examples: use `sample_weight`. Received: class_weight={class_weight!r}"
            )
        if not self.compiled:
            raise ValueError("Call `compile(optimizer=...)` before `fit`.")
        for name, value in (("batch_size", batch_size), ("steps_per_epoch", steps_per_epoch)):
            if value is not None:
                check_integer(name, value)
        if not self.trainable:
            raise ValueError("There is nothing to train: set `trainable` to True. Received: trainable=False")

    def _split(self, data: Input, validation_split: float, validation_data: Any) -> tuple[Input, Any]:
        if validation_data is not None:
            raise ValueError("Pass `validation_split` or `validation_data`, not both.")
        if not isinstance(data, ArrayInput):
            raise ValueError(
                "`validation_split` goes with arrays; pass `validation_data`. "
                f"Received: data of another kind and validation_split={validation_split}"
            )
        return data.split(validation_split)

    def _check_validation(self, data: Any, training: Input) -> Any:
        if data is None or inputs.is_stream(data):
            return data
        spec = training.spec
        x, y, weights = spec.unpack(data)
        checked = ArrayInput(*(spec.packed(x, y, weights) if spec.conditions else (x, y, weights)), spec)
        dtype = checked.spec.dtype
        return checked.spec.packed(checked.x.astype(dtype), checked.beside, checked.weights.astype(dtype))

    def _build_for(self, data: Input) -> None:
        """Makes the parameters, but nothing that training alone needs: how many chains there are is left to `fit`."""
        with self.distribute_strategy.scope():
            if not self.built:
                self.build((None, data.width))
            self.validate()

    def _prepare(self, data: Input) -> None:
        self._build_for(data)
        self.prepare(data.batch_size)

    def prepare(self, batch_size: int) -> None:
        """Makes every variable that training needs on a built model, before anything is compiled."""
        with self.distribute_strategy.scope():
            self.build_training(batch_size)
            self.build_optimizer()
