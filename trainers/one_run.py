"""One run: on a small problem or on a set of images."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np

from tf_wcd import plots
from trainers import image_evaluation, large_sets
from trainers.records import Records
from trainers.settings import Settings, fingerprint
from trainers.small_run import load_task, train_group

LOOKS = 200


def run_small(settings: Settings, seeds: int, seed: int, folder: Path, verbose: bool = True) -> list[dict[str, Any]]:
    """Trains one setting with one or more seeds; keeps records, models and a picture.

    A run that was interrupted goes on from its last checkpoint when it is asked for again.
    """
    name = (
        f"{settings.problem}-{settings.negative_phase}{settings.gibbs_steps}-{_short(settings.as_dict(), seed, seeds)}"
    )
    result = train_group([settings] * seeds, seed, LOOKS, folder / "checkpoints", name, verbose)
    task = load_task(settings.problem)
    picture = folder / f"{name}.png"
    curves, models = {}, {}
    for i, record in enumerate(result.records[:3]):
        curve = [(at, kl) for at, kl in record["curve"] if kl is not None]
        curves[f"seed {i}"] = tuple(zip(*curve, strict=True))
        models[f"seed {i}"] = np.exp(result.log_probabilities[i])
    picture.parent.mkdir(parents=True, exist_ok=True)
    plots.compare_training(task.probabilities, curves, models, name).savefig(picture)
    for i in range(seeds):
        result.ensemble.member(i).save(folder / f"{name}-{i}.keras")
    Records(folder / "small.jsonl").append(*result.records)
    result.checkpoints.remove()
    values = [record["min_kl"] for record in result.records]
    print(f"Minimum KL along the run: {values} nats; at the end: {[r['final_kl'] for r in result.records]}")
    print(f"Picture: {picture}\nModels: {folder / name}-0.keras ...\nRecords: {folder / 'small.jsonl'}")
    return result.records


def run_images(settings: large_sets.ImageSettings, folder: Path, verbose: bool = True) -> dict[str, Any]:
    """Trains one model on images, evaluates it on the test images, and keeps record, model and pictures."""
    task = large_sets.TASKS[settings.data]
    images = large_sets.load_images(task)
    name = f"{settings.data}-{_short(dataclasses.asdict(settings))}"
    rbm, losses, seconds = large_sets.train(settings, images.train, folder / "checkpoints", verbose)
    folder.mkdir(parents=True, exist_ok=True)  # a short run has left no checkpoint there
    rbm.save(folder / f"{name}.keras")
    print("Evaluating on the test images: 10^5 samples, Parzen windows and annealing (a few minutes)", flush=True)
    sigma = image_evaluation.reference_bandwidth(images.train, images.valid)
    quality = image_evaluation.full_quality(rbm, images.train, images.test, sigma, large_sets.SEED, folder / name)
    record = {
        "settings": dataclasses.asdict(settings),
        **quality,
        "ess": round(losses.values[-1][2], 4),
        "seconds": round(seconds, 1),
    }
    Records(folder / "images.jsonl").append(record)
    low, high = quality["annealed"]["test"]
    print(f"Log-likelihood of the test images: between {low} and {high} nats (reverse AIS and AIS)")
    parzen = quality["parzen"]
    print(f"Parzen: {parzen['values'][-1]} nats under {parzen['counts'][-1]} samples, sigma {sigma:.3f}")
    print(f"Model: {folder / name}.keras\nPictures: {folder / name}-samples.png, {folder / name}-filters.png")
    return record


def _short(*facts: Any) -> str:
    return fingerprint(facts=facts)[:8]
