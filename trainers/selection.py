"""Choosing the parameters of a method on a small problem, by the lowest KL along a run.

The grid is the paper's. Successive halving makes it affordable: all settings get a short run, the better ones a longer
one, and the best a run of full length; a linearly falling rate falls to zero at the end of each. An unweighted setting
that goes on enters the longer round twice, with its rate and with a rate that is smaller by as much as the run is
longer: the same way, in smaller steps. (Persistent chains are lost where the weights grow too large for them, so that
what suits a short run goes too far in a long one.) A weighted one enters with rates that are smaller by the fourth and
by the square root of that; these are run with several seeds, and it is the mean that counts. With weight decay only
runs of full length count, and these have less of it. The full grid runs every setting at full length.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import tf_wcd
from trainers import paper
from trainers.records import Records
from trainers.settings import Settings
from trainers.small_run import train_all

SELECTION_SEED = 7


class Grid(NamedTuple):
    """Values to try."""

    hidden_multiples: tuple[int, ...]
    variances: tuple[float, ...]
    learning_rates: tuple[float, ...]
    schedules: tuple[str, ...]
    momenta: tuple[float, ...]
    weight_decays: tuple[float, ...] = (0.0,)

    def settings(self, problem: str, method: paper.Method, updates: int) -> list[Settings]:
        """All combinations, runs of one shape next to each other."""
        visible = tf_wcd.datasets.load(problem)[0].shape[1]
        return [
            Settings(
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


HALVING = (Rung(1 / 16, None), Rung(1 / 4, 8), Rung(1.0, 2))
# Ten Gibbs steps cost several times as much: their last round is left out, and their grid is coarser.
HALVING_OF_LONG_CHAINS = HALVING[:2]
# Weighted methods often reach a KL of zero, but for rounding, with one seed, and fail with the next, without decay the
# more often the longer their rate is high: more seeds, and a short run may win.
HALVING_OF_WEIGHTED = (Rung(1 / 16, None, 2), Rung(1 / 16, 4, 6), Rung(1.0, 3, 3))
HALVING_OF_WEIGHTED_LONG_CHAINS = (Rung(1 / 4, None, 2), Rung(1 / 4, 4, 6), Rung(1.0, 4, 3))
FULL = (Rung(1.0, None),)

# What halving starts from: the paper's ranges, the ends that never won in first trials left out.
_RATES = (0.03, 0.01, 0.003, 0.001, 0.0003)
_SHORT_CHAINS = Grid((3, 5), (1.0, 0.1, 0.01, 0.0001), _RATES, ("linear", "constant"), (paper.MOMENTUM,))
_LONG_CHAINS = Grid((5,), (1.0, 0.1, 0.01), _RATES, ("linear",), (paper.MOMENTUM,))
_PERSISTENT = Grid((5,), (1.0, 0.1, 0.01), (*_RATES[1:], 0.0001, 0.00001), ("linear", "constant"), (0.9, 0.0))
# Weights take out what is noise at CD's higher rates: with parameters of their own, weighted methods want larger ones.
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


def default_grid(method: paper.Method) -> Grid:
    """The grid that halving starts from."""
    if method.weighted:
        if method.persistent:
            return _WEIGHTED_PERSISTENT
        return _WEIGHTED_SHORT_CHAINS if method.gibbs_steps == 1 else _WEIGHTED_LONG_CHAINS
    if method.persistent:
        return _PERSISTENT
    return _SHORT_CHAINS if method.gibbs_steps == 1 else _LONG_CHAINS


def rounds_of(method: paper.Method) -> tuple[Rung, ...]:
    """The rounds of halving."""
    if method.weighted:
        return HALVING_OF_WEIGHTED if method.gibbs_steps == 1 else HALVING_OF_WEIGHTED_LONG_CHAINS
    return HALVING if method.gibbs_steps == 1 else HALVING_OF_LONG_CHAINS


def full_grid(method: paper.Method) -> Grid:
    """The paper's grid."""
    schedules = ("constant", "linear")
    if method.persistent:
        return Grid((5,), paper.VARIANCES, paper.PERSISTENT_LEARNING_RATES, schedules, (paper.MOMENTUM, 0.0))
    return Grid(paper.HIDDEN_MULTIPLES, paper.VARIANCES, paper.LEARNING_RATES, schedules, (paper.MOMENTUM,))


