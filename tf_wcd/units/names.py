"""Unit types by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras

from tf_wcd.registry import Registry
from tf_wcd.units.base import Unit

UNITS: Registry[Callable[[], Unit]] = Registry("visible_type` or `hidden_type")


def register(name: str, make: Callable[[], Unit]) -> None:
    """Gives a unit type a name, for ``visible_type=`` and ``hidden_type=``.

    Args:
        name: the name.
        make: makes the unit type without arguments: its class, say.

    Example:

    >>> register("half_spin", lambda: tf_wcd.units.Gaussian(variance=0.5))
    >>> get("half_spin").variance
    0.5
    >>> unregister("half_spin")
    """
    UNITS.register(name, make)


def unregister(name: str) -> None:
    """Takes a name back."""
    UNITS.unregister(name)


def get(identifier: str | Unit) -> Unit:
    """The unit type of the given name; a `Unit` object is returned as it is.

    Example:

    >>> get("spin").values
    (-1.0, 1.0)
    """
    if isinstance(identifier, Unit):
        return identifier
    if isinstance(identifier, str) and identifier in UNITS:
        return UNITS[identifier]()
    raise ValueError(
        f"A unit type must be one of {sorted(UNITS)} or a `tf_wcd.units.Unit` object. Received: {identifier!r}"
    )


def serialize(unit: Unit) -> str | dict[str, Any]:
    """The name that `get` makes an equal unit type of; the serialised object of other unit types.

    Example:

    >>> serialize(get("spin"))
    'spin'
    """
    if unit.name in UNITS and UNITS[unit.name]() == unit:
        return unit.name
    return keras.saving.serialize_keras_object(unit)
