"""Functions of a machine, compiled once for all models with the same kinds of units and the same shapes."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from tf_wcd import xla
from tf_wcd.machine import Machine
from tf_wcd.units import Unit


class OfMachine(Protocol):
    """A model that is one RBM: an `RBMLayer`."""

    visible_unit: Unit
    hidden_unit: Unit

    def machine(self) -> Machine:
        """The RBM at its present parameters."""


def call_compiled(
    function: Callable[..., Any], rbm: OfMachine, *arguments: Any, jit_compile: bool | None = True
) -> Any:
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
    run = _compiled(function, (_kind(rbm, machine),), True, xla.by_default(jit_compile))
    return run([parameters_of(machine)], *arguments)


def call_compiled_stack(
    function: Callable[..., Any],
    rbms: Sequence[OfMachine],
    machines: Sequence[Machine],
    *arguments: Any,
    jit_compile: bool | None = True,
) -> Any:
    """``function(machines, *arguments)``, compiled, as by `call_compiled`.

    Args:
        function: a function of module level, of a list of `Machine` and tensors.
        rbms: the layers that the machines were made of, in the same order.
        machines: the machines.
        *arguments: tensors.
        jit_compile: whether with XLA; ``None`` for the library's default.
    """
    kinds = tuple(_kind(rbm, machine) for rbm, machine in zip(rbms, machines, strict=True))
    run = _compiled(function, kinds, False, xla.by_default(jit_compile))
    return run([parameters_of(machine) for machine in machines], *arguments)


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


def _kind(rbm: OfMachine, machine: Machine) -> tuple[Unit, Unit, str | None]:
    """What a machine is made of beside its tensors."""
    return rbm.visible_unit, rbm.hidden_unit, machine.product_dtype


@functools.cache
def _compiled(
    function: Callable[..., Any],
    kinds: tuple[tuple[Unit, Unit, str | None], ...],
    single: bool,
    jit_compile: bool,
) -> Any:
    def run(parameters: list[dict[str, Any]], *arguments: Any) -> Any:
        machines = [machine_with(own, *kind) for own, kind in zip(parameters, kinds, strict=True)]
        return function(machines[0] if single else machines, *arguments)

    return xla.compiled(run, jit_compile)
