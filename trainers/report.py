"""``REPORT.md``: what was measured beside what the paper says, made from the records."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from trainers import paper
from trainers.figures import label_of, write_figures
from trainers.records import Records


class Figure(NamedTuple):
    """Mean and standard deviation of the minimum KL over seeds."""

    mean: float
    deviation: float
    seeds: int
    record: dict[str, Any]
    lowest: float
    highest: float

    def __str__(self) -> str:
        return f"{_nats(self.mean)} ({_nats(self.deviation)})"


def _nats(kl: float) -> str:
    """Four decimals, as the paper has them, unless they would all be zero."""
    return f"{kl:.4f}" if kl == 0 or kl >= 5e-5 else f"{kl:.1e}"


def figure_of(folder: Path, problem: str, method: str, parameters: str) -> Figure | None:
    """What the seeds of a cell gave; None if it has not been run."""
    records = Records(folder / "table" / f"{problem}-{method}-{parameters}.jsonl").read()
    if not records:
        return None
    values = [np.inf if record["min_kl"] is None else record["min_kl"] for record in records]
    mean, deviation = float(np.mean(values)), float(np.std(values, ddof=1))
    return Figure(mean, deviation, len(values), records[0], min(values), max(values))


def reaches(figure: Figure, problem: str, method: str) -> bool:
    """Whether a cell reproduces the paper.

    A weighted method: at most the paper's mean plus two standard deviations. An unweighted one: at most twice its mean.
    """
    mean, deviation = paper.TABLE[problem, method]
    return figure.mean <= (mean + 2 * deviation if paper.METHODS[method].weighted else 2 * mean)


def write_report(folder: Path) -> Path:
    """Writes ``REPORT.md`` and its figures; returns its path."""
    folder = Path(folder)
    drawn = write_figures(folder)
    parts = [
        "# The paper, reproduced\n",
        "Made by `wcd reproduce --stage=report` from the records beside it. KL in nats; *ours* is the mean over seeds "
        "(standard deviation in brackets) of the minimum along a run, *theirs* the same in the paper. All units are "
        "spins (+1, -1).\n",
        *table_section(folder / "small"),
        *settings_section(folder / "small"),
        *best_section(folder / "small"),
        *generalisation_section(folder / "small"),
        *large_section(folder / "large"),
        *variants_section(folder / "large"),
    ]
    notes = folder / "NOTES.md"
    if notes.exists():
        parts += [notes.read_text()]
    parts += ["## Figures\n", *(f"![{path.stem}](figures/{path.name})\n" for path in drawn)]
    for picture in sorted((folder / "large" / "figures").glob("*.png")):
        parts.append(f"{picture.stem}\n\n![{picture.stem}](large/figures/{picture.name})\n")
    report = folder / "REPORT.md"
    report.write_text("\n".join(parts))
    return report


def table_section(folder: Path) -> list[str]:
    columns = [(name, "paper") for name in paper.METHODS]
    lines = [
        "## The table\n",
        "Weighted methods with the parameters chosen for their unweighted forms, as in the paper. A tick: at most the "
        "paper's mean plus two standard deviations (weighted), at most twice its mean (unweighted).\n",
        *_grid(folder, columns),
        "\nWeighted methods with parameters chosen for themselves:\n",
        *_grid(folder, [(name, "own") for name, method in paper.METHODS.items() if method.weighted]),
        "",
    ]
    counts = {"unweighted": [0, 0], "weighted": [0, 0], "weighted, own": [0, 0], "weighted, either": [0, 0]}
    better = [0, 0]
    missed: dict[str, list[str]] = {"unweighted": [], "weighted, either": []}
    not_better = []
    for problem, name in paper.TABLE:
        method = paper.METHODS[name]
        theirs = figure_of(folder, problem, name, "paper")
        own = figure_of(folder, problem, name, "own") if method.weighted else None
        kind = "weighted" if method.weighted else "unweighted"
        if theirs:
            _count(counts[kind], reaches(theirs, problem, name))
        if own:
            _count(counts["weighted, own"], reaches(own, problem, name))
        met = any(figure is not None and reaches(figure, problem, name) for figure in (theirs, own))
        if method.weighted and (theirs or own):
            _count(counts["weighted, either"], met)
        if theirs and not met:
            missed["weighted, either" if method.weighted else kind].append(f"{problem} {name}")
        plain = figure_of(folder, problem, method.parameters_of, "paper")
        if (
            name in ("WCD_1", "WCD_10")
            and paper.TABLE[problem, name][0] < paper.TABLE[problem, method.parameters_of][0]
        ):
            best = min((f.mean for f in (theirs, own) if f), default=None)
            if best is not None and plain:
                _count(better, best < plain.mean)
                if best >= plain.mean:
                    not_better.append(f"{problem} {name} {_nats(best)} against {_nats(plain.mean)}")
    lines += [
        f"- Cells that reach the bar, {kind}: {met} of {all_}{_but(missed.get(kind))}"
        for kind, (met, all_) in counts.items()
    ]
    lines += [f"- WCD_k better than CD_k where the paper says so: {better[0]} of {better[1]}{_but(not_better)}", ""]
    return lines


def _but(exceptions: list[str] | None) -> str:
    return f" (not {', '.join(exceptions)})" if exceptions else ""


def _count(counter: list[int], met: bool) -> None:
    counter[0] += met
    counter[1] += 1


def _grid(folder: Path, columns: list[tuple[str, str]]) -> list[str]:
    lines = [
        "| | " + " | ".join(f"{name} ours | theirs" for name, _ in columns) + " |",
        "|---" * (2 * len(columns) + 1) + "|",
    ]
    for problem in paper.PROBLEMS:
        row = [problem]
        for name, parameters in columns:
            ours = figure_of(folder, problem, name, parameters)
            row.append("not run" if ours is None else f"{ours}{' ✓' if reaches(ours, problem, name) else ''}")
            row.append("{:.4f} ({:.4f})".format(*paper.TABLE[problem, name]))
        lines.append("| " + " | ".join(row) + " |")
    return lines


def settings_section(folder: Path) -> list[str]:
    lines = [
        "## Settings of each cell\n",
        "KL is the lowest and the highest minimum of the seeds.\n",
        "| problem | method | parameters | hidden | rate | variance | schedule | momentum | decay | updates | epochs | "
        "seeds | seconds a run | lowest KL | highest KL |",
        "|---" * 15 + "|",
    ]
    for problem, name in paper.TABLE:
        for parameters in ("paper", "own"):
            figure = figure_of(folder, problem, name, parameters)
            if figure is None:
                continue
            r = figure.record
            batches = {True: 4096 / paper.BATCH_SIZE, False: 1}[problem in paper.BATCHED]
            lines.append(
                f"| {problem} | {name} | {parameters} | {r['hidden']} | {r['learning_rate']:g} | {r['variance']:g} | "
                f"{r['schedule']} | {r['momentum']:g} | {r.get('weight_decay', 0):g} | {r['updates']} | "
                f"{r['updates'] / batches:.0f} | {figure.seeds} | {r['seconds']:.0f} | "
                f"{_nats(figure.lowest)} | {_nats(figure.highest)} |"
            )
    return [*lines, ""]


def best_section(folder: Path) -> list[str]:
    lines = [
        "## The lowest KL with any method\n",
        "| problem | best run | method | best mean of a cell | method | the paper's best | run lower | mean lower |",
        "|---" * 8 + "|",
    ]
    lower = np.zeros(2, int)
    for problem in paper.PROBLEMS:
        names = {(name, own): f"{name}, {own} parameters" for name in paper.METHODS for own in ("paper", "own")}
        figures = [(figure_of(folder, problem, *cell), title) for cell, title in names.items()]
        means = [(figure.mean, title) for figure, title in figures if figure]
        runs = [(figure.lowest, title) for figure, title in figures if figure]
        exact = [r["min_kl"] for r in Records(folder / "best" / f"{problem}.jsonl").read() if r["min_kl"] is not None]
        runs += [(kl, "exact gradient") for kl in exact]
        theirs = min(paper.TABLE[problem, name][0] for name in paper.METHODS)
        best = [min(group, default=(np.nan, "not run")) for group in (runs, means)]
        is_lower = np.array([kl < theirs for kl, _ in best])
        lower += is_lower
        cells = [f"{kl:.2g} | {title}" for kl, title in best] + [f"{theirs:.4f}", *np.where(is_lower, "yes", "no")]
        lines.append(f"| {problem} | {' | '.join(cells)} |")
    return [*lines, f"\nLower in {lower[0]} of {len(paper.PROBLEMS)}; the mean in {lower[1]}.\n"]


def generalisation_section(folder: Path) -> list[str]:
    from trainers.generalisation import FRACTIONS, METHODS

    lines = [
        "## Generalisation\n",
        "Trained on a part of the states; the model with the lowest KL on that part is then compared with the *whole* "
        "target. Mean of the seeds (standard deviation).\n",
        "| problem | method | " + " | ".join(f"{round(100 * f)} %" for f in FRACTIONS) + " |",
        "|---" * (len(FRACTIONS) + 2) + "|",
    ]
    for problem in paper.BATCHED:
        for method in METHODS:
            row = [problem, method]
            for fraction in FRACTIONS:
                path = folder / "generalisation" / f"{problem}-{method}-{round(100 * fraction)}.jsonl"
                values = [record["full_kl"] for record in Records(path).read()]
                row.append(f"{_nats(np.mean(values))} ({_nats(np.std(values, ddof=1))})" if values else "not run")
            lines.append("| " + " | ".join(row) + " |")
    return [*lines, ""]


def large_section(folder: Path) -> list[str]:
    records = Records(folder / "runs.jsonl").read()
    if not records:
        return []
    lines = [
        "## Image sets\n",
        "Parzen log-likelihood of the test images under 10^4 and 10^5 samples; log-likelihoods of the test images by "
        "AIS (too high on average) and reverse AIS (too low on average, if its chains start from samples of the model: "
        "where it is the higher one they did not); effective sample size at the end as a fraction of the chains.\n",
        "| data | method | rate | epochs | Parzen 10^4 | 10^5 | AIS | reverse AIS | ESS | minutes |",
        "|---" * 10 + "|",
    ]
    for record in records:
        settings, parzen = record["settings"], dict(zip(*record["parzen"].values(), strict=True))
        low, high = record["annealed"]["test"]
        lines.append(
            f"| {settings['data']} | {label_of(record)} | {settings['learning_rate']:g} | {settings['epochs']} | "
            f"{parzen[10_000]:.1f} | {parzen[100_000]:.1f} | {high:.1f} | {low:.1f} | {record['ess'][-1][1]:.2f} | "
            f"{record['training_seconds'] / 60:.0f} |"
        )
    return [*lines, ""]


def variants_section(folder: Path) -> list[str]:
    """The best rate of each method with other units and the plain gradient, after the first round on the mesh."""
    from trainers.large_sets import METHODS, TASKS, VARIANTS

    task = TASKS["ocr_letters"]
    epochs = task.mesh_epochs[0]
    records = [r for r in Records(folder / "selection" / f"{task.name}.jsonl").read() if r["parzen"] is not None]
    rows = []
    for variant in VARIANTS:
        for method in METHODS:
            wanted = {"method": method, "units": variant.units, "centered": variant.centered, "epochs": epochs}
            mine = [r for r in records if wanted.items() <= r["settings"].items()]
            if not mine:
                continue
            by_parzen = max(mine, key=lambda r: r["parzen"])
            by_annealing = max(mine, key=lambda r: r["annealed"])
            rows.append(
                f"| {label_of(by_parzen)} | {by_parzen['parzen']:.1f} | {by_parzen['settings']['learning_rate']:g} | "
                f"{by_parzen['ess']:.2f} | {by_annealing['annealed']:.1f} | "
                f"{by_annealing['settings']['learning_rate']:g} | {by_annealing['ess']:.2f} |"
            )
    if not rows:
        return []
    return [
        "## Units and gradients\n",
        f"{task.title}, {epochs} epochs, validation images: for each method the largest Parzen log-likelihood (5000 "
        "samples) over the mesh of rates, with its rate and effective sample size, and the largest one by AIS "
        "(which errs upwards), with its own.\n",
        "| method (units) | Parzen | rate | ESS | AIS | rate | ESS |",
        "|---" * 7 + "|",
        *rows,
        "",
    ]
