"""Unit types: what a visible or hidden unit can be."""

from __future__ import annotations

from typing import Any

import keras

from tf_wcd.units.base import Unit
from tf_wcd.units.bernoulli import Bernoulli
from tf_wcd.units.gaussian import Gaussian
from tf_wcd.units.labelled import Labelled
from tf_wcd.units.spin import Spin

__all__ = ["Bernoulli", "Gaussian", "Labelled", "Spin", "Unit", "get", "serialize"]

_BY_NAME = {unit.name: unit for unit in (Bernoulli, Spin, Gaussian)}


def get(identifier: str | Unit) -> Unit:
    """The unit type of the given name; a `Unit` object is returned as it is.

    Example:

    >>> get("spin").values
    (-1.0, 1.0)
    """
    if isinstance(identifier, Unit):
        return identifier
    if isinstance(identifier, str) and identifier in _BY_NAME:
        return _BY_NAME[identifier]()
    raise ValueError(
        f"A unit type must be one of {sorted(_BY_NAME)} or a `tf_wcd.units.Unit` object. Received: {identifier!r}"
    )


def serialize(unit: Unit) -> str | dict[str, Any]:
    """The name of one of our unit types without settings, as users write it; the serialised object otherwise.

    Example:

    >>> serialize(Spin())
    'spin'
    """
    known = type(unit) is _BY_NAME.get(unit.name)
    return unit.name if known and not unit.get_config() else keras.saving.serialize_keras_object(unit)
