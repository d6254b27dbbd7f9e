"""Functions of a machine, compiled once for all models with the same kinds of units and the same shapes."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

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
        "visible": dict(machine.visible.parameters),
        "hidden": dict(machine.hidden.parameters),
    }
    run = _compiled(function, rbm.visible_unit, rbm.hidden_unit, machine.product_dtype)
    return run(parameters, *arguments)


@functools.cache
def _compiled(function: Callable[..., Any], visible_unit: Unit, hidden_unit: Unit, product_dtype: str | None) -> Any:
    def run(parameters: dict[str, Any], *arguments: Any) -> Any:
        machine = Machine(
            visible=visible_unit.bind(parameters["visible"]),
            hidden=hidden_unit.bind(parameters["hidden"]),
            kernel=parameters["kernel"],
            visible_bias=parameters["visible_bias"],
            hidden_bias=parameters["hidden_bias"],
            product_dtype=product_dtype,
        )
        return function(machine, *arguments)

    return compiled(run, jit_compile=True)
