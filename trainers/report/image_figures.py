"""The figure of the report on the image sets: Parzen log-likelihoods against the number of samples."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from tf_wcd import plots
from trainers.report.image_cells import ImageCell, image_cells
from trainers.settings.image_protocol import ImageProtocol
from trainers.studies.images import references

_STYLES = {"equilibrium": "o-", "data": "o--"}


def parzen_figure(folder: Path, protocol: ImageProtocol) -> Any:
    """A panel for each set, means over the seeds; None if nothing has been run."""
    cells = [cell for cell in image_cells(folder, protocol) if cell.runs]
    shown = [images for images in protocol.sets.values() if any(cell.images == images for cell in cells)]
    if not shown:
        return None
    colors = dict(zip(dict.fromkeys(m for images in shown for m in images.methods), plots.COLORS, strict=False))
    known = {record["data"]: record for record in references(folder).read()}
    figure, axes = plots.new_figure(4 * len(shown), 4.4, columns=len(shown))
    for panel, images in zip(axes, shown, strict=True):
        for cell in cells:
            if cell.images == images:
                _draw(panel, cell, protocol, colors[cell.method])
        reference = known[images.name]
        curve = reference["parzen"]
        panel.plot(curve["counts"], curve["values"], ":", color="black", label="the training images as samples")
        panel.set(xscale="log", xlabel="samples", title=f"{images.title}, sigma {reference['sigma']:.2f}")
        panel.grid(alpha=0.3)
    axes[0].set_ylabel("Parzen log-likelihood of the test set, nats")
    axes[0].plot([], [], _STYLES["data"], color="grey", markersize=3, label="dashed: chains from training images")
    labels: dict[str, Any] = {}
    for panel in axes:
        labels |= dict(zip(*reversed(panel.get_legend_handles_labels()), strict=True))
    figure.legend(
        list(labels.values()), list(labels), loc="outside lower center", ncols=min(4, len(labels)), frameon=False
    )
    return figure


def _draw(panel: Any, cell: ImageCell, protocol: ImageProtocol, color: str) -> None:
    counts = protocol.evaluation.counts
    for kind, style in _STYLES.items():
        means = [np.mean(cell.parzen(kind, count)) for count in counts]
        label = cell.method.label if kind == "equilibrium" else None
        panel.plot(counts, means, style, color=color, label=label, markersize=3, linewidth=1.2)
