"""Negative phases: where the points that training pushes the model away from come from, and how they are weighted."""

from __future__ import annotations

import inspect
from typing import Any

from tf_wcd.negative_phases.base import Batch, NegativePhase, Points, State
from tf_wcd.negative_phases.contrastive import CD, WCD
from tf_wcd.negative_phases.exact import Exact, FixedPoints
from tf_wcd.negative_phases.persistent import PCD, WPCD, start_chains

__all__ = [
    "CD",
    "PCD",
    "WCD",
    "WPCD",
    "Batch",
    "Exact",
    "FixedPoints",
    "NegativePhase",
    "Points",
    "State",
    "get",
    "start_chains",
]


def get(identifier: str | NegativePhase, **options: Any) -> NegativePhase:
    """The negative phase of the given name, made with those of the options that it takes.

    Args:
        identifier: a name, or a `NegativePhase` object, which is returned as it is.
        **options: arguments for the phase, such as ``gibbs_steps``.

    Example:

    >>> get("wcd", gibbs_steps=10, chains=None).gibbs_steps
    10
    """
    if isinstance(identifier, NegativePhase):
        return identifier
    if isinstance(identifier, str) and identifier in NegativePhase.by_name:
        phase = NegativePhase.by_name[identifier]
        accepted = inspect.signature(phase).parameters
        return phase(**{name: value for name, value in options.items() if name in accepted})
    raise ValueError(
        f"`negative_phase` must be one of {sorted(NegativePhase.by_name)} or a `tf_wcd.NegativePhase` object. "
        f"Received: {identifier!r}"
    )
