"""The settings of one run on a small problem."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from typing import Any

SCHEDULES = ("constant", "linear")


@dataclasses.dataclass(frozen=True)
class Settings:
    """All that defines a run, but for its seed.

    Attributes:
        problem: name of the small problem.
        negative_phase: "cd", "wcd", "pcd", "wpcd" or "exact".
        gibbs_steps: k.
        hidden: number of hidden units.
        learning_rate: of SGD, at the start.
        variance: of the initial weights.
        schedule: "constant", or "linear" for a rate that falls to zero at the last update.
        momentum: of SGD.
        updates: how many.
        batch_size: states at each update; 0 for all.
        fraction: part of the states that is trained on; the rest is held out.
        weight_decay: part of each weight and bias that is taken away at the first update; with the linear schedule it
            falls as the rate does.
    """

    problem: str
    negative_phase: str
    gibbs_steps: int
    hidden: int
    learning_rate: float
    variance: float
    schedule: str
    momentum: float
    updates: int
    batch_size: int = 0
    fraction: float = 1.0
    weight_decay: float = 0.0

    def __post_init__(self) -> None:
        if self.schedule not in SCHEDULES:
            raise ValueError(f"`schedule` must be one of {SCHEDULES}. Received: schedule={self.schedule!r}")
        if not 0 < self.fraction <= 1:
            raise ValueError(f"`fraction` must be above 0 and at most 1. Received: fraction={self.fraction!r}")
        if not 0 <= self.weight_decay < 1:
            raise ValueError(
                f"`weight_decay` must be at least 0 and below 1. Received: weight_decay={self.weight_decay!r}"
            )

    @property
    def shared(self) -> tuple[Any, ...]:
        """What runs must have in common to be members of one ensemble."""
        return dataclasses.astuple(dataclasses.replace(self, learning_rate=1.0, variance=1.0))

    def as_dict(self) -> dict[str, Any]:
        return dataclasses.asdict(self)


def fingerprint(**facts: Any) -> str:
    """A short name for facts: equal facts have equal names.

    Example:

    >>> fingerprint(a=1, b=2) == fingerprint(b=2, a=1)
    True
    """
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:16]
