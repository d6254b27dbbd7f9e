"""The sections of the report on the image sets."""

from __future__ import annotations

import itertools
from pathlib import Path

from trainers.settings.image_protocol import ImageProtocol
from trainers.settings.runs import ImageRun
from trainers.studies.images import label_of, long_runs, rates_tried, run_of


def long_runs_section(folder: Path) -> list[str]:
    """The long runs on the image sets."""
    records = long_runs(folder).read()
    if not records:
        return []
    lines = [
        "## Image sets\n",
        "Parzen log-likelihood of the test images under 10^4 and 10^5 samples; log-likelihoods of the test images by "
        "AIS (too high on average) and reverse AIS (too low on average, if its chains start from samples of the model: "
        "where it is the higher one they did not); effective sample size at the end as a fraction of the chains.\n",
        "| data | method | rate | epochs | Parzen 10^4 | 10^5 | AIS | reverse AIS | ESS | minutes |",
        "|---" * 10 + "|",
    ]
    for record in records:
        settings, parzen = record["settings"], dict(zip(*record["parzen"].values(), strict=True))
        low, high = record["annealed"]["test"]
        lines.append(
            f"| {settings['data']} | {label_of(record)} | {settings['learning_rate']:g} | {settings['epochs']} | "
            f"{parzen[10_000]:.1f} | {parzen[100_000]:.1f} | {high:.1f} | {low:.1f} | {record['ess'][-1][1]:.2f} | "
            f"{record['training_seconds'] / 60:.0f} |"
        )
    return [*lines, ""]


def variants_section(folder: Path, protocol: ImageProtocol) -> list[str]:
    """The best rate of each method with other units and the plain gradient, after the first round on the mesh."""
    images = protocol.sets[protocol.variants_on]
    epochs = images.mesh_epochs[0]
    records = [record for record in rates_tried(images.name, folder).read() if record["parzen"] is not None]
    rows = []
    for variant, method in itertools.product(protocol.variants, protocol.methods):
        wanted = {run_of(images.name, method, variant, rate, epochs) for rate in protocol.mesh}
        mine = [record for record in records if ImageRun.from_record(record["settings"]) in wanted]
        if not mine:
            continue
        by_parzen = max(mine, key=lambda r: r["parzen"])
        by_annealing = max(mine, key=lambda r: r["annealed"])
        rows.append(
            f"| {label_of(by_parzen)} | {by_parzen['parzen']:.1f} | {by_parzen['settings']['learning_rate']:g} | "
            f"{by_parzen['ess']:.2f} | {by_annealing['annealed']:.1f} | "
            f"{by_annealing['settings']['learning_rate']:g} | {by_annealing['ess']:.2f} |"
        )
    if not rows:
        return []
    return [
        "## Units and gradients\n",
        f"{images.title}, {epochs} epochs, validation images: for each method the largest Parzen log-likelihood (5000 "
        "samples) over the mesh of rates, with its rate and effective sample size, and the largest one by AIS "
        "(which errs upwards), with its own.\n",
        "| method (units) | Parzen | rate | ESS | AIS | rate | ESS |",
        "|---" * 7 + "|",
        *rows,
        "",
    ]
