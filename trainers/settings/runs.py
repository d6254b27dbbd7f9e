"""The settings of one run: on a small problem, on a set of images, of a Deep Belief Network."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Mapping
from typing import Any, Self

SCHEDULES = ("constant", "linear")
NEGATIVE_PHASES = ("cd", "wcd", "bcd", "pcd", "wpcd", "jpcd", "exact")


def fingerprint(**facts: Any) -> str:
    """A short name for facts: equal facts have equal names.

    Example:

    >>> fingerprint(a=1, b=2) == fingerprint(b=2, a=1)
    True
    """
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:16]


@dataclasses.dataclass(frozen=True)
class RunSettings:
    """What the settings of all kinds of runs can do: go into a record and come back."""

    def as_dict(self) -> dict[str, Any]:
        """The settings as a record has them."""
        return dataclasses.asdict(self)

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> Self:
        """The settings in a record. What a record from before a setting existed lacks has its default."""
        return cls(**{field.name: record[field.name] for field in dataclasses.fields(cls) if field.name in record})


@dataclasses.dataclass(frozen=True)
class SmallRun(RunSettings):
    """All that defines a run on a small problem, but for its seed.

    Attributes:
        problem: name of the small problem.
        negative_phase: one of `NEGATIVE_PHASES`.
        gibbs_steps: k; 1 for "exact", which takes none.
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
        if self.negative_phase == "exact" and self.gibbs_steps != 1:
            raise ValueError(
                f"The exact gradient has no Gibbs steps: leave `gibbs_steps` at 1. Received: {self.gibbs_steps}"
            )
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


@dataclasses.dataclass(frozen=True)
class ImageMethod:
    """A negative phase for images.

    Attributes:
        name: of the negative phase, in capitals: "PCD", "WPCD" and so on.
        minimum_ess: with WCD, BCD, WPCD and JPCD, the part of the points that tempered weights keep effective; 0 for
            plain weights.
    """

    name: str
    minimum_ess: float = 0.0

    def __post_init__(self) -> None:
        if self.minimum_ess and self.name not in ("WCD", "BCD", "WPCD", "JPCD"):
            raise ValueError(
                "`--minimum_ess` tempers the weights of WPCD, as of WCD, BCD and JPCD; other methods have none. "
                f"Received: --method={self.name} --minimum_ess={self.minimum_ess:g}"
            )

    @property
    def label(self) -> str:
        """What the method is called in records, tables and figures."""
        return f"{self.name}, ESS >= {100 * self.minimum_ess:g}%" if self.minimum_ess else self.name


# Records from before `minimum_ess` was a field have the label of the method in its place.
_OLD_LABELS = {method.label: method for method in (ImageMethod("WPCD", 0.5),)}


@dataclasses.dataclass(frozen=True)
class ImageRun(RunSettings):
    """All that defines a run on a set of images, but for its seed and what the protocol holds fixed.

    Attributes:
        data: name of the set of images.
        method: of the negative phase, in capitals.
        minimum_ess: see `ImageMethod`.
        units: "bernoulli" or "spin", of both layers.
        centered: whether the gradient is centred.
        learning_rate: at the start; it falls linearly to zero.
        epochs: passes over the training images.
        updates: updates in all, in as many equal parts as there are epochs; 0 for those that the passes make.
    """

    data: str
    method: str
    units: str
    centered: bool
    learning_rate: float
    epochs: int
    minimum_ess: float = 0.0
    updates: int = 0

    @property
    def image_method(self) -> ImageMethod:
        """The method with its effective sample size."""
        return ImageMethod(self.method, self.minimum_ess)

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> Self:
        """See `RunSettings.from_record`; labels of old records become fields."""
        old = _OLD_LABELS.get(record["method"])
        if old is not None:
            record = {**record, "method": old.name, "minimum_ess": old.minimum_ess}
        return super().from_record(record)


@dataclasses.dataclass(frozen=True)
class DBNRun(RunSettings):
    """What a run of the study of Deep Belief Networks does.

    Attributes:
        epochs: epochs of pre-training for each layer.
        tuning_epochs: epochs of back-propagation.
        train_size: number of training images, and at most of test images; ``None`` for all.
        seeds: seeds of the comparison with few labels.
        seed: seed of everything else.
        width: the hidden layers are this much of their full width (1 but in short trials).
        batch_size: images in a batch.
        validation: hold out the last 10,000 training images and measure on them, not on the test images.
    """

    epochs: int = 10
    tuning_epochs: int = 30
    train_size: int | None = None
    seeds: int = 5
    seed: int = 0
    width: float = 1.0
    batch_size: int = 100
    validation: bool = False

    def units(self, full: tuple[int, ...]) -> list[int]:
        """Hidden units of each layer of a network of this full width."""
        return [max(2, round(self.width * n)) for n in full]
