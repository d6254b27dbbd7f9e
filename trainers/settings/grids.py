"""Grids of parameters, and the rounds of successive halving that go through them."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from trainers.settings import paper
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
        entrants: how many settings enter; all if None.
        seeds: how often each is run; what counts is the mean.
    """

    part: float
    entrants: int | None
    seeds: int = 1


class Search(NamedTuple):
    """How the parameters of a method are chosen: the grid to start from, and the rounds."""

    grid: Grid
    rungs: tuple[Rung, ...]


_HALVING = (Rung(1 / 16, None), Rung(1 / 4, 8), Rung(1.0, 2))
# Ten Gibbs steps cost several times as much: their last round is left out, and their grid is coarser.
_HALVING_OF_LONG_CHAINS = _HALVING[:2]
# Weighted methods often reach a KL of zero, but for rounding, with one seed, and fail with the next, without decay the
# more often the longer their rate is high: more seeds, and a short run may win.
_HALVING_OF_WEIGHTED = (Rung(1 / 16, None, 2), Rung(1 / 16, 4, 6), Rung(1.0, 3, 3))
_HALVING_OF_WEIGHTED_LONG_CHAINS = (Rung(1 / 4, None, 2), Rung(1 / 4, 4, 6), Rung(1.0, 4, 3))

# What halving starts from: the paper's ranges, the ends that never won in first trials left out.
_RATES = (0.03, 0.01, 0.003, 0.001, 0.0003)
_SHORT_CHAINS = Grid((3, 5), (1.0, 0.1, 0.01, 0.0001), _RATES, ("linear", "constant"), (paper.MOMENTUM,))
_LONG_CHAINS = Grid((5,), (1.0, 0.1, 0.01), _RATES, ("linear",), (paper.MOMENTUM,))
_PERSISTENT = Grid((5,), (1.0, 0.1, 0.01), (*_RATES[1:], 0.0001, 0.00001), ("linear", "constant"), (0.9, 0.0))
# Weights take out what is noise at CD's higher rates: weighted methods want larger ones, if they may choose.
_WEIGHTED_RATES = (0.1, 0.06, 0.03, 0.01, 0.003)
_WEIGHTED_SHORT_CHAINS = Grid((3, 5), (1.0, 0.1, 0.01), (0.3, *_WEIGHTED_RATES), ("linear",), (paper.MOMENTUM,))
# The larger the weights, the nearer to the data even the end of a long chain. Decay brings back what a high rate drives
# to weights so large that chains no longer move.
_WEIGHTED_LONG_CHAINS = Grid(
    (5,), (3.0, 1.0), (0.3, 0.16, 0.06, 0.02, 0.006, 0.003), ("linear",), (paper.MOMENTUM,), (0.0, 0.0005)
)
_WEIGHTED_PERSISTENT = Grid(
    (5,), (1.0, 0.3, 0.1), (*_WEIGHTED_RATES[2:], 0.001, 0.0003), ("linear",), (paper.MOMENTUM,)
)

HALVING: Mapping[str, Search] = MappingProxyType(
    {
        "CD_1": Search(_SHORT_CHAINS, _HALVING),
        "CD_10": Search(_LONG_CHAINS, _HALVING_OF_LONG_CHAINS),
        "PCD": Search(_PERSISTENT, _HALVING),
        "WCD_1": Search(_WEIGHTED_SHORT_CHAINS, _HALVING_OF_WEIGHTED),
        "WCD_10": Search(_WEIGHTED_LONG_CHAINS, _HALVING_OF_WEIGHTED_LONG_CHAINS),
        "WPCD": Search(_WEIGHTED_PERSISTENT, _HALVING_OF_WEIGHTED),
    }
)


def _paper_grid(method: paper.Method) -> Grid:
    schedules = ("constant", "linear")
    if method.persistent:
        return Grid((5,), paper.VARIANCES, paper.PERSISTENT_LEARNING_RATES, schedules, (paper.MOMENTUM, 0.0))
    return Grid(paper.HIDDEN_MULTIPLES, paper.VARIANCES, paper.LEARNING_RATES, schedules, (paper.MOMENTUM,))


# The paper's whole grid, every setting at full length.
FULL: Mapping[str, Search] = MappingProxyType(
    {name: Search(_paper_grid(method), (Rung(1.0, None),)) for name, method in paper.METHODS.items()}
)
