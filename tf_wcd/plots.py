"""Pictures of what a model has learned. Drawing them needs the extra ``plots``."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tf_wcd import extras

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from tf_wcd.evaluation import Mixing
    from tf_wcd.layer import RBMLayer

# Colours that colour-blind readers can tell apart (Okabe and Ito).
COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
MANY = 100  # states, more of which are drawn by small markers, sorted by their probabilities
LARGE_MARKER = 4.5  # points


def new_figure(width: float, height: float, columns: int = 1, rows: int = 1) -> tuple[Figure, list[Axes]]:
    """A figure without a window, with axes side by side, row by row."""
    extras.need("Drawing", "matplotlib")
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), dpi=150, layout="constrained")
    return figure, list(np.ravel(figure.subplots(rows, columns)))


def legend_below(figure: Figure, size: float = 1.0) -> None:
    """One legend for all axes of a figure, below them, where it hides nothing.

    Args:
        figure: the figure, made by `new_figure`. Of what has the same label the last one drawn is shown.
        size: of the markers, as a multiple of those drawn.

    Example:

    >>> figure, (left, right) = new_figure(6, 2, columns=2)
    >>> lines = left.plot([1, 2], label="CD"), right.plot([2, 1], ".", label="CD")
    >>> legend_below(figure)
    >>> [text.get_text() for text in figure.legends[0].get_texts()]
    ['CD']
    """
    entries: dict[str, Any] = {}
    for axes in figure.axes:
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
            entries[label] = handle
    figure.legend(
        list(entries.values()),
        list(entries),
        loc="outside lower center",
        ncols=min(len(entries), 5),
        frameon=False,
        markerscale=size,
    )


def plot_kl(axes: Axes, curves: Mapping[str, tuple[Sequence[float], Sequence[float]]]) -> None:
    """Draws the KL during training, on a logarithmic axis; `legend_below` adds the names.

    Args:
        axes: where to draw.
        curves: for the name of each run, the numbers of updates and the KL after them.
    """
    from matplotlib.ticker import EngFormatter

    for color, (name, (updates, kl)) in zip(itertools.cycle(COLORS), curves.items(), strict=False):
        axes.plot(updates, kl, color=color, label=name, linewidth=1.5)
    axes.set(xlabel="updates", ylabel="KL(target || model), nats", yscale="log", title="Divergence along training")
    axes.xaxis.set_major_formatter(EngFormatter(sep=""))
    axes.grid(alpha=0.3)


def plot_probabilities(axes: Axes, target: Any, models: Mapping[str, Any]) -> None:
    """Draws the probability of every listed state and its target; many states are sorted by their targets.

    `legend_below` adds the names.

    Args:
        axes: where to draw.
        target: target probabilities, ``[states]``.
        models: for the name of each model, its probabilities of the same states.
    """
    target = np.asarray(target)
    order = np.argsort(-target, kind="stable") if len(target) > MANY else np.arange(len(target))
    target = target[order]
    place = np.arange(1, len(target) + 1)
    axes.step(
        np.r_[place - 0.5, place[-1] + 0.5],
        np.r_[target, target[-1]],
        where="post",
        color="black",
        linewidth=1.2,
        label="target",
        zorder=3,
    )
    size = _marker_size(target)
    styles = zip(itertools.cycle(COLORS), itertools.cycle("os^Dv*"), strict=False)
    for (color, marker), (name, values) in zip(styles, models.items(), strict=False):
        axes.plot(place, np.asarray(values)[order], marker, color=color, label=name, markersize=size, alpha=0.85)
    axes.set(xlabel="state", ylabel="probability", title="Probability of each state")
    axes.set_ylim(bottom=0)
    axes.grid(alpha=0.3)


def _marker_size(target: Any) -> float:
    return 1.5 if len(target) > MANY else LARGE_MARKER


def compare_training(target: Any, curves: Mapping[str, Any], models: Mapping[str, Any], title: str) -> Figure:
    """The paper's figure: KL during training on the left, probabilities and their targets on the right."""
    figure, (left, right) = new_figure(11, 4.2, columns=2)
    plot_kl(left, curves)
    plot_probabilities(right, target, models)
    legend_below(figure, LARGE_MARKER / _marker_size(target))
    figure.suptitle(title)
    return figure


