"""Time to a given likelihood: MNIST, 784 x 500, images drawn anew from their grey levels at each pass.

``python -m benchmarks.quality`` does what is not done yet; it may be stopped and started again at any time.
Every method has the same search, on validation images and with a seed that is not reported: six passes with each of
three learning rates, and with further ones beyond an end of them as long as the best is there, then with two between
the best and its neighbours (the highest one before trainings diverge is not taken); once with a rate that falls
linearly to zero, and once with its third power. With what was best it is then trained for 2 to 24 passes with another
seed, and judged on test images. Compiling counts.

Time is that of the processor, which work beside it hardly changes, and each method has one thread: two processes, with
``--methods`` of their own, may run side by side.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

import keras
import numpy as np

import tf_wcd
from benchmarks.quality_methods import METHODS
from benchmarks.record_file import RecordFile
from benchmarks.threads import one_thread
from tf_wcd import evaluation, plots
from tf_wcd.datasets.grey_levels import binarize
from tf_wcd.evaluation.exact import free_energies

RESULTS = Path(__file__).parent / "results"
SEARCH_PASSES, PASSES = 6, (2, 4, 6, 9, 12, 16, 24)
POWERS = (1, 3)  # of the part of the training that is left, by which the rate falls
SEARCH_SEED, SEED = 7, 11
HELD_BACK = 10_000
TARGETS = (-100.0, -95.0, -90.0)


def load(search: bool) -> tuple[np.ndarray, np.ndarray]:
    """Grey training images, and others of 0 and 1 to judge by."""
    (grey, _), (test, _) = tf_wcd.datasets.load("mnist", None, seed=0)
    if search:
        return grey[:-HELD_BACK], binarize(grey[-HELD_BACK:], "stochastic", rng=np.random.default_rng(2))
    return grey, binarize(test, "stochastic", rng=np.random.default_rng(1))


def likelihood(rbm: tf_wcd.RBMLayer, train: np.ndarray, x: np.ndarray) -> dict[str, float]:
    """Mean log-likelihood with its interval, by one estimator for all."""
    found = evaluation.log_partition_interval(rbm, train[:HELD_BACK], seed=21, budget=12_800, burn_in=300)
    free = float(np.mean(free_energies(rbm.machine().cast("float64"), x.astype("float64"))))
    return {
        "estimate": round(-free - found.estimate, 2),
        "lower": round(-free - found.upper, 2),
        "upper": round(-free - found.lower, 2),
    }


def run(method: str, rate: float, power: int, passes: int, search: bool) -> dict[str, Any]:
    """Trains with one setting, and returns what is kept of it besides the setting."""
    grey, x = load(search)
    seed = SEARCH_SEED if search else SEED
    images = binarize(grey, "stochastic", rng=np.random.default_rng([seed, 0]))
    clock, processor = time.perf_counter(), time.process_time()
    training = METHODS[method].start(images, seed)
    seconds, cpu = time.perf_counter() - clock, time.process_time() - processor
    for epoch in range(passes):
        images = binarize(grey, "stochastic", rng=np.random.default_rng([seed, epoch]))
        clock, processor = time.perf_counter(), time.process_time()
        try:
            training.epoch(images, rate * (1 - epoch / passes) ** power)
        except tf_wcd.DivergenceError:
            return {"diverged": True}
        seconds += time.perf_counter() - clock
        cpu += time.process_time() - processor
    keras.utils.clear_session(free_memory=True)
    return {
        "seconds": round(seconds, 1),
        "cpu_seconds": round(cpu, 1),
        **likelihood(training.model(), images, x),
    }


def best_settings(work: RecordFile, name: str) -> tuple[float, int]:
    """The best learning rate of a method and the power by which it falls, on validation images.

    What counts is the lower end of the interval: where a rate is too high the estimates are those of a model that
    nothing has sampled, and say little.
    """

    def judged(rate: float, power: int) -> float:
        record = work.record(method=name, rate=rate, power=power, passes=SEARCH_PASSES, search=True)
        return record.get("lower", -np.inf)

    def best_of(power: int) -> float:
        rates = sorted(METHODS[name].rates)
        while (best := max(rates, key=lambda rate: judged(rate, power))) in (rates[0], rates[-1]):
            rates = sorted([*rates, round(best * 3 if best == rates[-1] else best / 3, 4)])
        rates += [float(f"{best * 3**power_of_3:.2g}") for power_of_3 in (-0.5, 0.5)]
        return max(clear_of_divergence(sorted(rates), power), key=lambda rate: judged(rate, power))

    def clear_of_divergence(rates: list[float], power: int) -> list[float]:
        # With another seed a training may diverge at a rate below the one at which this one did.
        above = [*rates[1:], rates[-1]]
        return [rate for rate, next_one in zip(rates, above, strict=True) if judged(next_one, power) > -np.inf]

    return max(((best_of(power), power) for power in POWERS), key=lambda found: judged(*found))


def reported(records: list[dict[str, Any]], name: str) -> list[dict[str, Any]]:
    """The records of a method that are no part of its search, by time; trainings that diverged have neither."""
    own = [each for each in records if each["method"] == name and not each["search"] and not each.get("diverged")]
    return sorted(own, key=lambda each: each["cpu_seconds"])


def time_to(records: list[dict[str, Any]], target: float) -> float | None:
    """The shortest time, in core-seconds, after which a training had reached the target."""
    reached = [each["cpu_seconds"] for each in records if each["estimate"] >= target]
    return min(reached, default=None)


def table(records: list[dict[str, Any]]) -> str:
    """Core-seconds to each target, as Markdown."""
    lines = [
        "| method | rate, power | " + " | ".join(f"{target:g} nats" for target in TARGETS) + " | best |",
        "|---" * 6 + "|",
    ]
    for name in METHODS:
        own = reported(records, name)
        if own:
            times = [time_to(own, target) for target in TARGETS]
            cells = ["-" if each is None else f"{each:.0f} s" for each in times]
            best = max(own, key=lambda each: each["estimate"])
            text = f"{best['estimate']:.1f} ({best['lower']:.1f} to {best['upper']:.1f})"
            lines.append(f"| {name} | {own[0]['rate']:g}, {own[0]['power']} | {' | '.join(cells)} | {text} |")
    return "\n".join(lines)


def plot(records: list[dict[str, Any]], path: Path) -> None:
    """Likelihood against time."""
    figure, (axes,) = plots.new_figure(7, 4.8)
    for name in METHODS:
        own = reported(records, name)
        if own:
            axes.plot([r["cpu_seconds"] for r in own], [r["estimate"] for r in own], "o-", label=name)
    for target in TARGETS:
        axes.axhline(target, color="0.85", zorder=0)
    axes.set(xscale="log", xlabel="core-seconds of training", ylabel="test log-likelihood, nats", ylim=(-115, -85))
    ticks = (5, 10, 20, 50, 100, 200, 500)
    axes.set_xticks(ticks, [str(tick) for tick in ticks])
    axes.xaxis.set_minor_formatter("")
    axes.autoscale(axis="x")
    plots.legend_below(figure)
    figure.savefig(path)


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=list(METHODS), help="which ones; all")
    parser.add_argument("--passes", nargs="+", type=int, choices=PASSES, default=PASSES, help="how many; all")
    parser.add_argument("--report", action="store_true", help="only table and plot of what there is")
    arguments = parser.parse_args()
    work = RecordFile(RESULTS / "quality.jsonl", run)
    if not arguments.report:
        one_thread()
        for name in arguments.methods:
            rate, power = best_settings(work, name)
            for passes in arguments.passes:
                work.record(method=name, rate=rate, power=power, passes=passes, search=False)
    records = work.read()
    print(table(records))
    plot(records, RESULTS / "quality.png")


if __name__ == "__main__":
    main()
