"""Training on a part of the states: does the model give the right probabilities to states that it has not seen?"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tf_wcd.evaluation.exact import kl_from_log_prob
from trainers import paper
from trainers.records import Piece, Records, work_off
from trainers.selection import select, slowed, slowing_of
from trainers.settings import Settings
from trainers.small_run import load_task, train_group
from trainers.table import Cell, effort_of, settings_used

FRACTIONS = (1.0, 0.8, 0.6, 0.4, 0.2)
METHODS = ("CD_1", "WCD_1")
SEEDS = 3
GENERALISATION_SEED = 200
LOOKS = 200


def run_one(
    problem: str, method: paper.Method, fraction: float, folder: Path, verbose: bool = True
) -> list[dict[str, Any]]:
    """Trains a few seeds on a part of the states, with the parameters that were chosen for the method on all states.

    Where the model would have more parameters than half of the states that it sees, it has fewer hidden units. The
    lowest KL is that of the states seen, relative to each other: nothing tells how much the others have.

    The records also have ``full_kl``, the divergence of the *whole* target from the model that had the lowest KL on the
    training part, and ``held_out_mass``, the probability that this model gives to the states held out.
    """
    name = f"{problem}-{method.name}-{round(100 * fraction)}"
    records = Records(folder / "generalisation" / f"{name}.jsonl")
    if len(records.read()) >= SEEDS:
        return records.read()
    settings = settings_for(problem, method, folder, verbose)
    settings = dataclasses.replace(settings, fraction=fraction, hidden=hidden_for(problem, fraction, settings.hidden))
    result = train_group(
        [settings] * SEEDS, GENERALISATION_SEED, LOOKS, folder / "checkpoints", f"{name} %, {SEEDS} seeds", verbose
    )
    task = load_task(problem, fraction)
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
    path = folder / "distributions" / f"{name}.npz"
    path.parent.mkdir(parents=True, exist_ok=True)
    # In the order of the data set, so that nobody needs the split to read it.
    in_order = np.empty(len(task.order), "float32")
    in_order[task.order] = result.log_probabilities[0]
    np.savez_compressed(path, log_probabilities=in_order, held_out=np.sort(task.order[task.training :]))
    records.append(*result.records)
    result.checkpoints.remove()
    return result.records


def hidden_for(problem: str, fraction: float, wished: int) -> int:
    """Hidden units for a part of the states: the largest multiple of the visible ones that it can tell about."""
    task = load_task(problem, fraction)
    visible = task.spins.shape[1]
    most = (task.training / 2 - visible) / (visible + 1)
    return min(wished, max(1, int(most // visible)) * visible)


def settings_for(problem: str, method: paper.Method, folder: Path, verbose: bool = True) -> Settings:
    """What was chosen for the method, at the usual length of a run: from the table if it is there."""
    updates = effort_of(problem, method).updates
    used = settings_used(Cell(problem, method, "own" if method.weighted else "paper"), folder)
    chosen = used or select(problem, method, updates, folder, verbose=verbose)
    return slowed(chosen, updates, max(slowing_of(method)))


def run_generalisation(
    folder: Path, problems: Sequence[str] = paper.BATCHED, verbose: bool = True, deadline: float = float("inf")
) -> int:
    """Runs all that no other process is at; returns how many pieces of work are left."""

    def piece(problem: str, name: str, fraction: float) -> Piece:
        # Pieces that need the same selection are not worked on at once.
        records = Records(folder / "generalisation" / f"{problem}-{name}-{round(100 * fraction)}.jsonl")
        return Piece(
            folder / "checkpoints" / f"{problem}-{name}.lock",
            lambda: len(records.read()) >= SEEDS,
            lambda: run_one(problem, paper.METHODS[name], fraction, folder, verbose),
        )

    chosen = [problem for problem in paper.BATCHED if problem in problems]
    return work_off(itertools.starmap(piece, itertools.product(chosen, METHODS, FRACTIONS)), deadline)
