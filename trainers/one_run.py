"""One run: on a small problem or on a set of images."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import keras
import numpy as np

from tf_wcd import plots
from trainers import image_evaluation, large_sets
from trainers.checkpoints import Plan
from trainers.records import Records
from trainers.settings import Settings, fingerprint
from trainers.small_run import Result, load_task, train_group
from trainers.workers import Workers

LOOKS = 200


def run_small(
    settings: Settings, seeds: int, seed: int, folder: Path, verbose: bool = True, plan: Plan | None = None
) -> list[dict[str, Any]]:
    """Trains one setting with one or more seeds; keeps records, models and a picture.

    A run that was interrupted goes on from its last checkpoint when it is asked for again, and one that is finished is
    not run again, but for a plan without ``resume``.
    """
    plan = plan or Plan()
    workers = plan.workers or Workers()
    name = (
        f"{settings.problem}-{settings.negative_phase}{settings.gibbs_steps}-{_short(settings.as_dict(), seed, seeds)}"
    )
    records = Records(folder / "small.jsonl")
    facts = {**settings.as_dict(), "seed": seed, "members": seeds}

    def ours(record: dict[str, Any]) -> bool:
        return facts.items() <= {key: value for key, value in record.items() if key in facts}.items()

    if not plan.resume and workers.chief:
        records.remove(ours)
    workers.wait()
    done = {record["member"]: record for record in records.read() if ours(record)}
    workers.agree(len(done), "records")
    if len(done) < seeds:
        result = train_group([settings] * seeds, seed, LOOKS, folder / "checkpoints", name, verbose, plan)
        members = [result.ensemble.member(i) for i in range(seeds)]
        if workers.chief:
            _draw(result, settings, name, folder)
            for i, member in enumerate(members):
                member.save(folder / f"{name}-{i}.keras")
            # The records come last: a run that has them is finished.
            records.append(*(record for i, record in enumerate(result.records) if i not in done))
        done |= dict(enumerate(result.records))
        result.checkpoints.remove()
        workers.wait()
    elif workers.chief:
        print(f"{name}: finished already (--noresume begins anew)")
    found = [done[i] for i in range(seeds)]
    if workers.chief:
        print(f"Minimum KL along the run: {[r['min_kl'] for r in found]} nats; at the end: "
              f"{[r['final_kl'] for r in found]}")  # fmt: skip
        print(f"Picture: {folder / name}.png\nModels: {folder / name}-0.keras ...\nRecords: {records.path}")
    return found


def _draw(result: Result, settings: Settings, name: str, folder: Path) -> None:
    task = load_task(settings.problem)
    curves, models = {}, {}
    for i, record in enumerate(result.records[:3]):
        curve = [(at, kl) for at, kl in record["curve"] if kl is not None]
        curves[f"seed {i}"] = tuple(zip(*curve, strict=True))
        models[f"seed {i}"] = np.exp(result.log_probabilities[i])
    folder.mkdir(parents=True, exist_ok=True)
    plots.compare_training(task.probabilities, curves, models, name).savefig(folder / f"{name}.png")


def run_images(
    settings: large_sets.ImageSettings, folder: Path, verbose: bool = True, plan: Plan | None = None
) -> dict[str, Any]:
    """Trains one model on images, evaluates it on the test images, and keeps record, model and pictures.

    As with `run_small`, an interrupted run goes on and a finished one is not run again. With several workers the chief
    evaluates and writes, and the others wait for it.
    """
    plan = plan or Plan()
    workers = plan.workers or Workers()
    facts = dataclasses.asdict(settings)
    name = f"{settings.data}-{_short(facts)}"
    records = Records(folder / "images.jsonl")
    if not plan.resume and workers.chief:
        records.remove(lambda record: record["settings"] == facts)
    workers.wait()
    done = [record for record in records.read() if record["settings"] == facts]
    if workers.agree(len(done), "records"):
        print(f"{name}: finished already (--noresume begins anew), see {records.path}")
        return done[-1]
    images = large_sets.load_images(large_sets.TASKS[settings.data])
    rbm, losses, seconds = large_sets.train(settings, images.train, folder / "checkpoints", verbose, plan)
    path = folder / f"{name}.keras"
    folder.mkdir(parents=True, exist_ok=True)
    workers.save(rbm.save, path)
    record: dict[str, Any] = {"settings": facts, "ess": round(losses.values[-1][2], 4), "seconds": round(seconds, 1)}
    if workers.chief:
        # One device is enough from here on: the model as it was saved has all chains.
        record |= _evaluate(keras.models.load_model(path) if workers.several else rbm, images, folder / name)
        records.append(record)
        large_sets.forget(folder / "checkpoints", settings, len(images.train))
        print(f"Model: {path}\nPictures: {folder / name}-samples.png, {folder / name}-filters.png")
    workers.wait()
    return record


def _evaluate(rbm: Any, images: large_sets.Images, stem: Path) -> dict[str, Any]:
    print("Evaluating on the test images: 10^5 samples, Parzen windows and annealing (a few minutes)", flush=True)
    sigma = image_evaluation.reference_bandwidth(images.train, images.valid)
    quality = image_evaluation.full_quality(rbm, images.train, images.test, sigma, large_sets.SEED, stem)
    low, high = quality["annealed"]["test"]
    print(f"Log-likelihood of the test images: between {low} and {high} nats (reverse AIS and AIS)")
    parzen = quality["parzen"]
    print(f"Parzen: {parzen['values'][-1]} nats under {parzen['counts'][-1]} samples, sigma {sigma:.3f}")
    return quality


def _short(*facts: Any) -> str:
    return fingerprint(facts=facts)[:8]
