"""The paper's table: minimum KL of its six methods on nine problems, and of the columns that we add.

A weighted method is run twice, with the parameters that were chosen for its unweighted form, as the paper does, and
with parameters chosen for itself.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from trainers.runs.small_problems import Trainer, Training, train_all, train_group
from trainers.settings import paper
from trainers.settings.columns import COLUMNS, has_parameters_of_its_own
from trainers.settings.protocol import Effort, TableProtocol
from trainers.settings.runs import SmallRun
from trainers.store.files import save_arrays
from trainers.store.records import Records
from trainers.store.sharing import Piece, work_off, work_together
from trainers.studies.search import train_with_tuner
from trainers.studies.selection import select, slowed
from trainers.studies.work import Work


class Cell(NamedTuple):
    """One cell: which method on which problem, with whose parameters ("paper": those of the unweighted form)."""

    problem: str
    method: paper.Method
    parameters: str

    @property
    def name(self) -> str:
        """What its files are called."""
        return f"{self.problem}-{self.method.name}-{self.parameters}"

    @property
    def owner(self) -> paper.Method:
        """The method that the parameters are chosen for."""
        return COLUMNS[self.method.parameters_of] if self.parameters == "paper" else self.method

    def longer(self, protocol: TableProtocol) -> Effort | None:
        """Length and number of the runs, where the parameters were chosen in shorter ones."""
        return protocol.longer.get((self.problem, self.method.name)) if self.parameters == "own" else None

    def seeds(self, protocol: TableProtocol) -> int:
        """Number of the runs."""
        return (self.longer(protocol) or protocol.effort(self.problem, self.method)).seeds

    def records(self, folder: Path) -> Records:
        """The records of the runs."""
        return Records(folder / "table" / f"{self.name}.jsonl")

    def distribution(self, folder: Path) -> Path:
        """The file with the first run's log-probabilities of all states."""
        return folder / "distributions" / f"{self.name}.npz"

    def settings_used(self, folder: Path) -> SmallRun | None:
        """What the runs were trained with; None if there are none."""
        done = self.records(folder).read()
        return SmallRun.from_record(done[0]) if done else None


def cells(problems: Sequence[str], methods: Sequence[str], protocol: TableProtocol) -> list[Cell]:
    """All cells: each unweighted method and its weighted forms with the same parameters, then those with their own.

    An unweighted method is among the latter where the protocol has longer runs for it.
    """
    chosen = [COLUMNS[name] for name in methods]
    alike = [
        Cell(problem, method, "paper")
        for problem in problems
        for owner in paper.METHODS
        for method in chosen
        if method.parameters_of == owner
    ]
    own = [
        Cell(problem, method, "own")
        for problem in problems
        for method in chosen
        if has_parameters_of_its_own(problem, method) or (problem, method.name) in protocol.longer
    ]
    return alike + own


def run_cell(cell: Cell, work: Work, train: Trainer = train_all) -> list[dict[str, Any]]:
    """Chooses the parameters, trains the seeds, and keeps their records and the first one's distribution.

    Args:
        cell: the cell.
        work: protocol, folder and the rest.
        train: what trains the runs of the selection.
    """
    protocol = work.protocol.table
    records, seeds = cell.records(work.small), cell.seeds(protocol)
    done = records.read()
    if len(done) >= seeds:
        return done
    settings, rule = parameters_of(cell, work, train)
    with work.searcher.turn(work.small / "checkpoints" / f"{cell.name}.seeds.lock") as ours:
        done = records.read()
        if not ours or len(done) >= seeds:
            return done
        return run_seeds(cell, settings, rule, work)


def parameters_of(cell: Cell, work: Work, train: Trainer) -> tuple[SmallRun, str | None]:
    """The settings of a cell and the version of the rule that chose them; None for rules that records did not name."""
    protocol, owner = work.protocol.table, cell.owner
    updates = protocol.effort(cell.problem, cell.method).updates
    if alike := cell._replace(method=owner).records(work.small).read():
        settings, version = SmallRun.from_record(alike[0]), alike[0].get("rule")
    else:
        length = protocol.effort(cell.problem, owner).updates
        settings, version = select(cell.problem, owner, length, work, train), work.rule(owner).version
    if longer := cell.longer(protocol):
        updates = longer.updates
        settings = slowed(settings, updates, work.rule(owner).slowing)
    phase, steps = cell.method.negative_phase, cell.method.gibbs_steps
    return dataclasses.replace(settings, negative_phase=phase, gibbs_steps=steps, updates=updates), version


def run_seeds(cell: Cell, settings: SmallRun, rule: str | None, work: Work) -> list[dict[str, Any]]:
    """Trains one setting with several seeds side by side; keeps the records and all states' log-probabilities."""
    protocol = work.protocol.table
    seeds = cell.seeds(protocol)
    training = Training(
        protocol.seed,
        protocol.evaluations,
        work.small / "checkpoints",
        f"{cell.name}, {seeds} seeds",
        work.verbose,
        work.plan(),
    )
    result = train_group([settings] * seeds, training)
    # The distribution comes first: a cell whose records are there is finished.
    save_arrays(cell.distribution(work.small), log_probabilities=result.log_probabilities[0])
    records = [{**record, "rule": rule} for record in result.records]
    cell.records(work.small).append(*records)
    result.forget()
    return records


def run(work: Work, deadline: float = float("inf")) -> int:
    """Runs all cells that no other process is at; any number of processes may do so together.

    Args:
        work: what to work on.
        deadline: time (as of `time.time`) after which no further cell is begun.

    Returns:
        The number of cells that are still to do, here or elsewhere.
    """
    train: Trainer = functools.partial(train_with_tuner, searcher=work.searcher) if work.tuner else train_all

    def piece(cell: Cell) -> Piece:
        records, seeds = cell.records(work.small), cell.seeds(work.protocol.table)
        return Piece(
            # Two cells that need the same selection are not worked on at the same time.
            work.small / "checkpoints" / f"{cell.problem}-{cell.owner.name}.lock",
            lambda: len(records.read()) >= seeds,
            lambda: run_cell(cell, work, train),
        )

    pieces = map(piece, cells(work.problems, work.methods, work.protocol.table))
    return work_together(pieces) if work.searcher.shared else work_off(pieces, deadline)
