"""The sections of the report on the image sets."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from trainers.report.image_cells import PLAIN, ImageCell, gains, image_cells
from trainers.report.record_section import READ_AS
from trainers.settings.image_protocol import ImageProtocol
from trainers.settings.runs import ImageRun
from trainers.store.records import Records
from trainers.studies.images import choice, rates_tried, run_of, scores_of

UNITS = {"bernoulli": "0/1", "spin": "spins"}


def long_runs_section(folder: Path, protocol: ImageProtocol) -> list[str]:
    """The long runs on the image sets."""
    cells = image_cells(folder, protocol)
    if not cells:
        return []
    how = protocol.evaluation
    few, many = how.counts[-1] // 10, how.counts[-1]
    centred = ", centred gradient" if protocol.main.centered else ""
    lines = [
        "## Image sets\n",
        f"As the paper runs them: {protocol.hidden} hidden units, batches of {protocol.batch_size}, momentum "
        f"{protocol.momentum:g}, weight decay {protocol.weight_decay:g}, a linearly falling rate; "
        f"{UNITS[protocol.main.units]} units{centred}. The rate is that of the mesh from {protocol.mesh[0]:g} to "
        f"{protocol.mesh[-1]:g} with which short runs with labels joined to the images classify best. **Our one "
        "departure:** they are compared on held-out training images, where the paper took the test images. The long "
        "runs have no labels.\n",
        f"Test images, in nats, means over the seeds (standard deviation). *Parzen*: under {_power(few)} and "
        f"{_power(many)} samples of {how.chains} chains that were at the model's equilibrium when they began (a "
        f"population carried there along {how.temperatures} temperatures), and *from data* of as many that began at "
        f"training images, {how.burn_in} Gibbs steps before. *Log-likelihood* with the interval that follows from that "
        "of log Z (`tf_wcd.evaluation.log_partition_interval`), the widest over the seeds. *ESS*: effective sample "
        "size at the end, as a fraction of the chains. *Minutes* of one core, of one training. "
        f"{_read_as(protocol)} `wcd reproduce --stage=large`\n",
        f"| data | method | rate | seeds | epochs | Parzen, {_power(few)} | {_power(many)} | from data, {_power(many)} "
        "| log-likelihood | interval | ESS | minutes |",
        "|---" * 12 + "|",
    ]
    lines += [_row(cell, few, many) for cell in cells]
    return [*lines, "", *_comparisons(cells), ""]


def _row(cell: ImageCell, few: int, many: int) -> str:
    data, label = cell.images.name, cell.method.label
    if not cell.runs:
        return f"| {data} | {label} | {'diverged' if cell.diverged else 'not run'} |" + " |" * 9
    settings = cell.runs[0]["settings"]
    seeds = f"{len(cell.runs)}" + (f" ({cell.diverged} more diverged)" if cell.diverged else "")
    low, high = cell.ends
    return (
        f"| {data} | {label} | {settings['learning_rate']:g} | {seeds} | {settings['epochs']} | "
        f"{_spread(cell.parzen('equilibrium', few))} | {_spread(cell.parzen('equilibrium', many))} | "
        f"{_spread(cell.parzen('data', many))} | **{_spread(cell.likelihoods)}** | {low:.1f} to {high:.1f} | "
        f"{cell.mean(lambda record: record['ess'][-1][1]):.2f} | "
        f"{cell.mean(lambda record: record['training_cpu_seconds']) / 60:.0f} |"
    )


def _spread(values: Sequence[float]) -> str:
    """The mean, and the standard deviation where there are several."""
    deviation = f" ({np.std(values, ddof=1):.1f})" if len(values) > 1 else ""
    return f"{np.mean(values):.1f}{deviation}"


def _power(count: int) -> str:
    return f"10^{round(np.log10(count))}" if count >= 1000 else f"{count}"


def _read_as(protocol: ImageProtocol) -> str:
    """How the images of each set are read, in a sentence."""
    kinds = dict.fromkeys(images.binarize for images in protocol.sets.values())
    each = (
        f"{', '.join(images.title for images in protocol.sets.values() if images.binarize == kind)}: {READ_AS[kind]}"
        for kind in kinds
    )
    return f"{'; '.join(each)}."


def _comparisons(cells: Sequence[ImageCell]) -> list[str]:
    """Each method against plain chains, in nats of the log-likelihood."""
    lines = []
    for method in dict.fromkeys(cell.method for cell in cells):
        found = gains(cells, method)
        if method != PLAIN and found:
            each = ", ".join(f"{gain:+.1f} on {data}" for data, gain in found.items())
            lines.append(f"- {method.label} against {PLAIN.label}, nats of the log-likelihood: {each}")
    return lines


def rates_section(folder: Path, protocol: ImageProtocol) -> list[str]:
    """How the rates of the long runs were chosen."""
    rows = []
    for images in protocol.sets.values():
        scores = scores_of(rates_tried(images.name, folder).read())
        for method in images.methods:
            chosen = choice(images, method, protocol, scores)[0]
            for epochs in images.mesh_epochs:
                found = [scores.get(run_of(images.name, method, protocol, rate, epochs)) for rate in protocol.mesh]
                if any(score is not None for score in found):
                    row = f"| {images.name} | {method.label} | {epochs} | {' | '.join(map(_percent, found))} | "
                    rows.append(row + ("not known yet |" if chosen is None else f"{chosen:g} |"))
    if not rows:
        return []
    return [
        "## Rates of the image sets\n",
        "Models with labels joined to the images, runs of so many epochs with each rate: percentage of the held-out "
        "training images whose most probable label is theirs. The best two of the first round get a longer run. "
        "`wcd reproduce --stage=large`\n",
        f"| data | method | epochs | {' | '.join(f'{rate:g}' for rate in protocol.mesh)} | chosen |",
        "|---" * (4 + len(protocol.mesh)) + "|",
        *rows,
        "",
    ]


def _percent(score: float | None) -> str:
    if score is None:
        return ""
    return "diverged" if score < 0 else f"{100 * score:.1f}"


def variants(folder: Path) -> Records:
    """The records of other units and of the plain gradient: of an earlier protocol, which no stage repeats."""
    return Records(folder / "variants.jsonl")


def variants_section(folder: Path) -> list[str]:
    """The best rate of each method with other units and the plain gradient, after short runs."""
    groups: dict[str, list[dict[str, Any]]] = {}
    for record in variants(folder).read():
        run = ImageRun.from_record(record["settings"])
        label = f"{run.image_method.label} ({UNITS[run.units]}{', centred' if run.centered else ''})"
        if record["parzen"] is not None:
            groups.setdefault(label, []).append(record)
    if not groups:
        return []
    rows = []
    for label, mine in groups.items():
        by_parzen = max(mine, key=lambda r: r["parzen"])
        by_annealing = max(mine, key=lambda r: r["annealed"])
        rows.append(
            f"| {label} | {by_parzen['parzen']:.1f} | {by_parzen['settings']['learning_rate']:g} | "
            f"{by_parzen['ess']:.2f} | {by_annealing['annealed']:.1f} | "
            f"{by_annealing['settings']['learning_rate']:g} | {by_annealing['ess']:.2f} |"
        )
    first = ImageRun.from_record(next(iter(groups.values()))[0]["settings"])
    return [
        "## Units and gradients\n",
        f"{first.data}, {first.epochs} epochs, validation images, of 2026-11-17 and an earlier protocol: for each "
        "method the largest Parzen log-likelihood (5000 samples of chains from random states) over the mesh of rates, "
        "with its rate and effective sample size, and the largest one by AIS (which errs upwards), with its own. A "
        f"single run of the kind: `wcd train images --data={first.data} --epochs={first.epochs} --units=spin "
        "--nocentered --learning_rate=0.003`\n",
        "| method (units) | Parzen | rate | ESS | AIS | rate | ESS |",
        "|---" * 7 + "|",
        *rows,
        "",
    ]
