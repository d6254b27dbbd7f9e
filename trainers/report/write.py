"""``REPORT.md`` and ``DETAILS.md``: what was measured beside what the paper says, made from the records."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tf_wcd.files import write_atomically
from trainers.report.column_sections import columns_section
from trainers.report.figures import FINDINGS, write_figures
from trainers.report.findings import findings_section
from trainers.report.gradient_section import GRADIENTS, gradients_section
from trainers.report.image_sections import long_runs_section, rates_section, variants_section
from trainers.report.record_section import records_section
from trainers.report.small_sections import best_section, generalisation_section, settings_section, table_section
from trainers.report.weights_sections import equal_time_section, weights_section
from trainers.settings.protocol import PAPER, Protocol
from trainers.studies.work import Work


def write_report(folder: Path, protocol: Protocol = PAPER) -> Path:
    """Writes the report, its details and its figures; returns the path of ``REPORT.md``."""
    drawn = write_figures(folder, protocol)
    report, details = folder / "REPORT.md", folder / "DETAILS.md"
    write_atomically(report, "\n".join(_report(folder, protocol, drawn)))
    write_atomically(details, "\n".join(_details(folder, protocol, drawn)))
    return report


def _report(folder: Path, protocol: Protocol, drawn: Sequence[Path]) -> list[str]:
    """What a reader needs: findings with one figure, and the tables."""
    small, large = folder / "small", folder / "large"
    return [
        "# The paper, reproduced\n",
        "Made by `wcd reproduce --stage=report` from the records beside it. All units of the small problems are spins "
        "(+1, -1). [Settings of every cell, explanations and all figures](DETAILS.md).\n",
        *findings_section(folder, protocol),
        *(_picture(path) for path in drawn if path.stem == FINDINGS),
        *table_section(small),
        *columns_section(small),
        *gradients_section(small, protocol.gradients),
        *weights_section(small, protocol.weights),
        *best_section(small, protocol.weights),
        *generalisation_section(small, protocol.generalisation),
        *records_section(large),
        *long_runs_section(large, protocol.images),
    ]


def _details(folder: Path, protocol: Protocol, drawn: Sequence[Path]) -> list[str]:
    """Whatever the tables rest on."""
    small, large = folder / "small", folder / "large"
    notes = folder / "NOTES.md"
    return [
        "# The paper, reproduced: details\n",
        "What the tables of the [report](REPORT.md) rest on, made by the same command.\n",
        *([notes.read_text()] if notes.exists() else []),
        *settings_section(small),
        *rates_section(large, protocol.images),
        *variants_section(large),
        *equal_time_section(large, protocol.equal_time),
        "## Figures\n",
        *(_picture(path) for path in drawn if path.stem not in (FINDINGS, GRADIENTS)),
        *(
            f"{picture.stem}\n\n![{picture.stem}](large/figures/{picture.name})\n"
            for picture in sorted((large / "figures").glob("*.png"))
        ),
    ]


def _picture(path: Path) -> str:
    return f"![{path.stem}](figures/{path.name})\n"


def run(work: Work, deadline: float = float("inf")) -> int:
    """The last stage of `wcd reproduce`; nothing of it is ever left."""
    print(f"Report: {write_report(work.folder, work.protocol)}")
    return 0
