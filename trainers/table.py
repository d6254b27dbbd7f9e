"""The paper's table: minimum KL of six methods on nine problems.

A weighted method is run twice, with the parameters that were chosen for its unweighted form, as the paper does, and
with parameters chosen for itself.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from trainers import paper
from trainers.records import Piece, Records, work_off
from trainers.selection import select, slowed, slowing_of
from trainers.settings import Settings
from trainers.small_run import train_all, train_group
from trainers.team import in_a_team, turn, work_together

TABLE_SEED = 100
LOOKS = 400


class Effort(NamedTuple):
    """How long the runs of a cell are, and how many."""

    updates: int
    seeds: int


# Updates of a run with one Gibbs step, with ten, and the number of seeds of each: with the selection about eight hours
# on two cores.
EFFORT = {
    "BS09": (Effort(300_000, 10), Effort(150_000, 10)),
    "BS16": (Effort(300_000, 10), Effort(100_000, 10)),
    "LSE11": (Effort(300_000, 10), Effort(100_000, 10)),
    "LSE15": (Effort(150_000, 5), Effort(60_000, 5)),
    "P08": (Effort(200_000, 10), Effort(100_000, 10)),
    "P10": (Effort(100_000, 5), Effort(50_000, 5)),
    "Int12": (Effort(300_000, 5), Effort(100_000, 5)),
    "Mult3G": (Effort(300_000, 5), Effort(100_000, 5)),
    "Mult3D": (Effort(300_000, 5), Effort(100_000, 5)),
}
# With parameters of their own, chosen at the length above, some go on improving. (The paper makes a million updates,
# and four million in batches.)
LONGER_WITH_OWN_PARAMETERS = {
    ("LSE11", "WPCD"): Effort(1_000_000, 10),
    ("LSE15", "WPCD"): Effort(500_000, 3),
    ("P10", "WPCD"): Effort(300_000, 3),
    ("Int12", "WCD_1"): Effort(1_000_000, 5),
    ("Mult3G", "WCD_1"): Effort(2_000_000, 3),
    ("Mult3G", "WCD_10"): Effort(500_000, 3),
    ("Mult3D", "WCD_1"): Effort(1_000_000, 5),
    ("Mult3D", "WCD_10"): Effort(1_000_000, 3),
}


def effort_of(problem: str, method: paper.Method) -> Effort:
    """Length and number of the runs of a cell."""
    return EFFORT[problem][method.gibbs_steps > 1]


def longer_effort(cell: Cell) -> Effort | None:
    """Length and number of the runs of a cell whose parameters were chosen in shorter ones."""
    return LONGER_WITH_OWN_PARAMETERS.get((cell.problem, cell.method.name)) if cell.parameters == "own" else None


def seeds_of(cell: Cell) -> int:
    """Number of the runs of a cell."""
    return (longer_effort(cell) or effort_of(cell.problem, cell.method)).seeds


class Cell(NamedTuple):
    """One cell: which method on which problem, with whose parameters ("paper": those of the unweighted form)."""

    problem: str
    method: paper.Method
    parameters: str

    @property
    def name(self) -> str:
        return f"{self.problem}-{self.method.name}-{self.parameters}"


def cells(problems: Sequence[str], methods: Sequence[str]) -> list[Cell]:
    """All cells: each unweighted method and its weighted form with the same parameters, then those with their own."""
    chosen = [paper.METHODS[name] for name in methods]
    alike = [
        Cell(problem, method, "paper")
        for problem in problems
        for owner in paper.METHODS
        for method in chosen
        if method.parameters_of == owner
    ]
    return alike + [Cell(problem, method, "own") for problem in problems for method in chosen if method.weighted]


def run_cell(
    cell: Cell, folder: Path, full: bool = False, verbose: bool = True, train: Callable[..., None] = train_all
) -> list[dict[str, Any]]:
    """Chooses the parameters, trains the seeds, and keeps their records and the first one's distribution."""
    records = records_of(cell, folder)
    done = records.read()
    updates, seeds = effort_of(cell.problem, cell.method).updates, seeds_of(cell)
    if len(done) >= seeds:
        return done
    owner = paper.METHODS[cell.method.parameters_of] if cell.parameters == "paper" else cell.method
    settings = settings_used(cell._replace(method=owner), folder) or select(
        cell.problem, owner, effort_of(cell.problem, owner).updates, folder, full, verbose=verbose, train=train
    )
    if cell.parameters == "own":
        updates = (longer_effort(cell) or settings).updates
        settings = slowed(settings, updates, max(slowing_of(cell.method)))
    settings = dataclasses.replace(
        settings,
        negative_phase=cell.method.negative_phase,
        gibbs_steps=cell.method.gibbs_steps,
        updates=updates,
    )
    with turn(folder / "checkpoints" / f"{cell.name}.seeds.lock") as ours:
        done = records.read()
        if not ours or len(done) >= seeds:
            return done
        return run_seeds(cell.name, settings, seeds, records, folder, verbose)


def records_of(cell: Cell, folder: Path) -> Records:
    """The records of a cell's seeds."""
    return Records(folder / "table" / f"{cell.name}.jsonl")


def settings_used(cell: Cell, folder: Path) -> Settings | None:
    """What the seeds of a cell were trained with; None if it has not been run."""
    names = {field.name for field in dataclasses.fields(Settings)}
    done = records_of(cell, folder).read()
    return Settings(**{name: done[0][name] for name in names & done[0].keys()}) if done else None


def run_seeds(
    name: str, settings: Settings, seeds: int, records: Records, folder: Path, verbose: bool = True
) -> list[dict[str, Any]]:
    """Trains one setting with several seeds side by side; keeps the records and all states' log-probabilities."""
    result = train_group(
        [settings] * seeds, TABLE_SEED, LOOKS, folder / "checkpoints", f"{name}, {seeds} seeds", verbose
    )
    # The distribution comes first: a cell whose records are there is finished.
    path = folder / "distributions" / f"{name}.npz"
    path.parent.mkdir(parents=True, exist_ok=True)
    np.savez_compressed(path, log_probabilities=result.log_probabilities[0])
    records.append(*result.records)
    result.checkpoints.remove()
    return result.records


def run_table(
    folder: Path,
    problems: Sequence[str] = paper.PROBLEMS,
    methods: Sequence[str] = tuple(paper.METHODS),
    full: bool = False,
    verbose: bool = True,
    deadline: float = float("inf"),
    train: Callable[..., None] = train_all,
) -> int:
    """Runs all cells that no other process is at; any number of processes may do so together.

    Args:
        folder: where records, checkpoints and distributions are.
        problems: rows of the table.
        methods: columns of the table.
        full: the paper's whole grid instead of successive halving.
        verbose: whether there is a progress line.
        deadline: time (as of `time.time`) after which no further cell is begun.
        train: what trains the runs of the selection.

    Returns:
        The number of cells that are still to do, here or elsewhere.
    """

    def piece(cell: Cell) -> Piece:
        # Two cells that need the same selection are not worked on at once.
        owner = cell.method.parameters_of if cell.parameters == "paper" else cell.method.name
        records = records_of(cell, folder)
        seeds = seeds_of(cell)
        return Piece(
            folder / "checkpoints" / f"{cell.problem}-{owner}.lock",
            lambda: len(records.read()) >= seeds,
            lambda: run_cell(cell, folder, full, verbose, train),
        )

    pieces = map(piece, cells(problems, methods))
    return work_together(pieces) if in_a_team() else work_off(pieces, deadline)
