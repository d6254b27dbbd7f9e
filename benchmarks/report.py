"""Tables and pictures of the measurements, kept under ``benchmarks/results`` with their date and number of cores."""

from __future__ import annotations

import datetime
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tf_wcd import plots

if TYPE_CHECKING:
    from matplotlib.figure import Figure

RESULTS = Path(__file__).parent / "results"
PEERS = ("rbms", "scikit-learn", "NumPy")
KINDS = {"than a peer": True, "than ourselves, done otherwise": False}  # whether it is a peer
HEAD = """# Measurements

Made by `make bench`. Ratios are of medians of interleaved repetitions in one run. **Bold** are peers, which do the same
work by other people's code or in plain NumPy; everything else is compared with ourselves, a floor or a limit.
"""


def table(rows: list[dict[str, Any]]) -> str:
    """The rows as a Markdown table."""
    lines = ["| work | ours | compared with | its figure | ratio | target | met |", "|---|---|---|---|---|---|---|"]
    for r in rows:
        ours, other = (_time(r.get(name)) for name in ("ours_us", "other_us"))
        met = {True: "yes", False: "**no**", None: ""}[r["met"]]
        name = f"**{r['other']}**" if is_peer(r) else r["other"]
        lines.append(f"| {r['work']} | {ours} | {name} | {other} | {r['ratio']:.2f} | {r['target']} | {met} |")
    return "\n".join(lines)


def is_peer(row: dict[str, Any]) -> bool:
    """Whether a row compares us with somebody else.

    >>> [is_peer({"other": other}) for other in ("rbms CD_1 (1 threads)", "one after another")]
    [True, False]
    """
    return row["other"].startswith(PEERS)


def _time(microseconds: float | None) -> str:
    if microseconds is None:
        return ""
    for limit, unit, factor in ((1e3, "us", 1.0), (1e6, "ms", 1e3)):
        if microseconds < limit:
            return f"{microseconds / factor:.3g} {unit}"
    return f"{microseconds / 1e6:.3g} s"


def save(name: str, rows: list[dict[str, Any]]) -> None:
    """Writes the rows with their date and number of cores, and remakes the summary from all that is there.

    Rows about other work that were measured on the same day stay, so that a benchmark can be run in parts.
    """
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"{name}.json"
    record = {"date": datetime.date.today().isoformat(), "cores": os.cpu_count()}
    if path.exists():
        old = json.loads(path.read_text())
        if {key: old[key] for key in record} == record:
            new = {_key(r): r for r in rows}
            kept = {_key(r): r for r in old["rows"]}
            rows = list({**kept, **new}.values())
    path.write_text(json.dumps({**record, "rows": rows}, indent=1) + "\n")
    summarise()


def _key(row: dict[str, Any]) -> tuple[str, str]:
    """What a row is about: the work and the peer, without the peer's number of threads."""
    return row["work"], row["other"].split(" (")[0]


def summarise() -> None:
    """``RESULTS.md`` and ``ratios.png`` from the records."""
    parts = [HEAD]
    compared = []
    for path in sorted(RESULTS.glob("*.json")):
        record = json.loads(path.read_text())
        parts += [f"## {path.stem}\n", f"{record['date']}, {record['cores']} cores\n", table(record["rows"]), ""]
        compared += [r for r in record["rows"] if r["target"].startswith(">=")]
    notes = RESULTS / "notes.md"
    if notes.exists():
        parts += [notes.read_text()]
    (RESULTS / "RESULTS.md").write_text("\n".join(parts))
    if compared:
        draw_ratios(compared[::-1]).savefig(RESULTS / "ratios.png")


def draw_ratios(rows: list[dict[str, Any]]) -> Figure:
    """How many times faster, a bar for each row from below; peers apart from ourselves by colour."""
    figure, (axes,) = plots.new_figure(9, 0.9 + 0.45 * len(rows))
    for color, (title, peer) in zip(plots.COLORS, KINDS.items(), strict=False):
        mine = [(i, r["ratio"]) for i, r in enumerate(rows) if is_peer(r) is peer]
        if mine:
            axes.barh(*zip(*mine, strict=True), color=color, label=title)
    for i, r in enumerate(rows):
        axes.text(r["ratio"], i, f" {r['ratio']:.1f}x", va="center", fontsize=8)
    axes.axvline(1, color="black", linewidth=0.8)
    right = 1.6 * max(r["ratio"] for r in rows)  # room for the figures
    axes.set(xscale="log", xlim=(0.7, right), xlabel="times faster (same work, same machine, same run)")
    axes.set_yticks(range(len(rows)), [f"{r['work']}\nagainst {r['other']}" for r in rows], fontsize=7)
    axes.margins(y=0.01)
    axes.grid(axis="x", alpha=0.3)
    plots.legend_below(figure)
    return figure


def main(name: str, run: Callable[[], list[dict[str, Any]]]) -> None:
    """Runs one benchmark, prints its table and keeps it."""
    rows = run()
    save(name, rows)
    print(f"\n{table(rows)}\n\nKept in {RESULTS / 'RESULTS.md'}")
