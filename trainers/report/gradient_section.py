"""The section of the report on the methods' steps against the exact gradient, and its figure."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tf_wcd import plots
from trainers.settings.gradient_protocol import GradientProtocol
from trainers.studies.gradients import records_of

GRADIENTS = "gradients"  # name of the figure
LOWEST = 1e-4  # lengths of the exact gradient; a bias below it is drawn there
_MEASURES = {"bias": "bias, in lengths of the gradient", "deviation": "noise, the same", "cosine": "cosine"}


def gradients_section(folder: Path, protocol: GradientProtocol) -> list[str]:
    """Bias, noise and cosine half-way along each training, on a logarithmic axis; nothing where none has been run."""
    rows = []
    for problem in protocol.problems:
        for method in protocol.methods:
            for record in records_of(problem, method, folder).read()[:1]:
                at = record["moments"][len(record["moments"]) // 2]
                rows.append(
                    f"| {problem} | {method} | {at['updates']} | {at['kl']:.3g} | {at['bias']:.2g} | "
                    f"{at['deviation']:.2g} | {at['cosine']:.2f} |"
                )
    if not rows:
        return []
    return [
        "## Steps against the exact gradient\n",
        "Each method's own step, at moments of its own training with the parameters of the table, one seed: length of "
        "the mean step minus the exact gradient (*bias*), standard deviation of a step (*noise*), both in lengths of "
        "the exact gradient, and the mean cosine between the two. Persistent chains are those of the training. The "
        "table has one moment in the middle, the figure all of them. `wcd reproduce --stage=gradients`\n",
        "| problem | method | updates | KL | bias | noise | cosine |",
        "|---" * 7 + "|",
        *rows,
        "",
        f"![{GRADIENTS}](figures/{GRADIENTS}.png)\n",
    ]


def gradients_figure(folder: Path, protocol: GradientProtocol) -> Any:
    """A row for each measure and a column for each problem; None if nothing has been run."""
    found = {
        (problem, method): record
        for problem in protocol.problems
        for method in protocol.methods
        for record in records_of(problem, method, folder).read()[:1]
    }
    problems = [problem for problem in protocol.problems if any(p == problem for p, _ in found)]
    if not problems:
        return None
    figure, panels = plots.new_figure(4.2 * len(problems), 8.4, len(problems), len(_MEASURES))
    for axes, (measure, problem) in zip(panels, ((m, p) for m in _MEASURES for p in problems), strict=True):
        for color, method in zip(plots.COLORS, protocol.methods, strict=False):
            if (problem, method) in found:
                moments = found[problem, method]["moments"]
                values = [moment[measure] for moment in moments]
                if measure == "bias":
                    values = [max(value, LOWEST) for value in values]
                axes.plot([m["updates"] for m in moments], values, ".-", color=color, label=method, linewidth=1.2)
        axes.set_xscale("log")
        if measure != "cosine":
            axes.set_yscale("log")
        axes.grid(alpha=0.3)
        if measure == "bias":
            axes.set_title(problem)
        if measure == "cosine":
            axes.set_xlabel("updates")
        if problem == problems[0]:
            axes.set_ylabel(_MEASURES[measure])
    plots.legend_below(figure)
    return figure
