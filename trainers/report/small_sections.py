"""The sections of the report on the small problems."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np

from trainers.report.cells import nats, reaches, result_of
from trainers.report.weights_sections import recipe_results
from trainers.settings import paper
from trainers.settings.columns import COLUMNS
from trainers.settings.protocol import GeneralisationProtocol
from trainers.settings.weights_protocol import WeightsProtocol
from trainers.studies.best import records_of as best_records
from trainers.studies.generalisation import records_of


def table_section(folder: Path) -> list[str]:
    """The table beside the paper's, and what reaches it."""
    columns = [(name, "paper") for name in paper.METHODS]
    tally = Tally()
    for problem, name in paper.TABLE:
        tally.add(folder, problem, paper.METHODS[name])
    return [
        "## The table\n",
        "Weighted methods with the parameters chosen for their unweighted forms, as in the paper. A tick: at most the "
        "paper's mean plus two standard deviations (weighted), at most twice its mean (unweighted).\n",
        *_grid(folder, columns),
        "\nWeighted methods with parameters chosen for themselves:\n",
        *_grid(folder, [(name, "own") for name, method in paper.METHODS.items() if method.weighted]),
        "",
        *tally.lines(),
        "",
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

    def add(self, folder: Path, problem: str, method: paper.Method) -> None:
        """Counts a cell, with both kinds of parameters if it is weighted."""
        name = method.name
        theirs = result_of(folder, problem, name, "paper")
        own = result_of(folder, problem, name, "own") if method.weighted else None
        if theirs:
            self.kinds["weighted" if method.weighted else "unweighted"].add(reaches(theirs, problem, name))
        if own:
            self.kinds["weighted, own"].add(reaches(own, problem, name))
        met = any(result is not None and reaches(result, problem, name) for result in (theirs, own))
        if method.weighted and (theirs or own):
            self.kinds["weighted, either"].add(met)
        if theirs and not met:
            kind = "weighted, either" if method.weighted else "unweighted"
            self.kinds[kind].exceptions.append(f"{problem} {name}")
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


def _grid(folder: Path, columns: list[tuple[str, str]]) -> list[str]:
    lines = [
        "| | " + " | ".join(f"{name} ours | theirs" for name, _ in columns) + " |",
        "|---" * (2 * len(columns) + 1) + "|",
    ]
    for problem in paper.PROBLEMS:
        row = [problem]
        for name, parameters in columns:
            ours = result_of(folder, problem, name, parameters)
            row.append("not run" if ours is None else f"{ours}{' ✓' if reaches(ours, problem, name) else ''}")
            row.append("{:.4f} ({:.4f})".format(*paper.TABLE[problem, name]))
        lines.append("| " + " | ".join(row) + " |")
    return lines


def settings_section(folder: Path) -> list[str]:
    """The parameters of each cell."""
    lines = [
        "## Settings of each cell\n",
        "KL is the lowest and the highest minimum of the seeds.\n",
        "| problem | method | parameters | hidden | rate | variance | schedule | momentum | decay | updates | epochs | "
        "seeds | seconds a run | lowest KL | highest KL |",
        "|---" * 15 + "|",
    ]
    for problem, name in itertools.product(paper.PROBLEMS, COLUMNS):
        for parameters in ("paper", "own"):
            result = result_of(folder, problem, name, parameters)
            if result is None:
                continue
            r = result.record
            batches = 4096 / paper.BATCH_SIZE if problem in paper.BATCHED else 1
            lines.append(
                f"| {problem} | {name} | {parameters} | {r['hidden']} | {r['learning_rate']:g} | {r['variance']:g} | "
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
    lower = np.zeros(2, int)
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
        is_lower = np.array([kl < theirs for kl, _ in best])
        lower += is_lower
        cells = [f"{kl:.2g} | {title}" for kl, title in best] + [f"{theirs:.4f}", *np.where(is_lower, "yes", "no")]
        lines.append(f"| {problem} | {' | '.join(cells)} |")
    return [*lines, f"\nLower in {lower[0]} of {len(paper.PROBLEMS)}; the mean in {lower[1]}.\n"]


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
