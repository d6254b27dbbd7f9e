"""Pictures of what a model has learned."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import EngFormatter

# Colours that stay apart for colour-blind readers (Okabe and Ito).
COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")


def new_figure(width: float, height: float, columns: int = 1) -> tuple[Figure, list[Axes]]:
    """A figure that belongs to no window, with axes side by side."""
    figure = Figure(figsize=(width, height), dpi=150, layout="constrained")
    return figure, list(np.atleast_1d(figure.subplots(1, columns)))


def plot_kl(axes: Axes, curves: Mapping[str, tuple[Sequence[float], Sequence[float]]]) -> None:
    """KL along training, on a logarithmic axis.

    Args:
        axes: where to draw.
        curves: name of each run, with its updates and their KL.
    """
    for color, (name, (updates, kl)) in zip(COLORS, curves.items(), strict=False):
        axes.plot(updates, kl, color=color, label=name, linewidth=1.5)
    axes.set(xlabel="updates", ylabel="KL(target || model), nats", yscale="log", title="Divergence along training")
    axes.xaxis.set_major_formatter(EngFormatter(sep=""))
    axes.grid(alpha=0.3)
    axes.legend(frameon=False)


def plot_probabilities(axes: Axes, target: Any, models: Mapping[str, Any]) -> None:
    """Probability of every listed state, beside its target.

    Args:
        axes: where to draw.
        target: target probabilities, ``[states]``.
        models: name of each model, with its probabilities of the same states.
    """
    target = np.asarray(target)
    place = np.arange(1, len(target) + 1)
    axes.step(
        np.r_[place - 0.5, place[-1] + 0.5],
        np.r_[target, target[-1]],
        where="post",
        color="black",
        linewidth=1.2,
        label="target",
    )
    for color, marker, (name, values) in zip(COLORS, "os^Dv*", models.items(), strict=False):
        axes.plot(place, values, marker, color=color, label=name, markersize=4.5, alpha=0.85)
    axes.set(xlabel="training state", ylabel="probability", title="Probability of each training state")
    axes.set_ylim(bottom=0)
    axes.grid(alpha=0.3)
    axes.legend(frameon=False)


def compare_training(target: Any, curves: Mapping[str, Any], models: Mapping[str, Any], title: str) -> Figure:
    """The paper's figure: KL along training on the left, probabilities against the target on the right."""
    figure, (left, right) = new_figure(11, 4.2, columns=2)
    plot_kl(left, curves)
    plot_probabilities(right, target, models)
    figure.suptitle(title)
    return figure


def picture_sheet(images: Any, row_names: Sequence[str] | None = None) -> Figure:
    """Pictures side by side, in rows, dark on light as ink on paper.

    Args:
        images: ``[rows, columns, height, width]``, grey levels from 0 (paper) to 1 (ink).
        row_names: a name for each row, at its left.
    """
    images = np.asarray(images, "float64")
    rows, columns, height, width = images.shape
    # A pixel of margin around each picture.
    framed = np.pad(images.clip(0, 1), [(0, 0), (0, 0), (1, 1), (1, 1)])
    sheet = framed.transpose(0, 2, 1, 3).reshape(rows * (height + 2), columns * (width + 2))
    figure, (axes,) = new_figure(0.6 * columns + (0.8 if row_names else 0.0), 0.6 * rows)
    axes.imshow(sheet, cmap="gray_r", vmin=0, vmax=1, interpolation="nearest")
    axes.set_xticks([])
    axes.set_yticks([] if row_names is None else (np.arange(rows) + 0.5) * (height + 2) - 0.5, labels=row_names or [])
    axes.tick_params(length=0)
    return figure
