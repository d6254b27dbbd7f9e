"""Grids of parameters, the rounds of successive halving that go through them, and the rule that is both."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from trainers.settings import paper
from trainers.settings.columns import COLUMNS
from trainers.settings.runs import SmallRun


class Grid(NamedTuple):
    """Values to try."""

    hidden_multiples: tuple[int, ...]
    variances: tuple[float, ...]
    learning_rates: tuple[float, ...]
    schedules: tuple[str, ...]
    momenta: tuple[float, ...]
    weight_decays: tuple[float, ...] = (0.0,)

    def runs(self, problem: str, visible: int, method: paper.Method, updates: int) -> list[SmallRun]:
        """All combinations, runs of one shape next to each other.

        Args:
            problem: a small problem.
            visible: its number of visible units.
            method: a column of the table.
            updates: length of the runs.
        """
        return [
            SmallRun(
                problem=problem,
                negative_phase=method.negative_phase,
                gibbs_steps=method.gibbs_steps,
                hidden=multiple * visible,
                learning_rate=rate,
                variance=variance,
                schedule=schedule,
                momentum=momentum,
                updates=updates,
                batch_size=paper.BATCH_SIZE if problem in paper.BATCHED else 0,
                weight_decay=decay,
            )
            for multiple, schedule, momentum, decay, variance, rate in itertools.product(
                self.hidden_multiples,
                self.schedules,
                self.momenta,
                self.weight_decays,
                self.variances,
                self.learning_rates,
            )
        ]


class Rung(NamedTuple):
    """A round of successive halving.

    Attributes:
        part: length of its runs, as a part of the full one.
        entrants: how many runs enter; all settings if None.
        seeds: how often each is run; what counts is the mean.
    """

    part: float
    entrants: int | None
    seeds: int = 1


class Rule(NamedTuple):
    """How the parameters of a method on a problem are chosen.

    Attributes:
        version: goes into the names of the files and into the records of what was chosen.
        grid: the settings that the first round begins with.
        rungs: the rounds.
        powers: of the ratio of two rounds' lengths. A setting that goes on does so once for each, with a rate that is
            smaller by this power of how much longer its runs are; its decay is smaller by the square root.
    """

    version: str
    grid: Grid
    rungs: tuple[Rung, ...]
    powers: tuple[float, ...] = (0.0,)

    @property
    def slowing(self) -> float:
        """The power for a run that is longer than those in which its parameters were chosen."""
        return max(self.powers)


# The one rule for all methods and problems. The ranges are the paper's, with rates between its powers of ten, and a
# decay, without which weighted methods lose some seeds at high rates; all rates fall linearly to zero. What counts is
# the mean over seeds: a setting that fails with every other seed is no good choice.
RULE = Rule(
    version="3",
    grid=Grid(
        hidden_multiples=(5,),
        variances=(1.0, 0.1, 0.01),
        learning_rates=(0.3, 0.1, 0.03, 0.01, 0.003, 0.001, 0.0003),
        schedules=("linear",),
        momenta=(paper.MOMENTUM,),
        weight_decays=(0.0, 0.0005),
    ),
    rungs=(Rung(1 / 16, None, 1), Rung(1 / 4, 6, 2), Rung(1.0, 2, 3)),
    powers=(0.0, 0.5),
)


def _paper_grid(method: paper.Method) -> Grid:
    schedules = ("constant", "linear")
    if method.persistent:
        return Grid((5,), paper.VARIANCES, paper.PERSISTENT_LEARNING_RATES, schedules, (paper.MOMENTUM, 0.0))
    return Grid(paper.HIDDEN_MULTIPLES, paper.VARIANCES, paper.LEARNING_RATES, schedules, (paper.MOMENTUM,))


# The paper's whole grid, every setting at full length.
FULL: Mapping[str, Rule] = MappingProxyType(
    {name: Rule("full", _paper_grid(method), (Rung(1.0, None),)) for name, method in COLUMNS.items()}
)
