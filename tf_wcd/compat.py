"""Everything private in Keras and TensorFlow that the library depends on, each behind a name here.

A new version of Keras or TensorFlow may move any of it without notice. `tests/tf_wcd/test_compat.py` then fails, and
this module alone has to change. It imports nothing else of tf_wcd.

Models also depend on public attributes of Keras' trainer whose behaviour is not documented. They have no functions
here, but tests: `fit` calls ``make_train_function()`` and then ``train_function(iterator)``, `evaluate` calls
``make_test_function()`` and then ``test_function(iterator)``, both ``make_`` methods take ``force``, and
``steps_per_execution`` may be assigned after `compile`.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeVar

import keras
import tensorflow as tf
from keras.src.saving import saving_lib

Function = TypeVar("Function")

# Training

# `fit` passes this keyword to `evaluate`, with the value True, when it evaluates on its validation data. Keras then
# reads the batches that `fit` has prepared and ignores the arrays. An override of `evaluate` either passes it on, with
# the data as they are, or removes it, and Keras reads the data that it is given.
VALIDATION_KEYWORD = "_use_cached_eval_dataset"


class WithoutSymbolicBuild:
    """A base class, before `keras.Model`, for models that make all of their variables before `fit` trains them.

    Keras calls ``_maybe_symbolic_build`` before the first batch, to make the variables of models that have none yet.
    Under a strategy it takes a batch of the data for that, and averages the replicas' parts of the batch.

    Example:

    >>> class Model(WithoutSymbolicBuild, keras.Model):
    ...     pass
    >>> Model()._maybe_symbolic_build(iterator=None)
    """

    def _maybe_symbolic_build(self, iterator: Any = None, data_batch: Any = None) -> None:
        """Does nothing, in place of Keras' method."""


def set_initial_epoch(model: keras.Model, epoch: int | None) -> None:
    """Sets the epoch at which `fit` starts, in place of its argument ``initial_epoch``.

    `keras.callbacks.BackupAndRestore` sets it when training begins. It holds for each later `fit` as well, until it is
    set to None.

    Args:
        model: the model that is to be fitted.
        epoch: number of epochs that are done; None for the argument of `fit`.
    """
    model._initial_epoch = epoch


def backup_count_path(backup: keras.callbacks.BackupAndRestore) -> Path:
    """The JSON file in which a `BackupAndRestore` callback keeps the number of epochs done.

    Example:

    >>> backup_count_path(keras.callbacks.BackupAndRestore("backup")).name
    'training_metadata.json'
    """
    return Path(backup._training_metadata_path)


def clipped(optimizer: keras.optimizers.Optimizer, gradients: Sequence[tf.Tensor]) -> list[tf.Tensor]:
    """Gradients clipped as the optimizer would clip them, by its ``clipnorm``, ``global_clipnorm`` or ``clipvalue``.

    Example:

    >>> optimizer = keras.optimizers.SGD(clipvalue=1.0)
    >>> [gradient.numpy().tolist() for gradient in clipped(optimizer, [tf.constant([-3.0, 0.5])])]
    [[-1.0, 0.5]]
    """
    return list(optimizer._clip_gradients(list(gradients)))


def excludes_from_decay(optimizer: keras.optimizers.Optimizer) -> bool:
    """Whether an optimizer leaves some variables out of its weight decay.

    Example:

    >>> optimizer = keras.optimizers.SGD(weight_decay=0.1)
    >>> optimizer.exclude_from_weight_decay(var_names=["bias"])
    >>> excludes_from_decay(optimizer)
    True
    """
    names = ("_exclude_from_weight_decay", "_exclude_from_weight_decay_pattern")
    return any(getattr(optimizer, name, None) for name in names)


# Variables and weights


def track_variable(layer: keras.layers.Layer, variable: keras.Variable) -> None:
    """Makes a variable one of a layer's, as `Layer.add_weight` does with those that it makes.

    `add_weight` has no argument ``synchronization``. As there, the layer must not be built yet.

    Example:

    >>> layer = keras.layers.Layer()
    >>> track_variable(layer, keras.Variable([1.0], trainable=False))
    >>> len(layer.non_trainable_variables)
    1
    """
    layer._track_variable(variable)


def weights_file(model: keras.Model) -> bytes:
    """The content of the ``.weights.h5`` file that `keras.Model.save_weights` writes, made in memory.

    HDF5 crashes the process if the disk is full while it writes a file; bytes can be written in a way that raises an
    error.

    Example:

    >>> model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
    >>> weights_file(model)[1:4]
    b'HDF'
    """
    content = io.BytesIO()
    store = saving_lib.H5IOStore(content, mode="w")
    saving_lib._save_state(model, weights_store=store, assets_store=None, inner_path="", visited_saveables=set())
    store.close()
    return content.getvalue()


# Compiled functions and strategies


def without_retracing_warning(function: Function) -> Function:
    """The `tf.function` itself, which from now on does not warn that it is traced too often.

    TensorFlow counts all functions made from the same Python code as one. It would warn users who train a few models
    in a loop.

    Example:

    >>> double = without_retracing_warning(tf.function(lambda x: 2.0 * x))
    >>> float(double(tf.constant(3.0)))
    6.0
    """
    function._omit_frequent_tracing_warning = True  # type: ignore[attr-defined]
    return function


def captured_variables(arguments: Sequence[tf.Variable]) -> list[str]:
    """Names of the variables that the `tf.function` which is being traced holds, beside its arguments.

    Example:

    >>> held, passed = tf.Variable(1.0), tf.Variable(2.0)
    >>> @tf.function
    ... def product(variable):
    ...     result = variable * held
    ...     print(len(captured_variables([variable])))
    ...     return result
    >>> _ = product(passed)
    1
    """
    known = {id(variable.handle) for variable in arguments}
    captures = tf.compat.v1.get_default_graph().captures
    return [inner.name for outer, inner in captures if outer.dtype == tf.resource and id(outer) not in known]


def runs_in_several_processes(strategy: tf.distribute.Strategy) -> bool:
    """Whether a strategy's replicas run in several processes (workers).

    Example:

    >>> runs_in_several_processes(tf.distribute.get_strategy())
    False
    """
    return bool(strategy.extended._in_multi_worker_mode())


def is_chief(strategy: tf.distribute.Strategy) -> bool:
    """Whether this process is the chief, the one worker that writes results; True if there is only one process.

    Example:

    >>> is_chief(tf.distribute.get_strategy())
    True
    """
    return not runs_in_several_processes(strategy) or bool(strategy.extended._is_chief)
