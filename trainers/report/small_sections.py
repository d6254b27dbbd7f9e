"""The sections of the report on the small problems."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import NamedTuple

import numpy as np

from trainers.report.cells import grid_of, nats, reaches, result_of
from trainers.report.weights_sections import recipe_results
from trainers.settings import paper
from trainers.settings.columns import COLUMNS
from trainers.settings.protocol import GeneralisationProtocol
from trainers.settings.weights_protocol import WeightsProtocol
from trainers.studies.best import records_of as best_records
from trainers.studies.generalisation import records_of


def table_section(folder: Path) -> list[str]:
    """The table beside the paper's, and what reaches it."""
    weighted = [name for name, method in paper.METHODS.items() if method.weighted]
    return [
        "## The table\n",
        "KL in nats, the minimum along a run: mean over the seeds (standard deviation). In a cell **ours**, and below "
        "it the paper's. Weighted methods have the parameters chosen for their unweighted forms, as in the paper. A "
        "tick: at most the paper's mean plus two standard deviations (weighted), at most twice its mean "
        "(unweighted).\n",
        *grid_of(folder, [(name, name, "paper") for name in paper.METHODS]),
        "\nWeighted methods with parameters chosen for themselves:\n",
        *grid_of(folder, [(name, name, "own") for name in weighted]),
        "",
        *_longer_runs(folder),
        *Tally.of(folder).lines(),
        "",
    ]


def _longer_runs(folder: Path) -> list[str]:
    """Cells of unweighted methods with runs as long as the paper's; nothing where none has been run."""
    plain = [name for name, method in paper.METHODS.items() if not method.weighted]
    found = {cell: result_of(folder, *cell, "own") for cell in itertools.product(paper.PROBLEMS, plain)}
    return [
        f"{problem} {name} with {result.record['updates']:,} updates, as in the paper, and parameters chosen anew: "
        f"**{result}**, theirs {paper.TABLE[problem, name][0]:.4f} ({paper.TABLE[problem, name][1]:.4f}).\n"
        for (problem, name), result in found.items()
        if result
    ]


class Count:
    """How many of the cells do something, and which do not."""

    def __init__(self) -> None:
        self.met = self.all = 0
        self.exceptions: list[str] = []

    def add(self, met: bool) -> None:
        """Counts one cell."""
        self.met += met
        self.all += 1

    def __str__(self) -> str:
        exceptions = f" (not {', '.join(self.exceptions)})" if self.exceptions else ""
        return f"{self.met} of {self.all}{exceptions}"


class Tally:
    """Counts the cells that reach the paper, and where weights help as it says."""

    def __init__(self) -> None:
        self.kinds = {kind: Count() for kind in ("unweighted", "weighted", "weighted, own", "weighted, either")}
        self.better = Count()

    @classmethod
    def of(cls, folder: Path) -> Tally:
        """All cells of the table."""
        tally = cls()
        for problem, name in paper.TABLE:
            tally.add(folder, problem, paper.METHODS[name])
        return tally

    def add(self, folder: Path, problem: str, method: paper.Method) -> None:
        """Counts a cell, with both kinds of parameters if it has them."""
        name = method.name
        theirs, own = (result_of(folder, problem, name, parameters) for parameters in ("paper", "own"))
        if method.weighted and theirs:
            self.kinds["weighted"].add(reaches(theirs, problem, name))
        if method.weighted and own:
            self.kinds["weighted, own"].add(reaches(own, problem, name))
        if theirs or own:
            either = self.kinds["weighted, either" if method.weighted else "unweighted"]
            met = any(result is not None and reaches(result, problem, name) for result in (theirs, own))
            either.add(met)
            if not met:
                either.exceptions.append(f"{problem} {name}")
        best = min((result.mean for result in (theirs, own) if result), default=None)
        if best is not None and name in ("WCD_1", "WCD_10"):
            self._compare(folder, problem, method, best)

    def _compare(self, folder: Path, problem: str, method: paper.Method, best: float) -> None:
        """Counts a weighted method where the paper says that it is better than the unweighted one."""
        plain = result_of(folder, problem, method.parameters_of, "paper")
        if plain and paper.TABLE[problem, method.name][0] < paper.TABLE[problem, method.parameters_of][0]:
            self.better.add(best < plain.mean)
            if best >= plain.mean:
                self.better.exceptions.append(f"{problem} {method.name} {nats(best)} against {nats(plain.mean)}")

    def lines(self) -> list[str]:
        """What was counted."""
        return [
            *(f"- Cells that reach the bar, {kind}: {count}" for kind, count in self.kinds.items()),
            f"- WCD_k better than CD_k where the paper says so: {self.better}",
        ]


