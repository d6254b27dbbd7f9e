"""The paper's figures, drawn from the records."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

import tf_wcd
from tf_wcd import plots
from trainers.report.findings import findings_figure
from trainers.report.gradient_section import GRADIENTS, gradients_figure
from trainers.report.image_figures import parzen_figure
from trainers.report.weights_figures import equal_time_figure, weights_figure
from trainers.settings import paper
from trainers.settings.protocol import PAPER, GeneralisationProtocol, Protocol
from trainers.studies.generalisation import distribution_of
from trainers.studies.table import Cell

FINDINGS = "findings"  # the figure that the report begins with
PROBLEMS = ("BS16", "LSE15", "P10", "Mult3G", "Mult3D")


def write_figures(folder: Path, protocol: Protocol = PAPER) -> list[Path]:
    """Draws every figure whose records are there, under ``figures``."""
    target = folder / "figures"
    target.mkdir(parents=True, exist_ok=True)
    drawn = []
    for problem in PROBLEMS:
        for steps in (1, 10):
            figure = training_figure(folder / "small", problem, steps)
            if figure is not None:
                drawn.append(target / f"{problem}-k{steps}.png")
                figure.savefig(drawn[-1])
    for problem in paper.BATCHED:
        figure = generalisation_figure(folder / "small", problem, protocol.generalisation)
        if figure is not None:
            drawn.append(target / f"{problem}-generalisation.png")
            figure.savefig(drawn[-1])
    others = {
        FINDINGS: findings_figure(folder / "small"),
        GRADIENTS: gradients_figure(folder / "small", protocol.gradients),
        "parzen": parzen_figure(folder / "large", protocol.images),
        "weights": weights_figure(folder / "small", protocol.weights),
        "equal_time": equal_time_figure(folder / "large", protocol.equal_time),
    }
    for name, figure in others.items():
        if figure is not None:
            drawn.append(target / f"{name}.png")
            figure.savefig(drawn[-1])
    return drawn


def training_figure(folder: Path, problem: str, steps: int) -> Any:
    """KL along training and probabilities against the target, of CD_k and WCD_k; None if a cell is missing.

    WCD_k with parameters chosen for itself is drawn if it has been run.
    """
    plain, weighted = paper.METHODS[f"CD_{steps}"], paper.METHODS[f"WCD_{steps}"]
    drawn = {
        plain.name: Cell(problem, plain, "paper"),
        f"{weighted.name}, parameters of CD": Cell(problem, weighted, "paper"),
        f"{weighted.name}, its own": Cell(problem, weighted, "own"),
    }
    curves, models = {}, {}
    for label, cell in drawn.items():
        records = cell.records(folder).read()
        if not records and cell.parameters == "own":
            continue
        if not records:
            return None
        curve = [(at, kl) for at, kl in records[0]["curve"] if kl is not None]
        curves[label] = tuple(zip(*curve, strict=True))
        models[label] = np.exp(np.load(cell.distribution(folder))["log_probabilities"])
    probabilities = tf_wcd.datasets.load(problem)[1]
    return plots.compare_training(probabilities, curves, models, f"{problem}, k = {steps}: one seed, its best moment")


def generalisation_figure(folder: Path, problem: str, protocol: GeneralisationProtocol) -> Any:
    """Probabilities of the states that were held out, against their targets, for each part that was trained on."""
    fractions = [fraction for fraction in protocol.fractions if fraction < 1]
    paths = {
        (method, fraction): distribution_of(problem, method, fraction, folder)
        for method in protocol.methods
        for fraction in fractions
    }
    methods = [name for name in protocol.methods if all(paths[name, fraction].exists() for fraction in fractions)]
    if not methods:
        return None
    probabilities = tf_wcd.datasets.load(problem)[1]
    figure, axes = plots.new_figure(14, 3.8, columns=len(fractions))
    for panel, fraction in zip(axes, fractions, strict=True):
        for color, method in zip(plots.COLORS, methods, strict=False):
            data = np.load(paths[method, fraction])
            held_out = data["held_out"]
            order = held_out[np.argsort(-probabilities[held_out], kind="stable")]
            panel.plot(np.exp(data["log_probabilities"][order]), ".", color=color, markersize=1.5, label=method)
        panel.plot(probabilities[order], color="black", linewidth=1.2, label="target")
        panel.set(title=f"trained on {round(100 * fraction)} %", xlabel="state held out", yscale="log")
        panel.grid(alpha=0.3)
    lowest = probabilities.min()
    for panel in axes:
        panel.set_ylim(lowest / 30, probabilities.max() * 10)
    axes[0].set_ylabel("probability")
    plots.legend_below(figure, size=4)
    figure.suptitle(f"{problem}: probabilities of the states that were not trained on")
    return figure
