"""The protocol of the records: the best likelihood of each set of images, and how it is measured."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from trainers.settings.runs import RunSettings

FRESH = "fresh"


@dataclasses.dataclass(frozen=True)
class RecordRun(RunSettings):
    """All that defines a run for the record of a set of images, but for its seed.

    Attributes:
        data: name of the set of images.
        binarize: ``"threshold"`` or ``"stochastic"`` for images that are black and white once and for all, or
            ``"fresh"`` for training images that are drawn anew from their grey levels at each epoch. Those of
            validation and test are drawn once, as with ``"stochastic"``.
        negative_phase: name of the negative phase.
        learning_rate: at the start; it falls linearly to zero.
        epochs: passes over the training images.
        gibbs_steps: k.
        chains: number of persistent chains.
        hidden: number of hidden units.
        batch_size: images at each update.
        momentum: of SGD.
        weight_decay: times the learning rate, the part of the kernel that each update takes away.
    """

    data: str
    binarize: str
    negative_phase: str
    learning_rate: float
    epochs: int
    gibbs_steps: int = 1
    chains: int = 100
    hidden: int = 500
    batch_size: int = 100
    momentum: float = 0.5
    weight_decay: float = 0.0

    @property
    def read_as(self) -> str:
        """How images are read that are not drawn anew."""
        return "stochastic" if self.binarize == FRESH else self.binarize


RUNS: Mapping[str, RecordRun] = MappingProxyType(
    {
        run.data: run
        for run in (
            RecordRun("mnist", FRESH, "pcd", 0.1, 400),
            RecordRun("caltech101_silhouettes", "threshold", "pcd", 0.004, 1500, chains=500, weight_decay=0.003),
            RecordRun("ocr_letters", "threshold", "pcd", 0.05, 120, weight_decay=0.001),
            RecordRun("fashion_mnist", "threshold", "pcd", 0.02, 100, chains=500, weight_decay=0.001),
        )
    }
)
# The second layer of a Deep Belief Network, which starts as the first one transposed: 784 hidden units.
DEEP_RUNS: Mapping[str, RecordRun] = MappingProxyType(
    {"mnist": RecordRun("mnist", FRESH, "pcd", 0.02, 100, hidden=784)}
)


class Annealing(NamedTuple):
    """How log Z is estimated: lengths double until both directions agree, or the budget is spent."""

    tolerance: float = 0.2
    budget: int = 51_200
    chains: int = 500
    seed: int = 21


class RecordProtocol(NamedTuple):
    """The runs for the records.

    Attributes:
        runs: one for each set of images, with settings that were chosen on validation images and another seed.
        deep_runs: by set of images, a second layer on top of that one.
        seed: of these runs.
        trials_seed: of the runs that chose their settings.
        held_back: training images that trials are evaluated on, of a set without a validation part.
        annealing: of the evaluation.
        trials_annealing: of that of trials.
    """

    runs: Mapping[str, RecordRun] = RUNS
    deep_runs: Mapping[str, RecordRun] = DEEP_RUNS
    seed: int = 11
    trials_seed: int = 7
    held_back: int = 10_000
    annealing: Annealing = Annealing()
    trials_annealing: Annealing = Annealing(budget=6400, chains=100)
