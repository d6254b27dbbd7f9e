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


def call_compiled(function: Callable[..., Any], rbm: RBMLayer, *arguments: Any, jit_compile: bool | None = True) -> Any:
    """``function(rbm.machine(), *arguments)``, compiled.

    The parameters are arguments of what is compiled, not constants in it: another model of the same shape, or the same
    model after training, runs the same program.

    Args:
        function: a function of module level, of a `Machine` and tensors.
        rbm: a built `RBMLayer`.
        *arguments: tensors. A Python number would be compiled anew for each of its values.
        jit_compile: whether with XLA; ``None`` for the library's default.
    """
    machine = rbm.machine()
    run = _compiled(function, rbm.visible_unit, rbm.hidden_unit, machine.product_dtype, jit_compile)
    return run(parameters_of(machine), *arguments)


def parameters_of(machine: Machine) -> dict[str, Any]:
    """The tensors of a machine."""
    return {
        "kernel": machine.kernel,
        "visible_bias": machine.visible_bias,
        "hidden_bias": machine.hidden_bias,
        "visible": dict(machine.visible.parameters),
        "hidden": dict(machine.hidden.parameters),
    }


def machine_with(
    parameters: dict[str, Any], visible_unit: Unit, hidden_unit: Unit, product_dtype: str | None
) -> Machine:
    """The machine that has the given tensors: the inverse of `parameters_of`."""
    return Machine(
        visible=visible_unit.bind(parameters["visible"]),
        hidden=hidden_unit.bind(parameters["hidden"]),
        kernel=parameters["kernel"],
        visible_bias=parameters["visible_bias"],
        hidden_bias=parameters["hidden_bias"],
        product_dtype=product_dtype,
    )


@functools.cache
def _compiled(
    function: Callable[..., Any],
    visible_unit: Unit,
    hidden_unit: Unit,
    product_dtype: str | None,
    jit_compile: bool | None,
) -> Any:
    def run(parameters: dict[str, Any], *arguments: Any) -> Any:
        return function(machine_with(parameters, visible_unit, hidden_unit, product_dtype), *arguments)

    return compiled(run, jit_compile)
