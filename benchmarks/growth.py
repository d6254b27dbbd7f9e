"""How the time of an update grows with the batch, with k and with the hidden units: a decade of each."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from benchmarks.timing import interleaved, limit_row
from benchmarks.training import fitting, mnist_sized
from tf_wcd import plots

BATCHES = (50, 100, 200, 500)
STEPS = (1, 2, 5, 10)
HIDDEN = (100, 200, 500, 1000)


def measure(updates: int = 150) -> dict[str, tuple[list[int], list[float]]]:
    """Seconds of a WCD update of a 784-unit visible layer, along each axis with the others held."""
    x = mnist_sized(2000)
    cases = {("batch size", n): fitting(x, 300, "wcd", 1, updates, n) for n in BATCHES}
    cases |= {("Gibbs steps k", k): fitting(x, 300, "wcd", k, updates, 100) for k in STEPS}
    cases |= {("hidden units", h): fitting(x, h, "wcd", 1, updates, 100) for h in HIDDEN}
    times = interleaved(cases, repetitions=5)
    curves: dict[str, tuple[list[int], list[float]]] = {}
    for (axis, size), value in times.items():
        curves.setdefault(axis, ([], []))[0].append(size)
        curves[axis][1].append(value)
    return curves


def run(picture: Path | None = None) -> list[dict]:
    """The exponent of each growth, fitted on logarithmic axes; 1 is linear, less is better than linear."""
    curves = measure()
    figure, all_axes = plots.new_figure(11, 3.6, columns=3)
    rows = []
    for axes, (name, (sizes, times)) in zip(all_axes, curves.items(), strict=True):
        slope = np.polyfit(np.log(sizes), np.log(times), 1)[0]
        milliseconds = 1e3 * np.array(times)
        axes.loglog(sizes, milliseconds, "o-", color=plots.COLORS[0], label="measured")
        line = milliseconds[-1] * np.array(sizes) / sizes[-1]
        axes.loglog(sizes, line, "--", color="gray", label="linear")
        axes.set(xlabel=name, ylabel="ms per update", title=f"784 visible units: slope {slope:.2f}")
        axes.set_xticks(sizes, [str(size) for size in sizes])
        axes.minorticks_off()
        axes.grid(alpha=0.3)
        rows.append(limit_row(f"growth with the {name}, {sizes[0]} to {sizes[-1]}: exponent", slope, 1.1, "linear: 1"))
    plots.legend_below(figure)
    if picture is not None:
        figure.savefig(picture)
    return rows


if __name__ == "__main__":
    from benchmarks.report import RESULTS, main

    RESULTS.mkdir(exist_ok=True)
    main("growth", lambda: run(RESULTS / "growth.png"))
