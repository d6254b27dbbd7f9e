"""The section of the report on the columns that we add to the paper's table."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import NamedTuple

from trainers.report.cells import CellResult, grid_of, nats, reaches, result_of
from trainers.report.small_sections import Count
from trainers.settings import paper
from trainers.settings.columns import BESIDE, COLUMNS, CONSISTENT, OURS


def columns_section(folder: Path) -> list[str]:
    """Ours beside the paper's, all with the parameters of an unweighted method; nothing where none has been run."""
    results = results_of(folder)
    if not results:
        return []
    lines = [
        "## Weights that the paper does not have\n",
        "Balanced weights (BCD), Jarzynski's (JPCD), and WCD with k = 0, with the parameters chosen for CD_1, CD_10 "
        "and PCD: the paper's protocol for its weighted forms. In a cell: ours; below it the paper's figure for the "
        "weighted form of the same chains. A tick: at most the paper's mean plus two standard deviations. WCD_0 "
        "compares the examples with each other alone, which is right only where all states are listed (the last three "
        "problems).\n",
        *grid_of(folder, [(f"{name}<br>(theirs: {BESIDE[name]})", name, "paper") for name in OURS]),
        "",
    ]
    counts = column_counts(folder)
    return [
        *lines,
        f"- Cells of BCD_1, BCD_10 and JPCD that reach the paper's weighted forms: {counts.bar}",
        f"- BCD_k better than CD_k with the same parameters: {counts.plain}",
        f"- BCD_k better than WCD_k with the same parameters: {counts.weighted}",
        "",
        *_own_parameters(folder),
    ]


def _own_parameters(folder: Path) -> list[str]:
    """The same with parameters chosen for themselves; nothing where none has been run."""
    met = Count()
    for problem, name in itertools.product(paper.PROBLEMS, OURS):
        if found := result_of(folder, problem, name, "own"):
            met.add(reaches(found, problem, name))
            if not reaches(found, problem, name):
                met.exceptions.append(f"{problem} {name}")
    if not met.all:
        return []
    return [
        "With parameters chosen for themselves by one rule (rates, variances and decay; five hidden units for each "
        "visible one, rates that fall to zero):\n",
        *grid_of(folder, [(f"{name}<br>(theirs: {BESIDE[name]})", name, "own") for name in OURS]),
        "",
        f"- Cells that reach the paper's weighted forms: {met}",
        "",
    ]


def results_of(folder: Path) -> dict[tuple[str, str], CellResult]:
    """The cells that have been run, by problem and method."""
    return {
        (problem, name): found
        for problem in paper.PROBLEMS
        for name in OURS
        if (found := result_of(folder, problem, name, "paper"))
    }


class ColumnCounts(NamedTuple):
    """How many cells of BCD_1, BCD_10 and JPCD reach the paper's weighted forms, and how many are better than others.

    Attributes:
        bar: those that reach the paper's mean plus two standard deviations.
        plain: BCD_k against CD_k with the same parameters.
        weighted: BCD_k against WCD_k with the same parameters.
    """

    bar: Count
    plain: Count
    weighted: Count


def column_counts(folder: Path) -> ColumnCounts:
    """Counts the cells that have been run."""
    bar, plain, weighted = Count(), Count(), Count()

    def compare(count: Count, problem: str, name: str, ours: CellResult, other: str) -> None:
        theirs = result_of(folder, problem, other, "paper")
        if theirs is not None:
            count.add(ours.mean < theirs.mean)
            if ours.mean >= theirs.mean:
                count.exceptions.append(f"{problem} {name} {nats(ours.mean)} against {nats(theirs.mean)}")

    for (problem, name), ours in results_of(folder).items():
        if name not in CONSISTENT:
            continue
        met = reaches(ours, problem, name)
        bar.add(met)
        if not met:
            bar.exceptions.append(f"{problem} {name}")
        if name != "JPCD":
            compare(plain, problem, name, ours, COLUMNS[name].parameters_of)
            compare(weighted, problem, name, ours, BESIDE[name])
    return ColumnCounts(bar, plain, weighted)