def settings_section(folder: Path) -> list[str]:
    """The parameters of each cell."""
    lines = [
        "## Settings of each cell\n",
        "KL is the lowest and the highest minimum of the seeds. *Rule*: the version of the one rule by which the "
        "parameters were chosen (`trainers/settings/grids.py`); *earlier*: from before there was one, see above.\n",
        "| problem | method | parameters | rule | hidden | rate | variance | schedule | momentum | decay | updates | "
        "epochs | seeds | seconds a run | lowest KL | highest KL |",
        "|---" * 16 + "|",
    ]
    for problem, name in itertools.product(paper.PROBLEMS, COLUMNS):
        for parameters in ("paper", "own"):
            result = result_of(folder, problem, name, parameters)
            if result is None:
                continue
            r = result.record
            batches = 4096 / paper.BATCH_SIZE if problem in paper.BATCHED else 1
            rule = r.get("rule") or "earlier"
            lines.append(
                f"| {problem} | {name} | {parameters} | {rule} | {r['hidden']} | "
                f"{r['learning_rate']:g} | {r['variance']:g} | "
                f"{r['schedule']} | {r['momentum']:g} | {r.get('weight_decay', 0):g} | {r['updates']} | "
                f"{r['updates'] / batches:.0f} | {result.seeds} | {r['seconds']:.0f} | "
                f"{nats(result.lowest)} | {nats(result.highest)} |"
            )
    return [*lines, ""]


def best_section(folder: Path, protocol: WeightsProtocol) -> list[str]:
    """The lowest KL of any run, and of any cell."""
    lines = [
        "## The lowest KL with any method\n",
        "| problem | best run | method | best mean of a cell | method | the paper's best | run lower | mean lower |",
        "|---" * 8 + "|",
    ]
    for problem, best in lowest(folder, protocol).items():
        lines.append(
            f"| {problem} | {best.run:.2g} | {best.of_run} | {best.mean:.2g} | {best.of_mean} | {best.theirs:.4f} | "
            f"{'yes' if best.run < best.theirs else 'no'} | {'yes' if best.mean < best.theirs else 'no'} |"
        )
    return [*lines, f"\n{lowest_counts(folder, protocol)}.\n"]


class Lowest(NamedTuple):
    """The lowest KL on a problem: of a run, and of the mean of a cell, with their methods, and the paper's best."""

    run: float
    of_run: str
    mean: float
    of_mean: str
    theirs: float


def lowest_counts(folder: Path, protocol: WeightsProtocol) -> str:
    """On how many problems the lowest KL is below the paper's best."""
    found = lowest(folder, protocol).values()
    runs, means = sum(best.run < best.theirs for best in found), sum(best.mean < best.theirs for best in found)
    return f"Lower in {runs} of {len(found)}; the mean in {means}"


def lowest(folder: Path, protocol: WeightsProtocol) -> dict[str, Lowest]:
    """The lowest KL of each problem, in the table, by the recipe of consistent weights, or by the exact gradient."""
    found = {}
    for problem in paper.PROBLEMS:
        names = {(name, own): f"{name}, {own} parameters" for name in COLUMNS for own in ("paper", "own")}
        results = [(result_of(folder, problem, *cell), title) for cell, title in names.items()]
        results += [
            (result.minimum, f"{result.recipe.method}, the recipe")
            for result in recipe_results(folder, protocol)
            if result.recipe.problem == problem
        ]
        means = [(result.mean, title) for result, title in results if result]
        runs = [(result.lowest, title) for result, title in results if result]
        exact = [r["min_kl"] for r in best_records(problem, folder).read() if r["min_kl"] is not None]
        runs += [(kl, "exact gradient") for kl in exact]
        theirs = min(paper.TABLE[problem, name][0] for name in paper.METHODS)
        best = [min(group, default=(np.nan, "not run")) for group in (runs, means)]
        found[problem] = Lowest(*best[0], *best[1], theirs)
    return found


def generalisation_section(folder: Path, protocol: GeneralisationProtocol) -> list[str]:
    """Training on a part of the states."""
    lines = [
        "## Generalisation\n",
        "Trained on a part of the states; the model with the lowest KL on that part is then compared with the *whole* "
        "target. Mean of the seeds (standard deviation).\n",
        "| problem | method | " + " | ".join(f"{round(100 * f)} %" for f in protocol.fractions) + " |",
        "|---" * (len(protocol.fractions) + 2) + "|",
    ]
    for problem in paper.BATCHED:
        for method in protocol.methods:
            row = [problem, method]
            for fraction in protocol.fractions:
                values = [record["full_kl"] for record in records_of(problem, method, fraction, folder).read()]
                row.append(f"{nats(np.mean(values))} ({nats(np.std(values, ddof=1))})" if values else "not run")
            lines.append("| " + " | ".join(row) + " |")
    return [*lines, ""]
