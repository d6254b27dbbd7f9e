"""Choosing the parameters of a method on a small problem, by the lowest KL along a run: one rule for all.

The rule (`trainers.settings.grids.RULE`) is data: a grid and the rounds of successive halving that make it affordable.
All settings get a short run, the better ones a longer one, and the best runs of full length; a linearly falling rate
falls to zero at the end of each. A setting that goes on enters the next round in several forms, with its rate and with
smaller ones, because what suits a short run may go too far in a long one. In each round it is the mean over its seeds
that counts. The full grid of the paper runs every setting at full length.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import tf_wcd
from trainers.runs.small_problems import Trainer, Training, train_all
from trainers.settings import paper
from trainers.settings.grids import Rung
from trainers.settings.runs import SmallRun
from trainers.store.records import Records
from trainers.studies.work import Work


def select(problem: str, method: paper.Method, updates: int, work: Work, train: Trainer = train_all) -> SmallRun:
    """The settings with the lowest KL in the last round; finished runs are taken from the records.

    Args:
        problem: a small problem.
        method: a column of the table.
        updates: length of a full run.
        work: protocol, folder and the rest.
        train: what trains the runs.
    """
    protocol, rule = work.protocol.selection, work.rule(method)
    records = Records(work.small / "selection" / f"{problem}-{method.name}-{rule.version}.jsonl")
    visible = tf_wcd.datasets.load(problem)[0].shape[1]
    runs = rule.grid.runs(problem, visible, method, updates)
    for number, rung in enumerate(rule.rungs):
        runs = entering(runs, rung, max(protocol.evaluations, round(updates * rung.part)), rule.powers)
        totals = dict.fromkeys(runs, 0.0)
        for repeat in range(rung.seeds):
            training = Training(
                protocol.seed + number + len(rule.rungs) * repeat,
                protocol.evaluations,
                work.small / "checkpoints",
                f"select {problem} {method.name}, round {number + 1} of {len(rule.rungs)}, {len(runs)} settings",
                work.verbose,
                work.plan(),
            )
            have = _train_round(runs, number, training, records, train)
            for run in runs:
                totals[run] += _or_infinity(have[run])
        runs = sorted(runs, key=totals.__getitem__)
    return dataclasses.replace(runs[0], updates=updates)


def _train_round(
    runs: Sequence[SmallRun], number: int, training: Training, records: Records, train: Trainer
) -> Mapping[SmallRun, float | None]:
    """Trains what is not in the records of a round, with one seed; returns the KL of each run."""

    def known() -> dict[SmallRun, float | None]:
        mine = {"rung": number, "seed": training.seed}.items()
        return {SmallRun.from_record(r["settings"]): r["min_kl"] for r in records.read() if mine <= r.items()}

    train(runs, lambda done: records.append(*(_short(record, number) for record in done)), training, known)
    return known()


def slowed(settings: SmallRun, updates: int, power: float) -> SmallRun:
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


def entering(ordered: Sequence[SmallRun], rung: Rung, updates: int, powers: Sequence[float]) -> list[SmallRun]:
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
    return {
        "rung": rung,
        "settings": SmallRun.from_record(record).as_dict(),
        **{name: record[name] for name in ("seed", "min_kl", "final_kl", "seconds", "date")},
    }


def _or_infinity(kl: float | None) -> float:
    return float("inf") if kl is None else kl
