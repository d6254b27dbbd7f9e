"""The sections of the report on weights that are right."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from trainers.report.cells import CellResult, nats, summary
from trainers.settings import paper
from trainers.settings.runs import ImageMethod
from trainers.settings.weights_protocol import EqualTimeProtocol, Recipe, WeightsProtocol
from trainers.studies.equal_time import known_costs, method_of, runs_done
from trainers.studies.weights import records_of

# How much larger than its minimum the KL at the end of a run may be.
LAST_OVER_MINIMUM = 2.0


class RecipeResult(NamedTuple):
    """What the seeds of a recipe gave.

    Attributes:
        recipe: what was trained.
        minimum: the minimum KL along the runs.
        last: mean of the KL at the end of the runs.
        growth: the largest ratio of a run's last KL and its minimum.
        spikes: part of the evaluations kept (50 along each run) at which the KL was more than twice the lowest before.
    """

    recipe: Recipe
    minimum: CellResult
    last: float
    growth: float
    spikes: float

    @property
    def met(self) -> bool:
        """Whether the mean is below the goal, and no run has got worse again."""
        return self.minimum.mean < self.recipe.goal and self.growth <= LAST_OVER_MINIMUM


def recipe_results(folder: Path, protocol: WeightsProtocol) -> list[RecipeResult]:
    """What has been run."""
    found = []
    for recipe in protocol.recipes:
        records = records_of(recipe, folder).read()
        result = summary(records)
        if result is not None:
            last = [np.inf if record["final_kl"] is None else record["final_kl"] for record in records]
            growth = max(kl / record["min_kl"] for kl, record in zip(last, records, strict=True))
            spikes = float(np.mean([_spikes(record["curve"]) for record in records]))
            found.append(RecipeResult(recipe, result, float(np.mean(last)), float(growth), spikes))
    return found


def _spikes(curve: Sequence[tuple[int, float | None]]) -> float:
    """Part of a curve's points that are more than twice as high as the lowest before them."""
    values = np.array([np.inf if kl is None else kl for _, kl in curve])
    return float(np.mean(values[1:] > 2 * np.minimum.accumulate(values)[:-1]))


def weights_section(folder: Path, protocol: WeightsProtocol) -> list[str]:
    """Balanced weights and k = 0 on the small problems, beside the paper's best."""
    results = recipe_results(folder, protocol)
    if not results:
        return []
    lines = [
        "## Weights that are right\n",
        "BCD_1 divides the model's probability of a point by the density that it was drawn from; WCD_0 weights the "
        "examples themselves. Spins, five hidden units for each visible one, momentum 0.9; the settings were fixed "
        "before these seeds were run. The minimum along a run is its mean over the seeds (standard deviation), with a "
        "tick where it is below the paper's best; *last / minimum* is that of the worst seed, and should be at most "
        f"{LAST_OVER_MINIMUM:g}. *Spikes*: part of the evaluations kept (50 along each run) at which the KL was more "
        "than twice the lowest before. `wcd reproduce --stage=weights`\n",
        "| problem | method | rate, variance, schedule, updates | minimum KL | last / minimum | spikes | goal | "
        "the paper's best |",
        "|---" * 8 + "|",
    ]
    lower: set[str] = set()
    for result in results:
        recipe = result.recipe
        theirs, method = min((paper.TABLE[recipe.problem, name][0], name) for name in paper.METHODS)
        if result.minimum.mean < theirs:
            lower.add(recipe.problem)
        lines.append(
            f"| {recipe.problem} | {recipe.method} | {recipe.learning_rate:g}, {recipe.variance:g}, "
            f"{recipe.schedule}, {recipe.updates} | **{nats(result.minimum.mean)}** ({nats(result.minimum.deviation)})"
            f"{' ✓' if result.minimum.mean < theirs else ''} | {result.growth:.2f} | {100 * result.spikes:.0f} % | "
            f"{recipe.goal:g}: {'met' if result.met else '**missed**'} | {theirs:.4f} ({method}) |"
        )
    run = {result.recipe.problem for result in results}
    return [*lines, f"\nBelow the paper's best, in the mean, on {len(lower)} of {len(run)} problems.\n"]


class Likelihood(NamedTuple):
    """Log-likelihood of the test images at one method and rate, mean over seeds; in nats.

    Attributes:
        low: by reverse AIS.
        high: by AIS.
        values: the mean of both, for each seed.
        ess: effective sample size at the end, as a fraction of the points.
    """

    low: float
    high: float
    values: tuple[float, ...]
    ess: float

    @property
    def mean(self) -> float:
        """The middle of the bounds."""
        return float(np.mean(self.values))


def likelihood_of(records: Sequence[dict[str, Any]], method: ImageMethod, rate: float) -> Likelihood | None:
    """What the seeds of a method gave at a rate; None if there are none, or if one has diverged."""
    mine = [r for r in records if method_of(r) == method and r["settings"]["learning_rate"] == rate]
    if not mine or any(record["annealed"] is None for record in mine):
        return None
    bounds = np.array([record["annealed"]["test"] for record in mine])
    low, high = bounds.mean(axis=0)
    return Likelihood(
        float(low), float(high), tuple(bounds.mean(axis=1)), float(np.mean([record["ess"] for record in mine]))
    )


def equal_time_section(folder: Path, protocol: EqualTimeProtocol) -> list[str]:
    """All methods on images, each for the same time."""
    records = runs_done(folder).read()
    if not records:
        return []
    known = known_costs(folder, protocol)
    lines = [
        "## All methods for the same time\n",
        f"{protocol.data}, 0/1 units, centred gradient, the time of {protocol.epochs} epochs of "
        f"{protocol.reference.label}_1 for each; *cost* is the time of an update over that of CD_1. Log-likelihood of "
        "the test images in nats, mean over seeds: AIS (too high on average), reverse AIS (too low on average, if its "
        "chains start from samples of the model: where it is the higher one they did not), and the middle of the two "
        "with the standard deviation over seeds.\n",
        "| rate | method | cost | updates | AIS | reverse AIS | middle | seeds | ESS |",
        "|---" * 9 + "|",
    ]
    for rate, method in itertools.product(protocol.rates, protocol.methods):
        found, label = likelihood_of(records, method, rate), method.label
        if found is None:
            lines.append(f"| {rate:g} | {label} | {known.get(label, '')} | not run, or diverged | | | | | |")
            continue
        updates = next(r["settings"]["updates"] for r in records if method_of(r) == method)
        deviation = f" ({np.std(found.values, ddof=1):.2f})" if len(found.values) > 1 else ""
        lines.append(
            f"| {rate:g} | {label} | {known[label]:.2f} | {updates} | {found.high:.2f} | {found.low:.2f} | "
            f"{found.mean:.2f}{deviation} | {len(found.values)} | {found.ess:.2f} |"
        )
    return [*lines, "", *_comparisons(records, protocol), ""]


def _comparisons(records: Sequence[dict[str, Any]], protocol: EqualTimeProtocol) -> list[str]:
    """Consistent weights against none, at each rate."""
    lines = []
    pairs = {"BCD": "CD", "JPCD": "PCD"}
    for ours, plain in ((m, ImageMethod(pairs[m.name])) for m in protocol.methods if m.name in pairs):
        gains = []
        for rate in protocol.rates:
            mine, theirs = (likelihood_of(records, method, rate) for method in (ours, plain))
            if mine is not None and theirs is not None:
                gains.append(f"{mine.mean - theirs.mean:+.2f} at {rate:g}")
        if gains:
            lines.append(f"- {ours.label} against {plain.label}, nats: {', '.join(gains)}")
    return lines
