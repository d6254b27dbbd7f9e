"""Figures of the report on weights that are right."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from tf_wcd import plots
from trainers.report.weights_sections import likelihood_of
from trainers.settings import paper
from trainers.settings.weights_protocol import EqualTimeProtocol, WeightsProtocol
from trainers.studies.equal_time import runs_done
from trainers.studies.table import Cell
from trainers.studies.weights import records_of

# Where a KL is nothing but rounding.
LOWEST = 1e-7
_STYLES = {"BCD_1": plots.COLORS[2], "WCD_0": plots.COLORS[4]}
_FROM_THE_TABLE = {
    "CD_1": (plots.COLORS[0], "CD_1, its best parameters"),
    "WCD_1": (plots.COLORS[1], "WCD_1, the same"),
}


def weights_figure(folder: Path, protocol: WeightsProtocol) -> Any:
    """KL along training, a panel for each problem and a line for each seed; None if nothing has been run.

    CD_1 with its own best parameters, and WCD_1 with the same, are drawn from the records of the table.
    """
    done = {recipe: records_of(recipe, folder).read() for recipe in protocol.recipes}
    problems = [p for p in paper.PROBLEMS if any(recipe.problem == p and found for recipe, found in done.items())]
    if not problems:
        return None
    columns = min(3, len(problems))
    rows = -(-len(problems) // columns)
    figure, all_axes = plots.new_figure(4.2 * columns, 3 * rows, columns, rows)
    for axes in all_axes[len(problems) :]:
        axes.set_visible(False)
    for axes, problem in zip(all_axes, problems, strict=False):
        for name, (color, label) in _FROM_THE_TABLE.items():
            records = Cell(problem, paper.METHODS[name], "paper").records(folder).read()
            _draw(axes, records[:1], color, label)
        for recipe, records in done.items():
            if recipe.problem == problem:
                _draw(axes, records, _STYLES[recipe.method], recipe.method)
        theirs = min(paper.TABLE[problem, name][0] for name in paper.METHODS)
        axes.axhline(theirs, color="black", linestyle="--", linewidth=1, label="the paper's best")
        axes.set(xscale="log", yscale="log", title=problem, xlabel="updates")
        axes.grid(alpha=0.3)
    for axes in all_axes[::columns]:
        axes.set_ylabel("KL(target || model), nats")
    plots.legend_below(figure)
    return figure


def _draw(axes: Any, records: list[dict[str, Any]], color: str, label: str) -> None:
    for i, record in enumerate(records):
        curve = np.array([(at, max(kl, LOWEST)) for at, kl in record["curve"] if kl is not None and at > 0])
        axes.plot(*curve.T, color=color, linewidth=1.1, alpha=0.8, label=None if i else label)


def equal_time_figure(folder: Path, protocol: EqualTimeProtocol) -> Any:
    """Log-likelihood of the test images, a panel for each rate: a mark for each seed, a bar between the bounds."""
    records = runs_done(folder).read()
    if not records:
        return None
    figure, all_axes = plots.new_figure(4 * len(protocol.rates), 3.8, columns=len(protocol.rates))
    for axes, rate in zip(all_axes, protocol.rates, strict=True):
        for i, method in enumerate(protocol.methods):
            found = likelihood_of(records, method, rate)
            if found is None:
                continue
            color = plots.COLORS[i % len(plots.COLORS)]
            axes.bar(i, found.high - found.low, bottom=found.low, width=0.7, color=color, alpha=0.35)
            axes.plot([i] * len(found.values), found.values, "o", color=color, markersize=5)
            axes.annotate(f"{found.mean:.1f}", (i, max(found.high, found.low)), (0, 6), textcoords="offset points",
                          ha="center", fontsize=8)  # fmt: skip
        axes.set_xticks(
            range(len(protocol.methods)), [m.label.replace(", ", "\n") for m in protocol.methods], fontsize=7
        )
        axes.set_title(f"rate {rate:g}")
        axes.use_sticky_edges = False  # or bars would take the margins away
        axes.margins(y=0.15)
        axes.set_xlim(-0.6, len(protocol.methods) - 0.4)
        axes.grid(axis="y", alpha=0.3)
    all_axes[0].set_ylabel("log-likelihood of the test images, nats")
    figure.suptitle(f"{protocol.data}: all methods for the same time; bars between reverse AIS and AIS, a dot a seed")
    return figure
