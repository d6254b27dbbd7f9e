"""Compiled functions that models share: one for all that are alike but for the values of their variables.

A compiled function takes the variables of a model as arguments. Another model whose variables have the same shapes,
and which does the same with them, runs the same program: only the first one waits for the compiler.
"""

from __future__ import annotations

import collections
import functools
import json
import threading
import warnings
from collections.abc import Callable, Hashable, Sequence
from typing import Any

import keras
import tensorflow as tf

from tf_wcd import compat
from tf_wcd.xla import compiled

PROGRAMS_KEPT = 64
# What no update depends on. A learning rate that is not a schedule is a variable of the optimizer.
_FREE = (
    *("name", "seed", "visible_shape"),
    *("kernel_initializer", "visible_bias_initializer", "hidden_bias_initializer", "initial_stddev"),
)
_OURS = ("tf_wcd", "keras")


class Program:
    """A compiled function, for every model with the same `signature`.

    Args:
        jit_compile: compile it with XLA; ``None`` for the default.

    Attributes:
        times_traced: for how many shapes of its arguments it was traced.
    """

    def __init__(self, jit_compile: bool | None) -> None:
        self.times_traced = 0
        self._of_thread = threading.local()
        self._compiled = compiled(self._trace, jit_compile, reduce_retracing=True)

    def __call__(self, function: Callable[..., Any], variables: Sequence[tf.Variable], *arguments: Any) -> Any:
        """``function(*arguments)``, compiled.

        Args:
            function: what the caller's model does. It is traced if nobody has called the program with arguments of
                these shapes yet; all that it does with the variables is done with those that are passed later.
            variables: all variables that it reads or changes; empty where the program is not shared.
            *arguments: tensors.
        """
        self._of_thread.function = function
        try:
            return self._compiled(list(variables), *arguments)
        finally:
            del self._of_thread.function

    def _trace(self, variables: list[tf.Variable], *arguments: Any) -> Any:
        self.times_traced += 1
        result = self._of_thread.function(*arguments)
        if variables and (names := compat.captured_variables(variables)):
            raise AssertionError(f"A shared program must hold no variables of one model. Received: {names}")
        return result


kept: collections.OrderedDict[Hashable, Program] = collections.OrderedDict()
_lock = threading.Lock()


def shared_program(signature: Hashable, jit_compile: bool | None) -> Program:
    """The program of all models with this signature; those that have not been asked for longest are forgotten."""
    with _lock:
        key = signature, jit_compile
        if key not in kept:
            kept[key] = Program(jit_compile)
        kept.move_to_end(key)
        while len(kept) > PROGRAMS_KEPT:
            kept.popitem(last=False)
        return kept[key]


class Programs:
    """The compiled functions of one model, shared with the models that are like it as far as they can be."""

    def __init__(self) -> None:
        self._private: dict[Hashable, Program] = {}

    def bound(
        self,
        model: keras.Model,
        purpose: Hashable,
        function: Callable[..., Any],
        variables: Sequence[tf.Variable] = (),
        jit_compile: bool | None = None,
    ) -> Callable[..., Any]:
        """``function`` of tensors, compiled.

        Args:
            model: the model, with all of its variables made.
            purpose: equal for functions that do the same for models which are alike.
            function: what is done.
            variables: those that it needs beside the model's.
            jit_compile: compile it with XLA; the model's setting if not given.
        """
        if model.run_eagerly:
            return function
        jit_compile = model.jit_compile if jit_compile is None else jit_compile
        own, known = variables_of(model), signature(model)
        if own is None or known is None:
            if (purpose, jit_compile) not in self._private:
                self._private[purpose, jit_compile] = Program(jit_compile)
            return functools.partial(self._private[purpose, jit_compile], function, [])
        return functools.partial(shared_program((known, purpose), jit_compile), function, [*own, *variables])


def times_traced() -> int:
    """How often the programs that are kept have been traced."""
    return sum(program.times_traced for program in kept.values())


def variables_of(model: keras.Model) -> list[tf.Variable] | None:
    """All variables that an update reads or changes, in one order; ``None`` where replicas have them."""
    metrics = [variable for metric in model.metrics for variable in metric.variables]
    every = {id(v): v.value for v in [*model.variables, *metrics, *model.optimizer.variables]}
    plain = all(
        isinstance(v, tf.Variable) and not isinstance(v, tf.distribute.DistributedValues) for v in every.values()
    )
    return list(every.values()) if plain else None


def signature(model: keras.Model) -> Hashable | None:
    """Equal for models whose updates are the same functions of their variables; ``None`` where nobody can say.

    It is made of configurations. Those of other people's classes need not tell all that they do.
    """
    optimizer = model.optimizer
    if not _is_ours(type(model)) or not _is_ours(type(optimizer)) or compat.excludes_from_decay(optimizer):
        return None  # what is left out of the decay is in no configuration
    settings = dict(optimizer.get_config())
    if any(variable.name == "learning_rate" for variable in optimizer.variables):
        settings.pop("learning_rate", None)  # the optimizer of mixed precision has it inside of another one
    every = [*model.variables, *optimizer.variables]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Keras', of what had better not be saved
        config = model.get_config()
    described = {
        "model": [type(model).__module__, type(model).__qualname__, config],
        "optimizer": [type(optimizer).__module__, type(optimizer).__qualname__, settings],
        "trainable": [variable.trainable for variable in every],
        "variables": [[list(variable.shape), str(variable.dtype)] for variable in every],
        "measures": [metric.name for metric in model.metrics],
    }
    try:
        return json.dumps(_without_free(described), sort_keys=True)
    except (TypeError, LookupError):
        return None


def _is_ours(kind: type) -> bool:
    return kind.__module__.split(".")[0] in _OURS


def _without_free(config: Any) -> Any:
    """The configuration without what is free.

    Raises:
        LookupError: if an object in it is of a class of somebody else.
    """
    if isinstance(config, dict):
        module = config.get("module") or "" if "class_name" in config else _OURS[0]
        if module.split(".")[0] not in _OURS:
            raise LookupError(f"A class that is not the library's. Received: {config}")
        parts = {name: value for name, value in config.items() if name not in _FREE}
        return {name: str(value) if name == "dtype" else _without_free(value) for name, value in parts.items()}
    if isinstance(config, list | tuple):
        return [_without_free(value) for value in config]
    return config
