"""What `fit` and `evaluate` take: arrays, data sets, generators, each checked and brought to the model."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterator
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tf_wcd import blocks, data_checks, replicas
from tf_wcd.arguments import check_integer
from tf_wcd.divergence import DivergenceGuard
from tf_wcd.resume import ResumeExactly, save_weights_at_once
from tf_wcd.training import ContrastiveModel


class FittingModel(ContrastiveModel):
    """A contrastive model with Keras' `fit`, `evaluate` and `train_on_batch`."""

    _first_update: FirstUpdate
    epochs_of_fit: int | None = None  # epochs that `fit` has done, for a training that goes on after a restart
    data_means: np.ndarray | None = None  # of the visible units in the last `fit`; with data sets, of the first batch

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
        """Trains the model. Arguments are those of `keras.Model.fit`, but that there are no targets.

        Args:
            x: an array ``[examples, visible units]``, a `tf.data.Dataset` of batches, a `keras.utils.PyDataset` or a
                generator. Data sets yield ``x``, ``(x, y)`` or ``(x, y, sample_weight)``; labels ``y`` are ignored.
            y: ignored, so that labelled data can be passed as they are.
            batch_size: examples in a batch of an array, 32 if not given, at most all. Validation data in arrays come in
                batches of the same size, unless ``validation_batch_size`` says otherwise.
            sample_weight: weight of each example of an array: the target probabilities if the examples are distinct
                states. They are rescaled to mean one. Weights in a data set are taken as given.
            steps_per_epoch: updates in an epoch. With it, arrays are reshuffled and repeated without end;
                without it, an epoch is one pass over the data.

        Returns:
            Keras' history.

        Raises:
            tf_wcd.DivergenceError: if a parameter becomes infinite or NaN. The model is then as it was a moment before.
        """
        if class_weight is not None:
            raise ValueError(f"An RBM has no classes: use `sample_weight`. Received: class_weight={class_weight!r}")
        if self.compiled is False:
            raise ValueError("Call `compile(optimizer=...)` before `fit`.")
        for name, value in (("batch_size", batch_size), ("steps_per_epoch", steps_per_epoch)):
            if value is not None:
                check_integer(name, value)
        if not self.trainable:
            raise ValueError("There is nothing to train: set `trainable` to True. Received: trainable=False")
        self._first_update = FirstUpdate()
        guard = DivergenceGuard(before_others=bool(callbacks))
        callbacks = _with_ours(callbacks, self, [guard, self._first_update])
        common = dict(epochs=epochs, verbose=verbose, callbacks=callbacks, initial_epoch=initial_epoch, **kwargs)

        if isinstance(x, (tf.data.Dataset, keras.utils.PyDataset, Iterator)):
            if sample_weight is not None or validation_split:
                raise ValueError(
                    "`sample_weight` and `validation_split` go with arrays; a data set yields (x, y, sample_weight). "
                    f"Received: x of type {type(x).__name__}"
                )
            common["validation_data"] = self._check_validation(validation_data)
            return self._fit_stream(x, steps_per_epoch, shuffle, common)

        x, weights = self._check_arrays(x, sample_weight)
        data_checks.warn_of_bits(x, self.visible_unit)
        if validation_split:
            if validation_data is not None:
                raise ValueError("Pass `validation_split` or `validation_data`, not both.")
            if not 0 < validation_split < 1 or not 0 < int(len(x) * (1 - validation_split)) < len(x):
                raise ValueError(
                    "`validation_split` must leave examples on both sides. "
                    f"Received: {validation_split} of {len(x)} examples"
                )
            split = int(len(x) * (1 - validation_split))
            for part, own in (("training", weights[:split]), ("validation", weights[split:])):
                data_checks.check_sample_weight(own, len(own), f"sample_weight of the {part} part")
            validation_data = (x[split:], None, weights[split:])
            x, weights = x[:split], weights[:split]
        weights = weights / weights.mean()
        self.data_means = (weights.astype(x.dtype) @ x / len(x)).astype("float64")
        common["validation_data"] = self._check_validation(validation_data)
        batch_size = min(batch_size or 32, len(x))
        _validate_in_batches(common, batch_size)
        self._prepare(x.shape[1], batch_size)
        updates = steps_per_epoch or -(-len(x) // batch_size)

        def order(updates_per_block: int) -> Iterator[np.ndarray]:
            return blocks.index_blocks(
                rows=len(x),
                batch_size=batch_size,
                updates_per_block=updates_per_block,
                seed=int(self.seed_generator.state.numpy()[0]),
                first_update=self._first_update.number,
                shuffle=shuffle,
                endless=steps_per_epoch is not None,
                updates_per_epoch=updates,
            )

        weights = weights.astype(self.variable_dtype)
        if self.distribute_strategy.num_replicas_in_sync > 1:
            return self._fit_replicas(blocks.row_batches(x, weights, lambda: order(1)), updates, common)

        if self._resident is None:
            self._resident = blocks.ResidentData(x.shape[1], self.variable_dtype)
        self._resident.fill(x, weights)
        per_call = self._updates_per_call(updates, batch_size)
        try:
            run = self._run_function("indices", len(x) if batch_size == len(x) else None)
            runner = blocks.BlockRunner(run, per_call, updates, lambda: order(per_call))
            return self._fit_blocks(runner, blocks.ticks(), per_call, steps_per_epoch=updates, **common)
        finally:
            self._resident.clear()

    def _fit_stream(
        self, x: Any, steps_per_epoch: int | None, shuffle: bool, common: dict[str, Any]
    ) -> keras.callbacks.History:
        """Trains from a data set, a `PyDataset` or a generator."""
        if isinstance(x, keras.utils.PyDataset):
            _validate_in_batches(common, self._prepare_like(x[0]))
            return super().fit(
                data_checks.CheckedPyDataset(x, self._check_batch),
                steps_per_epoch=steps_per_epoch,
                shuffle=shuffle,
                **common,
            )
        if isinstance(x, Iterator):
            first = next(x, None)
            if first is None:
                raise ValueError("The generator is empty: at least one batch is needed.")
            _validate_in_batches(common, self._prepare_like(first))
            source = data_checks.checked_generator(itertools.chain([first], x), self._check_batch)
            return super().fit(source, steps_per_epoch=steps_per_epoch, shuffle=False, **common)

        first = next(iter(x.take(1)), None)
        if first is None:
            raise ValueError("The data set is empty: at least one batch is needed. Received: 0 batches")
        with _readable_errors():
            rows = self._prepare_like(first)
        _validate_in_batches(common, rows)
        checked = data_checks.check_dataset(x, self.machine().visible, self.num_visible, self.variable_dtype)
        known = int(checked.cardinality())
        updates = steps_per_epoch or (known if known > 0 else None)
        if self.distribute_strategy.num_replicas_in_sync > 1:
            if steps_per_epoch is None and updates is not None:
                checked = checked.repeat()
            return self._fit_replicas(checked, updates, common)
        per_call = self._updates_per_call(updates, rows)
        dataset = blocks.stacked_dataset(checked, per_call, rows, updates)
        if updates is not None and steps_per_epoch is None:
            # Keras counts the elements of what it is given: tell it the number of updates instead, pass by pass.
            dataset = dataset.repeat()
            steps_per_epoch = updates
        runner = blocks.BlockRunner(self._run_function("batches"), per_call, updates)
        return self._fit_blocks(runner, dataset, per_call, steps_per_epoch=steps_per_epoch, **common)

    def _fit_replicas(
        self, dataset: tf.data.Dataset, updates: int | None, common: dict[str, Any]
    ) -> keras.callbacks.History:
        """Trains several replicas on batches ``(x, weights)``, each of which they divide among themselves."""
        triples = dataset.map(_as_triple)
        batches = replicas.distributed(triples, self.distribute_strategy)
        with _readable_errors():
            return super().fit(batches, steps_per_epoch=updates, shuffle=False, **common)

    def _fit_blocks(
        self, runner: blocks.BlockRunner, dataset: tf.data.Dataset, per_call: int, **arguments: Any
    ) -> keras.callbacks.History:
        self._runner = runner
        self.steps_per_execution = per_call
        try:
            with _readable_errors():
                return super().fit(dataset, shuffle=False, **arguments)
        finally:
            self._runner = None
            self.steps_per_execution = 1

    def _updates_per_call(self, updates_per_epoch: int | None, batch_size: int) -> int:
        wished = self._compile_arguments["steps_per_execution"]
        if wished != "auto":
            return int(wished)
        steps = getattr(self.negative_phase, "gibbs_steps", 1)
        size = self.num_visible * self.units * int(np.prod(self.members_shape, dtype=int))
        return blocks.automatic_updates_per_call(updates_per_epoch, 2.0 * batch_size * size * (3 + 2 * steps))

    def evaluate(
        self, x: Any = None, y: Any = None, batch_size: int | None = None, sample_weight: Any = None, **kwargs: Any
    ) -> Any:
        """Mean of the metrics over data, as `keras.Model.evaluate`. It changes neither the model nor its chains."""
        kwargs.pop("_use_cached_eval_dataset", None)
        arrays: dict[str, Any] = {}
        if isinstance(x, tf.data.Dataset):
            first = next(iter(x.take(1)), None)
            if first is None:
                raise ValueError("The data set is empty: at least one batch is needed. Received: 0 batches")
            self._prepare_evaluation(*_shape_like(first))
            checked = data_checks.check_dataset(x, self.machine().visible, self.num_visible, self.variable_dtype)
            x = checked.map(_as_triple)
        elif isinstance(x, keras.utils.PyDataset):
            self._prepare_evaluation(*_shape_like(x[0]))
            x = data_checks.CheckedPyDataset(x, self._check_batch)
        else:
            x, weights = self._check_arrays(x, sample_weight)
            rows = min(batch_size or 32, len(x))
            self._prepare_evaluation(rows, x.shape[1])
            arrays = {"sample_weight": weights.astype(self.variable_dtype), "batch_size": rows}
        executions, self.steps_per_execution = self.steps_per_execution, 1
        try:
            with _readable_errors():
                return super().evaluate(x, **arrays, **kwargs)
        finally:
            self.steps_per_execution = executions

    def train_on_batch(self, x: Any, y: Any = None, sample_weight: Any = None, **kwargs: Any) -> Any:
        """One update on one batch, as `keras.Model.train_on_batch`."""
        x, weights = self._check_arrays(x, sample_weight)
        self._prepare(x.shape[1], len(x))
        return super().train_on_batch(x, sample_weight=weights.astype(self.variable_dtype), **kwargs)

    def save_weights(self, filepath: Any, overwrite: bool = True, **kwargs: Any) -> None:
        """As `keras.Model.save_weights`, but that a file that is there already is replaced at once or not at all."""
        save_weights_at_once(self, super().save_weights, filepath, overwrite, **kwargs)

    # Checks and preparation

    def _check_arrays(self, x: Any, sample_weight: Any) -> tuple[np.ndarray, np.ndarray]:
        width = self.num_visible if self.built else None
        x = data_checks.check_visible(x, self.visible_unit, width, dtype=self.variable_dtype)
        return x, np.ones(len(x)) if sample_weight is None else data_checks.check_sample_weight(sample_weight, len(x))

    def _check_batch(self, data: Any, where: str) -> tuple[Any, ...]:
        x, weights = data_checks.check_batch(data, self.visible_unit, self.num_visible, self.variable_dtype, where)
        return x, x[:, :1], np.ones(len(x), self.variable_dtype) if weights is None else weights

    def _check_validation(self, data: Any) -> Any:
        if data is None or isinstance(data, (tf.data.Dataset, keras.utils.PyDataset)):
            return data
        x, _, weights = keras.utils.unpack_x_y_sample_weight(data)
        x, checked = self._check_arrays(x, weights)
        return x, None, checked.astype(self.variable_dtype)

    def _prepare_like(self, data: Any) -> int:
        """Prepares for batches like this one, and remembers its means; returns the number of its examples."""
        rows, width = _shape_like(data)
        self._prepare(width, rows)
        x, _, _ = keras.utils.unpack_x_y_sample_weight(data)
        self.data_means = np.asarray(x, "float64").mean(0)
        return rows

    def prepare(self, batch_size: int) -> None:
        """Makes every variable that training needs on a built model: the optimizer's, and persistent chains."""
        self._prepare(self.num_visible, batch_size)

    def _prepare(self, width: int, batch_size: int) -> None:
        """Makes every variable that training needs, before anything is compiled."""
        with self.distribute_strategy.scope():
            self._build_for(width)
            self.build_phase_state(batch_size)
            if self.compiled and not self.optimizer.built:
                self.optimizer.build(self.trainable_variables)

    def _prepare_evaluation(self, batch_size: int, width: int) -> None:
        """Makes the parameters, but nothing that training alone needs: how many chains there are is left to `fit`."""
        with self.distribute_strategy.scope():
            self._build_for(width)
        self.evaluation_rows = batch_size

    def _build_for(self, width: int) -> None:
        if not self.built:
            self.build((None, width))
        if width != self.num_visible:
            raise ValueError(
                f"`x` must have {self.num_visible} columns, one for each visible unit. Received: {width} columns"
            )
        self.negative_phase.validate(self.machine())


class FirstUpdate(keras.callbacks.Callback):
    """The number of updates before the first epoch, after callbacks have restored what they restore.

    The order of the data is a function of it. Asked later, when the data are fetched, the optimizer may have begun to
    count.
    """

    def __init__(self) -> None:
        super().__init__()
        self.number: int = -1

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        if self.number < 0:
            self.number = int(self.model.optimizer.iterations.numpy())


def _with_ours(callbacks: Any, model: keras.Model, ours: list[keras.callbacks.Callback]) -> Any:
    """The callbacks, with ours before them, and around them those that make an interrupted training go on exactly."""
    whole = callbacks if isinstance(callbacks, keras.callbacks.CallbackList) else None
    others = callbacks if isinstance(callbacks, (list, tuple)) else [callbacks] if callbacks else []
    others = others if whole is None else list(whole.callbacks)
    before, behind = (ResumeExactly(list(others), before=place) for place in (True, False))
    if whole is None:
        return [*ours, before, *others, behind]
    for callback in (*ours, before, behind):
        callback.set_model(model)
    whole.callbacks[:] = [*ours, before, *others, behind]
    return whole


def _validate_in_batches(arguments: dict[str, Any], batch_size: int) -> None:
    """Lets `fit` validate in batches as large as those of training: weights within a batch depend on its size."""
    if arguments.get("validation_batch_size") is None:
        arguments["validation_batch_size"] = batch_size


def _shape_like(data: Any) -> tuple[int, int]:
    """Numbers of examples and of visible units of a batch."""
    x, _, _ = keras.utils.unpack_x_y_sample_weight(data)
    if isinstance(x, (dict, tuple, list)) or len(x.shape) != 2:
        shape = getattr(x, "shape", type(x).__name__)
        raise ValueError(
            f"Batches must have the shape [examples, visible units]; batch the data set first. Received: {shape}"
        )
    return int(x.shape[0]), int(x.shape[1])


@tf.autograph.experimental.do_not_convert
def _as_triple(visible: tf.Tensor, weights: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """``(x, y, sample_weight)`` with something in the place of targets, which Keras needs to see the weights."""
    return visible, visible[:, :1], weights


@contextlib.contextmanager
def _readable_errors() -> Iterator[None]:
    """Turns the errors of our own checks inside a `tf.data` pipeline into ValueErrors."""
    try:
        yield
    except tf.errors.InvalidArgumentError as error:
        ours = data_checks.readable(error)
        if ours is None:
            raise
        raise ours from None