def select(
    problem: str,
    method: paper.Method,
    updates: int,
    folder: Path,
    full: bool = False,
    looks: int = 40,
    verbose: bool = True,
    train: Callable[..., None] = train_all,
) -> Settings:
    """The settings with the lowest KL; finished runs are taken from the records.

    Args:
        problem: a small problem.
        method: a column of the table.
        updates: length of a full run.
        folder: where the records are.
        full: the paper's whole grid at full length instead of successive halving.
        looks: how often the KL is looked at in each run.
        verbose: whether there is a progress line.
        train: what trains runs and hands over their records, see `train_all`.

    Returns:
        The settings chosen. Those of an unweighted method are of full length; of a weighted one, which may do better in
        a shorter run, of the length that they were chosen at.
    """
    records = Records(folder / "selection" / f"{problem}-{method.name}{'-full' if full else ''}.jsonl")
    grid = full_grid(method) if full else default_grid(method)
    entrants = grid.settings(problem, method, updates)
    rungs = FULL if full else rounds_of(method)
    means: dict[Settings, float] = {}
    for number, rung in enumerate(rungs):
        runs = entering(entrants, rung, max(looks, round(updates * rung.part)), slowing_of(method))
        totals = dict.fromkeys(runs, 0.0)
        for repeat in range(rung.seeds):
            seed = SELECTION_SEED + number + len(rungs) * repeat

            def known(number: int = number, seed: int = seed) -> dict[Settings, float | None]:
                mine = {"rung": number, "seed": seed}.items()
                return {Settings(**r["settings"]): r["min_kl"] for r in records.read() if mine <= r.items()}

            have = known()
            train(
                [run for run in runs if run not in have],
                lambda done, number=number: records.append(*(_short(record, number) for record in done)),
                seed=seed,
                looks=looks,
                checkpoints=folder / "checkpoints",
                title=f"select {problem} {method.name}, round {number + 1} of {len(rungs)}, {len(runs)} settings",
                verbose=verbose,
                everything=runs,
                known=known,
            )
            have = known()
            for run in runs:
                totals[run] += _or_infinity(have[run])
        entrants = sorted(runs, key=totals.__getitem__)
        # The first of several rounds has few seeds: its best settings are the lucky ones. A short run may win, but not
        # one with decay, which brings back what is lost if it has the time.
        if number:
            lasting = rung is rungs[-1]
            means.update((run, total / rung.seeds) for run, total in totals.items() if lasting or not run.weight_decay)
    if method.weighted and not full:
        return min(means, key=means.__getitem__)
    return dataclasses.replace(entrants[0], updates=updates)


def slowing_of(method: paper.Method) -> tuple[float, ...]:
    """The powers of the length of a run that a rate goes down with where the run gets longer."""
    return (0.0, 0.25, 0.5) if method.weighted else (0.0, 1.0)


def slowed(settings: Settings, updates: int, power: float) -> Settings:
    """Settings for a run of another length, with a rate that is smaller by a power of how much longer it is.

    The decay is smaller by its square root: it has more time, and what it leaves of the KL is the less.
    """
    shorter = settings.updates / updates
    return dataclasses.replace(
        settings,
        updates=updates,
        learning_rate=float(f"{settings.learning_rate * shorter**power:.3g}"),
        weight_decay=float(f"{settings.weight_decay * shorter**0.5:.3g}"),
    )


def entering(
    ordered: Sequence[Settings], rung: Rung, updates: int, powers: Sequence[float] = (0.0, 1.0)
) -> list[Settings]:
    """The runs of a round: all settings at its length or, if only some may enter, the first ones, each in its forms.

    Args:
        ordered: settings, the best first.
        rung: the round.
        updates: length of its runs.
        powers: of the ratio of lengths, by which the rates of the forms are smaller.
    """
    if rung.entrants is None:
        return [dataclasses.replace(run, updates=updates) for run in ordered]
    forms = dict.fromkeys(slowed(run, updates, power) for run in ordered for power in powers)
    return list(forms)[: rung.entrants]


def _short(record: dict[str, Any], rung: int) -> dict[str, Any]:
    fields = [field.name for field in dataclasses.fields(Settings)]
    return {
        "rung": rung,
        "settings": {name: record[name] for name in fields},
        **{name: record[name] for name in ("seed", "min_kl", "final_kl", "seconds", "date")},
    }


def _or_infinity(kl: float | None) -> float:
    return float("inf") if kl is None else kl
