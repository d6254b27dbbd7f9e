"""``REPORT.md``: what was measured beside what the paper says, made from the records."""

from __future__ import annotations

from pathlib import Path

from tf_wcd.files import write_atomically
from trainers.report.column_sections import columns_section
from trainers.report.figures import write_figures
from trainers.report.image_sections import long_runs_section, variants_section
from trainers.report.record_section import records_section
from trainers.report.small_sections import best_section, generalisation_section, settings_section, table_section
from trainers.report.weights_sections import equal_time_section, weights_section
from trainers.settings.protocol import PAPER, Protocol
from trainers.studies.work import Work


def write_report(folder: Path, protocol: Protocol = PAPER) -> Path:
    """Writes ``REPORT.md`` and its figures; returns its path."""
    drawn = write_figures(folder, protocol)
    small, large = folder / "small", folder / "large"
    parts = [
        "# The paper, reproduced\n",
        "Made by `wcd reproduce --stage=report` from the records beside it. KL in nats; *ours* is the mean over seeds "
        "(standard deviation in brackets) of the minimum along a run, *theirs* the same in the paper. All units are "
        "spins (+1, -1).\n",
        *table_section(small),
        *columns_section(small),
        *settings_section(small),
        *weights_section(small, protocol.weights),
        *best_section(small, protocol.weights),
        *generalisation_section(small, protocol.generalisation),
        *long_runs_section(large),
        *records_section(large),
        *variants_section(large, protocol.images),
        *equal_time_section(large, protocol.equal_time),
    ]
    notes = folder / "NOTES.md"
    if notes.exists():
        parts += [notes.read_text()]
    parts += ["## Figures\n", *(f"![{path.stem}](figures/{path.name})\n" for path in drawn)]
    for picture in sorted((large / "figures").glob("*.png")):
        parts.append(f"{picture.stem}\n\n![{picture.stem}](large/figures/{picture.name})\n")
    report = folder / "REPORT.md"
    write_atomically(report, "\n".join(parts))
    return report


def run(work: Work, deadline: float = float("inf")) -> int:
    """The last stage of `wcd reproduce`; nothing of it is ever left."""
    print(f"Report: {write_report(work.folder, work.protocol)}")
    return 0
