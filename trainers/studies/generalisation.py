"""Training on a part of the states: does the model give the right probabilities to states that it has not seen?"""

from __future__ import annotations

import dataclasses
import itertools
from pathlib import Path
from typing import Any

import numpy as np

from tf_wcd.evaluation.exact import kl_from_log_prob
from trainers.runs.small_problems import Result, Task, Training, load_task, train_group
from trainers.settings import paper
from trainers.settings.columns import COLUMNS
from trainers.settings.runs import SmallRun
from trainers.store.files import save_arrays
from trainers.store.records import Records
from trainers.store.sharing import Piece, work_off
from trainers.studies.selection import select, slowed
from trainers.studies.table import Cell
from trainers.studies.work import Work


def run_name(problem: str, method: str, fraction: float) -> str:
    """What the files of a run are called."""
    return f"{problem}-{method}-{round(100 * fraction)}"


def records_of(problem: str, method: str, fraction: float, folder: Path) -> Records:
    """The records of a run's seeds."""
    return Records(folder / "generalisation" / f"{run_name(problem, method, fraction)}.jsonl")


def distribution_of(problem: str, method: str, fraction: float, folder: Path) -> Path:
    """The file with the first seed's log-probabilities of all states."""
    return folder / "distributions" / f"{run_name(problem, method, fraction)}.npz"


def run_one(problem: str, method: paper.Method, fraction: float, work: Work) -> list[dict[str, Any]]:
    """Trains a few seeds on a part of the states, with the parameters that were chosen for the method on all states.

    Where the model would have more parameters than half of the states that it sees, it has fewer hidden units. The
    lowest KL is that of the states seen, relative to each other: nothing tells how much the others have.

    The records also have ``full_kl``, the divergence of the *whole* target from the model that had the lowest KL on the
    training part, and ``held_out_mass``, the probability that this model gives to the states held out.
    """
    protocol, folder = work.protocol.generalisation, work.small
    records = records_of(problem, method.name, fraction, folder)
    if len(records.read()) >= protocol.seeds:
        return records.read()
    settings = settings_for(problem, method, work)
    settings = dataclasses.replace(settings, fraction=fraction, hidden=hidden_for(problem, fraction, settings.hidden))
    training = Training(
        protocol.seed,
        protocol.evaluations,
        folder / "checkpoints",
        f"{run_name(problem, method.name, fraction)} %, {protocol.seeds} seeds",
        work.verbose,
        work.plan(),
    )
    result = train_group([settings] * protocol.seeds, training)
    task = load_task(problem, fraction)
    _add_whole_target(result, task)
    # In the order of the data set, so that nobody needs the split to read it.
    in_order = np.empty(len(task.order), "float32")
    in_order[task.order] = result.log_probabilities[0]
    path = distribution_of(problem, method.name, fraction, folder)
    save_arrays(path, log_probabilities=in_order, held_out=np.sort(task.order[task.training :]))
    records.append(*result.records)
    result.forget()
    return result.records


def _add_whole_target(result: Result, task: Task) -> None:
    log_probabilities = result.log_probabilities.astype("float64")
    full = kl_from_log_prob(log_probabilities, task.probabilities)
    held_out = np.exp(log_probabilities[:, task.training :]).sum(axis=1)
    target_held_out = task.probabilities[task.training :].sum()
    for record, kl, mass in zip(result.records, full, held_out, strict=True):
        record.update(
            full_kl=float(f"{kl:.5g}"),
            held_out_mass=round(float(mass), 5),
            target_mass=round(float(target_held_out), 5),
        )


def hidden_for(problem: str, fraction: float, wished: int) -> int:
    """Hidden units for a part of the states: the largest multiple of the visible ones that it can tell about."""
    task = load_task(problem, fraction)
    visible = task.spins.shape[1]
    most = (task.training / 2 - visible) / (visible + 1)
    return min(wished, max(1, int(most // visible)) * visible)


def settings_for(problem: str, method: paper.Method, work: Work) -> SmallRun:
    """What was chosen for the method, at the usual length of a run: from the table if it is there.

    A weighted method of the paper has parameters of its own; columns of ours have those of an unweighted one.
    """
    updates = work.protocol.table.effort(problem, method).updates
    own = method.weighted and method.name in paper.METHODS
    cell = Cell(problem, method, "own" if own else "paper")
    chosen = cell.settings_used(work.small)
    if chosen is None:
        chosen = select(problem, cell.owner, updates, dataclasses.replace(work, full=False))
        chosen = dataclasses.replace(chosen, negative_phase=method.negative_phase, gibbs_steps=method.gibbs_steps)
    return slowed(chosen, updates, work.rule(method).slowing)


def run(work: Work, deadline: float = float("inf")) -> int:
    """Runs all that no other process is at; returns how many pieces of work are left."""
    protocol = work.protocol.generalisation

    def piece(problem: str, name: str, fraction: float) -> Piece:
        records = records_of(problem, name, fraction, work.small)
        return Piece(
            # Pieces that need the same selection are not worked on at the same time.
            work.small / "checkpoints" / f"{problem}-{name}.lock",
            lambda: len(records.read()) >= protocol.seeds,
            lambda: run_one(problem, COLUMNS[name], fraction, work),
        )

    chosen = [problem for problem in paper.BATCHED if problem in work.problems]
    return work_off(itertools.starmap(piece, itertools.product(chosen, protocol.methods, protocol.fractions)), deadline)
