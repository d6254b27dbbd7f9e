"""Negative phases: where the points come from, and how they are weighted."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from tf_wcd.negative_phases import points, weights
from tf_wcd.negative_phases.base import Batch, Points, PointSource, State, Weights
from tf_wcd.negative_phases.composition import NegativePhase
from tf_wcd.negative_phases.named import BCD, CD, JPCD, PCD, PT, PTT, WCD, WPCD, WPT, Exact, FixedPoints
from tf_wcd.registry import Registry

__all__ = [
    "BCD",
    "CD",
    "JPCD",
    "PCD",
    "PT",
    "PTT",
    "WCD",
    "WPCD",
    "WPT",
    "Batch",
    "Exact",
    "FixedPoints",
    "NegativePhase",
    "PointSource",
    "Points",
    "State",
    "Weights",
    "get",
    "name_of",
    "points",
    "register",
    "unregister",
    "weights",
]

PHASES: Registry[Callable[..., NegativePhase]] = Registry("negative_phase")


def register(name: str, make: Callable[..., NegativePhase]) -> None:
    """Gives a negative phase a name, for ``RBMLayer(..., negative_phase=name)``.

    Args:
        name: the name.
        make: makes the phase, of those of the layer's arguments ``gibbs_steps`` and ``chains`` that it takes: its
            class, say.

    Example:

    >>> register("cd10", lambda: CD(gibbs_steps=10))
    >>> get("cd10").source.gibbs_steps
    10
    >>> unregister("cd10")
    """
    PHASES.register(name, make)


def unregister(name: str) -> None:
    """Takes a name back."""
    PHASES.unregister(name)


def get(identifier: str | NegativePhase, **options: Any) -> NegativePhase:
    """The negative phase of the given name, made with the options.

    Args:
        identifier: a name, in capitals or not, or a `NegativePhase` object, which is returned as it is.
        **options: arguments for the phase, such as ``gibbs_steps``; those that are ``None`` count as not given.

    Raises:
        ValueError: for an unknown name, and for options that the phase does not take: an object takes none.

    Example:

    >>> get("wcd", gibbs_steps=10, chains=None).source.gibbs_steps
    10
    """
    given = {name: value for name, value in options.items() if value is not None}
    if isinstance(identifier, NegativePhase):
        if given:
            raise ValueError(
                f"Give {_listed(given)} to the negative phase itself, {type(identifier).__name__}(...), or pass its "
                f"name. Received: a {type(identifier).__name__} object and {given}"
            )
        return identifier
    name = identifier.lower() if isinstance(identifier, str) and identifier.lower() in PHASES else identifier
    if not isinstance(name, str) or name not in PHASES:
        raise ValueError(
            f"`negative_phase` must be one of {sorted(PHASES)} or a `tf_wcd.NegativePhase` object. "
            f"Received: {identifier!r}"
        )
    make = PHASES[name]
    unknown = set(given) - set(inspect.signature(make).parameters)
    if unknown:
        raise ValueError(f"The negative phase {name!r} has no {_listed(sorted(unknown))}. Received: {given}")
    return make(**given)


def name_of(phase: NegativePhase) -> str | None:
    """The name under which a phase of this class is registered; ``None`` if there is none.

    Example:

    >>> name_of(WCD(3))
    'wcd'
    """
    return next((name for name, make in PHASES.items() if make is type(phase)), None)


def _listed(names: Any) -> str:
    return " and ".join(f"`{name}`" for name in names)


for _phase in (CD, WCD, BCD, PCD, WPCD, JPCD, PT, WPT, PTT, Exact):
    register(_phase.__name__.lower(), _phase)
