"""Functions of a machine, compiled once for all models with the same kinds of units and the same shapes."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import keras
import tensorflow as tf

from tf_wcd.machine import Machine
from tf_wcd.units import Unit
from tf_wcd.xla import compiled

if TYPE_CHECKING:
    from tf_wcd.layer import RBMLayer


def call_compiled(function: Callable[..., Any], rbm: RBMLayer, *arguments: Any) -> Any:
    """``function(rbm.machine(), *arguments)`` through XLA.

    The parameters are arguments of what is compiled, not constants in it: another model of the same shape, or the same
    model after training, runs the same program.

    Args:
        function: a function of module level, of a `Machine` and tensors.
        rbm: a built `RBMLayer`.
        *arguments: tensors. A Python number would be compiled anew for each of its values.
    """
    machine = rbm.machine()
    parameters = {
        "kernel": machine.kernel,
        "visible_bias": machine.visible_bias,
        "hidden_bias": machine.hidden_bias,
        "unit": {name: tf.convert_to_tensor(v) for name, v in rbm.visible_parameters.items()},
    }
    run = _compiled(function, _text_of(rbm.visible_unit), _text_of(rbm.hidden_unit), machine.product_dtype)
    return run(parameters, *arguments)


@functools.cache
def _compiled(function: Callable[..., Any], visible: str, hidden: str, product_dtype: str | None) -> Any:
    visible_unit, hidden_unit = _unit_of(visible), _unit_of(hidden)

    def run(parameters: dict[str, Any], *arguments: Any) -> Any:
        machine = Machine(
            visible=visible_unit.bind(parameters["unit"]),
            hidden=hidden_unit,
            kernel=parameters["kernel"],
            visible_bias=parameters["visible_bias"],
            hidden_bias=parameters["hidden_bias"],
            product_dtype=product_dtype,
        )
        return function(machine, *arguments)

    return compiled(run, jit_compile=True)


def _text_of(unit: Unit) -> str:
    """A unit type with its settings as text, equal for equal ones."""
    return json.dumps(keras.saving.serialize_keras_object(unit), sort_keys=True)


def _unit_of(text: str) -> Unit:
    return keras.saving.deserialize_keras_object(json.loads(text))