def compare_starts(mixing: Mixing, title: str | None = None) -> Figure:
    """Free energies of the chains of `tf_wcd.evaluation.mixing`: along the chains, and in their second half.

    Chains that have mixed have one band on the left, whatever they started from, and one distribution on the right.

    Example:

    >>> rbm = tf_wcd.RBMLayer(5, seed=0)
    >>> rbm.build((None, 6))
    >>> figure = compare_starts(tf_wcd.evaluation.mixing(rbm, gibbs_steps=50, seed=0))
    """
    figure, (left, right) = new_figure(11, 4.2, columns=2)
    kept = slice(1 + (len(mixing.steps) - 1) // 2, None)
    values = np.concatenate([trace[kept].ravel() for trace in mixing.free_energy.values()])
    bins: Any = np.linspace(values.min(), values.max(), 41) if np.ptp(values) > 0 else 10
    for color, (name, trace) in zip(COLORS, mixing.free_energy.items(), strict=False):
        low, middle, high = np.percentile(trace, [10, 50, 90], axis=1)
        left.fill_between(mixing.steps, low, high, color=color, alpha=0.2, linewidth=0)
        start = "from random states" if name == "random" else f"from {name}"
        left.plot(mixing.steps, middle, color=color, linewidth=1.5, label=start)
        right.hist(trace[kept].ravel(), bins=bins, density=True, color=color, alpha=0.45, label=start)
    left.axvline(mixing.steps[kept][0], color="0.5", linewidth=1, linestyle="--")
    left.set(xlabel="Gibbs steps", ylabel="free energy, nats", title="Along the chains: median, 80 % of them")
    left.set_xscale("symlog", linthresh=10)
    left.set_xlim(0, mixing.steps[-1])
    right.set(xlabel="free energy, nats", ylabel="density", title="In their second half")
    for axes in (left, right):
        axes.grid(alpha=0.3)
    legend_below(figure)
    verdict = "mixed" if mixing.mixed else "not mixed"
    time = f"autocorrelation time {mixing.autocorrelation_time:.3g} steps"
    figure.suptitle(title or f"{verdict.capitalize()}: R-hat {mixing.r_hat:.3g}, {time}")
    return figure


def plot_gradient_errors(axes: Axes, history: Sequence[tuple[float, Any]], measure: str) -> None:
    """Draws one measure of the errors of negative phases' steps along a training.

    A bias that could not be told from zero is drawn as an open triangle, at the most that it may be. The names are
    added by `legend_below`.

    Args:
        axes: where to draw.
        history: pairs of an epoch and `tf_wcd.evaluation.GradientErrors`, as the callback `GradientError` keeps them.
        measure: ``"bias"``, ``"deviation"`` or ``"cosine"``.
    """
    if not history:
        raise ValueError("There is nothing to draw: the history is empty. Received: history=[]")
    epochs = np.array([epoch + 1 for epoch, _ in history])
    for color, name in zip(itertools.cycle(COLORS), history[0][1], strict=False):
        values = np.array([getattr(errors[name], measure) for _, errors in history])
        if measure == "bias":
            errors = np.array([errors[name].bias_error for _, errors in history])
            known = values > errors
            axes.errorbar(epochs[~known], (values + errors)[~known], fmt="v", mfc="none", color=color, markersize=4)
            epochs_known, values, errors = epochs[known], values[known], errors[known]
            axes.errorbar(epochs_known, values, errors, color=color, label=name, linewidth=1.5, marker=".")
        else:
            axes.plot(epochs, values, color=color, label=name, linewidth=1.5, marker=".")
    if measure == "cosine":
        axes.set(xlabel="epoch", title="Cosine with the exact gradient")
        axes.set_ylim(top=1.0)
    else:
        title = {"bias": "Bias", "deviation": "Standard deviation"}[measure]
        axes.set(xlabel="epoch", ylabel="in lengths of the exact gradient", yscale="log", title=f"{title} of a step")
    axes.grid(alpha=0.3)


def gradient_errors(history: Sequence[tuple[float, Any]], title: str | None = None) -> Figure:
    """Bias, standard deviation and direction of negative phases' steps against the exact gradient, along a training.

    Args:
        history: pairs of an epoch and `tf_wcd.evaluation.GradientErrors`, as the callback `GradientError` keeps them.
        title: title of the figure.

    Example:

    >>> rbm = tf_wcd.RBMLayer(2)
    >>> rbm.build((None, 3))
    >>> figure = gradient_errors([(0, tf_wcd.evaluation.gradient_error(rbm, np.eye(3), ["cd"], repetitions=10))])
    """
    measures = "bias", "deviation", "cosine"
    figure, panels = new_figure(12, 3.8, columns=len(measures))
    for axes, measure in zip(panels, measures, strict=True):
        plot_gradient_errors(axes, history, measure)
    legend_below(figure)
    if title:
        figure.suptitle(title)
    return figure


def image_sheet(
    images: Any,
    shape: tuple[int, int] | None = None,
    columns: int = 10,
    signed: bool = False,
    row_names: Sequence[str] | None = None,
    title: str | None = None,
) -> Figure:
    """Images side by side in rows, dark on light like ink on paper.

    Args:
        images: ``[n, height, width]``, or ``[n, pixels]``, shown from 0 (paper) to 1 (ink), or each scaled by its
            largest weight if ``signed``.
        shape: height and width of an image, of rows of pixels.
        columns: images in a row.
        signed: whether the images are weights; negative ones are blue and positive ones red.
        row_names: a name for each row, shown on its left.
        title: title of the figure.

    Example:

    >>> figure = image_sheet(np.eye(6), shape=(2, 3), columns=3, row_names=["upper", "lower"])
    """
    images = np.asarray(images, "float64")
    shape = shape or images.shape[1:]
    if len(shape) != 2:
        raise ValueError(
            "`shape` must be the height and width of the images, unless these have the shape [n, height, width]. "
            f"Received: shape={shape!r} and images of the shape {images.shape}"
        )
    images = images.reshape(-1, *shape)
    columns = min(columns, len(images))
    rows = -(-len(images) // columns)
    if signed:
        images = images / np.maximum(np.abs(images).max(axis=(1, 2), keepdims=True), 1e-12)
    height, width = shape[0] + 1, shape[1] + 1
    sheet = np.full((rows * height + 1, columns * width + 1), np.nan)
    for i, image in enumerate(images):
        top, left = height * (i // columns) + 1, width * (i % columns) + 1
        sheet[top : top + shape[0], left : left + shape[1]] = image
    inches = 0.55 * columns
    margin = 0.3 if title else 0.0
    names = 0.2 + 0.1 * max(map(len, row_names)) if row_names else 0.0  # inches of the longest name
    figure, (axes,) = new_figure(inches + names, inches * sheet.shape[0] / sheet.shape[1] + margin)
    low, colors = (-1, "RdBu_r") if signed else (0, "gray_r")
    axes.set_facecolor("0.85")
    axes.imshow(sheet, cmap=colors, vmin=low, vmax=1, interpolation="nearest")
    axes.set_xticks([])
    axes.set_yticks([] if row_names is None else (np.arange(rows) + 0.5) * height, labels=row_names or [])
    axes.tick_params(length=0)
    for side in axes.spines.values():
        side.set_visible(False)
    if title:
        axes.set_title(title)
    return figure


def weight_map(rbm: RBMLayer, units: int = 20, title: str | None = None) -> Figure:
    """Weights between the columns of a table, by their names, and the hidden units with the largest weights.

    What moves together has the same colour in a column of the picture: negative weights are blue, positive ones red.

    Args:
        rbm: a built `RBMLayer`; the names are those of the frame that it was trained on, or numbers.
        units: number of hidden units.
        title: title of the figure.

    Example:

    >>> rbm = tf_wcd.RBMLayer(5, seed=0)
    >>> rbm.build((None, 6))
    >>> figure = weight_map(rbm, units=3)
    """
    rbm.require_built()
    kernel = rbm.kernel.numpy()[: rbm.data_width]
    largest = np.argsort(-np.square(kernel).sum(axis=0), kind="stable")[:units]
    shown = kernel[:, largest]
    known = rbm.feature_names_in_
    names = [str(name) for name in (range(len(kernel)) if known is None else known)]
    figure, (axes,) = new_figure(1.6 + 0.28 * len(largest), 0.9 + 0.22 * len(kernel))
    limit = max(float(np.abs(shown).max()), 1e-12)
    picture = axes.imshow(shown, cmap="RdBu_r", vmin=-limit, vmax=limit, aspect="auto", interpolation="nearest")
    axes.set_yticks(range(len(names)), labels=names)
    axes.set_xticks(range(len(largest)), labels=[str(number) for number in largest])
    axes.set(xlabel="hidden unit", title=title or "Weights")
    axes.tick_params(length=0)
    figure.colorbar(picture, ax=axes)
    return figure


def picture_shape(units: int) -> tuple[int, int]:
    """Rows and columns of a picture with so many pixels: a square, or the nearest upright rectangle, or one row.

    Example:

    >>> picture_shape(784), picture_shape(128), picture_shape(11)
    ((28, 28), (16, 8), (1, 11))
    """
    columns = next(n for n in range(math.isqrt(units), 0, -1) if units % n == 0)
    return (units // columns, columns) if columns > 1 else (1, units)


def pixels(figure: Figure) -> np.ndarray:
    """The figure as it would be saved: uint8 ``[height, width, 3]``.

    Example:

    >>> pixels(image_sheet(np.eye(4), shape=(2, 2))).shape[-1]
    3
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    return np.asarray(canvas.buffer_rgba())[..., :3].copy()
