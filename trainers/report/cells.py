"""What the records say of a cell of the table, and whether it reaches the paper."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from trainers.settings import paper
from trainers.settings.columns import BESIDE, COLUMNS
from trainers.studies.table import Cell


class CellResult(NamedTuple):
    """Mean and standard deviation of the minimum KL over seeds."""

    mean: float
    deviation: float
    seeds: int
    record: dict[str, Any]
    lowest: float
    highest: float

    def __str__(self) -> str:
        return f"{nats(self.mean)} ({nats(self.deviation)})"


def nats(kl: float) -> str:
    """Four decimals, as the paper has them, unless they would all be zero."""
    return f"{kl:.4f}" if kl == 0 or kl >= 5e-5 else f"{kl:.1e}"


def result_of(folder: Path, problem: str, method: str, parameters: str) -> CellResult | None:
    """What the seeds of a cell gave; None if it has not been run."""
    return summary(Cell(problem, COLUMNS[method], parameters).records(folder).read())


def summary(records: Sequence[dict[str, Any]]) -> CellResult | None:
    """What runs that differ by their seeds gave; None if there are none."""
    if not records:
        return None
    values = [np.inf if record["min_kl"] is None else record["min_kl"] for record in records]
    mean, deviation = float(np.mean(values)), float(np.std(values, ddof=1))
    return CellResult(mean, deviation, len(values), records[0], min(values), max(values))


def reaches(result: CellResult, problem: str, method: str) -> bool:
    """Whether a cell reproduces the paper.

    A weighted method: at most the paper's mean plus two standard deviations, of the column that it stands beside where
    it is one of ours. An unweighted one: at most twice its mean.
    """
    mean, deviation = paper.TABLE[problem, BESIDE.get(method, method)]
    return result.mean <= (mean + 2 * deviation if COLUMNS[method].weighted else 2 * mean)


def grid_of(folder: Path, columns: Sequence[tuple[str, str, str]]) -> list[str]:
    """A table with a line for each problem: ours, and below it the paper's.

    Args:
        folder: of the small problems.
        columns: title, method, and with whose parameters.
    """
    lines = ["| | " + " | ".join(title for title, *_ in columns) + " |", "|---" * (len(columns) + 1) + "|"]
    for problem in paper.PROBLEMS:
        row = [beside_theirs(folder, problem, name, parameters) for _, name, parameters in columns]
        lines.append(f"| {problem} | {' | '.join(row)} |")
    return lines


def beside_theirs(folder: Path, problem: str, method: str, parameters: str) -> str:
    """A cell of a table: ours with a tick where it reaches the paper, and below it the paper's."""
    result = result_of(folder, problem, method, parameters)
    mean, deviation = paper.TABLE[problem, BESIDE.get(method, method)]
    tick = " ✓" if result is not None and reaches(result, problem, method) else ""
    ours = "not run" if result is None else f"**{nats(result.mean)}** ({nats(result.deviation)}){tick}"
    return f"{ours}<br>{mean:.4f} ({deviation:.4f})"
