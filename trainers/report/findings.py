"""The first screen of the report: what holds, what does not, and what to do instead, counted from the records."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from tf_wcd import plots
from trainers.report.cells import CellResult, result_of
from trainers.report.column_sections import column_counts, results_of
from trainers.report.image_cells import gains, image_cells
from trainers.report.small_sections import Count, Tally, lowest_counts
from trainers.settings import paper
from trainers.settings.protocol import Protocol
from trainers.settings.record_protocol import RecordRun
from trainers.settings.runs import ImageMethod
from trainers.studies.generalisation import records_of
from trainers.studies.records import deep_records, records

FLOOR = 1e-5  # nats; below it a KL on the figure is nothing but rounding


def findings_section(folder: Path, protocol: Protocol) -> list[str]:
    """The findings, each with the command that its figures come from."""
    small, large = folder / "small", folder / "large"
    return ["## Findings\n", *(f"- {line}" for line in _findings(small, large, protocol)), ""]


def _findings(small: Path, large: Path, protocol: Protocol) -> list[str]:
    kinds = Tally.of(small).kinds
    lines = [
        f"**Unweighted methods are as the paper says, or better**: {_counted(kinds['unweighted'])} cells within twice "
        "its mean, with fewer updates. `wcd reproduce --stage=table`",
        f"**The paper's weights, with the parameters that suit CD, do not give its figures**: "
        f"{_counted(kinds['weighted'])} cells. With parameters of their own or these, "
        f"{_counted(kinds['weighted, either'])} do. The same command.",
    ]
    if results_of(small):
        counts = column_counts(small)
        lines.append(
            f"**Weights that are right do**, with those same parameters: {_counted(counts.bar)} cells of BCD_1, BCD_10 "
            f"and JPCD reach the paper's weighted forms. BCD_k is better than CD_k in {_counted(counts.plain)}, and "
            f"than WCD_k in {_counted(counts.weighted)}. `wcd reproduce --stage=table "
            "--methods=BCD_1,BCD_10,JPCD,WCD_0`"
        )
    lines.append(
        f"**The lowest KL against the paper's best**: {lowest_counts(small, protocol.weights).lower()}. "
        "`wcd reproduce --stage=weights,best`"
    )
    if generalised := _generalised(small, protocol):
        lines.append(generalised)
    return [*lines, *_image_findings(large, protocol)]


def _counted(count: Count) -> str:
    return f"{count.met} of {count.all}"


def _generalised(folder: Path, protocol: Protocol) -> str | None:
    """Where WCD_1 sees more than CD_1 in a part of the states."""
    better = Count()
    for problem in paper.BATCHED:
        for fraction in protocol.generalisation.fractions:
            found = [records_of(problem, name, fraction, folder).read() for name in ("CD_1", "WCD_1")]
            if fraction < 1 and all(found):
                plain, weighted = (float(np.mean([record["full_kl"] for record in each])) for each in found)
                better.add(weighted < plain)
    if not better.all:
        return None
    return (
        f"**From a part of the states** WCD_1 learns more than CD_1 in {_counted(better)} cases. "
        "`wcd reproduce --stage=generalisation`"
    )


def _image_findings(folder: Path, protocol: Protocol) -> list[str]:
    best: dict[tuple[str, str], Mapping[str, Any]] = {}
    for record in records(folder).read():
        run = RecordRun.from_record(record["settings"])
        key = run.data, run.binarize
        if key not in best or _width(record) < _width(best[key]):
            best[key] = record
    if not best:
        return []
    each = "; ".join(
        f"{data} {record['estimate']:.2f} ({record['lower']:.2f} to {record['upper']:.2f})"
        for (data, _), record in best.items()
    )
    deep = "".join(
        f" A second layer on MNIST: a bound of {record['estimate']:.2f}." for record in deep_records(folder).read()
    )
    return [
        "**On images weights do not help**, and being at equilibrium does. Weights within the set fall onto one chain"
        f"{_weighted_images(folder, protocol)}; plain persistent chains give, with 500 hidden units, test "
        f"log-likelihoods of {each}.{deep} `wcd reproduce --stage=large,records`"
    ]


def _weighted_images(folder: Path, protocol: Protocol) -> str:
    """By how much weighted persistent chains differ from plain ones on images, in brackets; nothing if not known."""
    cells = image_cells(folder, protocol.images)
    each = []
    for minimum_ess, words in ((0.0, "WPCD against PCD, nats"), (0.5, "held at half of the chains")):
        found = gains(cells, ImageMethod("WPCD", minimum_ess))
        if found:
            each.append(f"{words}: " + ", ".join(f"{gain:+.1f} on {data}" for data, gain in found.items()))
    return f" ({'; '.join(each)})" if each else ""


def _width(record: Mapping[str, Any]) -> float:
    return record["upper"] - record["lower"]


def findings_figure(folder: Path) -> Any:
    """KL of the paper's weights and of ours with the parameters of CD_1, beside the paper's figures."""
    shown = {
        "CD_1": (plots.COLORS[0], "o"),
        "WCD_1": (plots.COLORS[1], "s"),
        "BCD_1": (plots.COLORS[2], "D"),
    }
    found = {name: [result_of(folder, p, name, "paper") for p in paper.PROBLEMS] for name in shown}
    if not all(any(column) for column in found.values()):
        return None
    figure, (axes,) = plots.new_figure(9, 4.2)
    for i, (name, (color, marker)) in enumerate(shown.items()):
        _points(axes, found[name], 0.2 * (i - 1), color, marker, f"{name}, ours")
        if name in paper.METHODS:
            theirs = [paper.TABLE[problem, name][0] for problem in paper.PROBLEMS]
            axes.plot(
                np.arange(len(theirs)) + 0.2 * (i - 1), theirs, marker, color=color, markerfacecolor="none",
                label=f"{name}, the paper",
            )  # fmt: skip
    axes.set_xticks(range(len(paper.PROBLEMS)), paper.PROBLEMS)
    axes.set(yscale="log", ylabel="KL(target || model), nats", title="All with the parameters chosen for CD_1")
    axes.grid(axis="y", alpha=0.3)
    plots.legend_below(figure)
    return figure


def _points(axes: Any, column: list[CellResult | None], offset: float, color: str, marker: str, label: str) -> None:
    places = [(i + offset, result) for i, result in enumerate(column) if result is not None]
    axes.errorbar(
        [x for x, _ in places],
        [max(result.mean, FLOOR) for _, result in places],
        yerr=[
            [max(result.mean, FLOOR) - max(result.lowest, FLOOR) for _, result in places],
            [max(result.highest, FLOOR) - max(result.mean, FLOOR) for _, result in places],
        ],
        fmt=marker, color=color, linewidth=1, label=label,
    )  # fmt: skip
