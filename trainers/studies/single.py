"""One run: on a small problem or on a set of images."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import keras
import numpy as np

from tf_wcd import plots
from trainers.runs.image_quality import full_quality, reference_bandwidth
from trainers.runs.image_sets import Images, Load, load_images, train
from trainers.runs.resumable import Plan
from trainers.runs.small_problems import Result, Training, load_task, train_group
from trainers.settings.image_protocol import ImageProtocol
from trainers.settings.runs import ImageRun, SmallRun, fingerprint
from trainers.store.files import save_model
from trainers.store.records import Records

EVALUATIONS = 200


def run_small(
    settings: SmallRun, seeds: int, seed: int, folder: Path, plan: Plan | None = None, verbose: bool = True
) -> list[dict[str, Any]]:
    """Trains one setting with one or more seeds; keeps records, models and a picture.

    A run that was interrupted goes on from its last checkpoint when it is asked for again, and one that is finished is
    not run again, but for a plan without ``resume``.

    Args:
        settings: of the run.
        seeds: number of models.
        seed: of all of them.
        folder: where everything goes.
        plan: how the run is kept and shared.
        verbose: whether there is a progress line.
    """
    plan = plan or Plan()
    workers = plan.workers
    facts = {**settings.as_dict(), "seed": seed, "members": seeds}
    name = f"{settings.problem}-{settings.negative_phase}{settings.gibbs_steps}-{fingerprint(**facts)[:8]}"
    records = Records(folder / "small.jsonl")

    def ours(record: dict[str, Any]) -> bool:
        return (SmallRun.from_record(record), record["seed"], record["members"]) == (settings, seed, seeds)

    if not plan.resume and workers.chief:
        records.remove(ours)
    workers.wait()
    done = {record["member"]: record for record in records.read() if ours(record)}
    workers.agree(len(done), "records")
    if len(done) < seeds:
        training = Training(seed, EVALUATIONS, folder / "checkpoints", name, verbose, plan)
        result = train_group([settings] * seeds, training)
        members = [result.ensemble.member(i) for i in range(seeds)]
        if workers.chief:
            _draw(result, settings, name, folder)
            for i, member in enumerate(members):
                save_model(member.save, folder / f"{name}-{i}.keras")
            # The records come last: a run that has them is finished.
            records.append(*(record for i, record in enumerate(result.records) if i not in done))
        done |= dict(enumerate(result.records))
        result.forget()
        workers.wait()
    elif workers.chief:
        print(f"{name}: finished already (--noresume begins anew)")
    found = [done[i] for i in range(seeds)]
    if workers.chief:
        print(f"Minimum KL along the run: {[r['min_kl'] for r in found]} nats; at the end: "
              f"{[r['final_kl'] for r in found]}")  # fmt: skip
        print(f"Picture: {folder / name}.png\nModels: {folder / name}-0.keras ...\nRecords: {records.path}")
    return found


def _draw(result: Result, settings: SmallRun, name: str, folder: Path) -> None:
    task = load_task(settings.problem)
    curves, models = {}, {}
    for i, record in enumerate(result.records[:3]):
        curve = [(at, kl) for at, kl in record["curve"] if kl is not None]
        curves[f"seed {i}"] = tuple(zip(*curve, strict=True))
        models[f"seed {i}"] = np.exp(result.log_probabilities[i])
    folder.mkdir(parents=True, exist_ok=True)
    plots.compare_training(task.probabilities, curves, models, name).savefig(folder / f"{name}.png")


def run_images(
    run: ImageRun,
    folder: Path,
    plan: Plan | None = None,
    verbose: bool = True,
    protocol: ImageProtocol | None = None,
    load: Load = load_images,
) -> dict[str, Any]:
    """Trains one model on images, evaluates it on the test images, and keeps record, model and pictures.

    As with `run_small`, an interrupted run goes on and a finished one is not run again. With several workers the chief
    evaluates and writes, and the others wait for it.

    Args:
        run: its settings.
        folder: where everything goes.
        plan: how the run is kept and shared.
        verbose: whether there is a progress line.
        protocol: what is not in the settings; the paper's by default.
        load: reads the images.
    """
    plan, protocol = plan or Plan(), protocol or ImageProtocol()
    workers = plan.workers
    name = f"{run.data}-{fingerprint(**run.as_dict())[:8]}"
    records = Records(folder / "images.jsonl")

    def ours(record: dict[str, Any]) -> bool:
        return ImageRun.from_record(record["settings"]) == run

    if not plan.resume and workers.chief:
        records.remove(ours)
    workers.wait()
    done = [record for record in records.read() if ours(record)]
    if workers.agree(len(done), "records"):
        print(f"{name}: finished already (--noresume begins anew), see {records.path}")
        return done[-1]
    images = load(protocol.sets[run.data])
    trained, losses = train(run, protocol, images.train, folder / "checkpoints", plan, verbose)
    path = folder / f"{name}.keras"
    folder.mkdir(parents=True, exist_ok=True)
    workers.save(lambda target: save_model(trained.model.save, target), path)
    record = {"settings": run.as_dict(), "ess": round(losses.ess[-1], 4), "seconds": round(trained.seconds, 1)}
    if workers.chief:
        # One device is enough from here on: the model as it was saved has all chains.
        rbm = keras.models.load_model(path) if workers.several else trained.model
        record |= _evaluate(rbm, images, protocol, folder / name)
        records.append(record)
        trained.forget()
        print(f"Model: {path}\nPictures: {folder / name}-samples.png, {folder / name}-filters.png")
    workers.wait()
    return record


def _evaluate(rbm: Any, images: Images, protocol: ImageProtocol, stem: Path) -> dict[str, Any]:
    print("Evaluating on the test images: samples, Parzen windows and annealing (a few minutes)", flush=True)
    sigma = reference_bandwidth(images.train, images.valid)
    quality = full_quality(rbm, images.train, images.test, sigma, protocol.evaluation, stem)
    found = quality["likelihood"]
    ends = f"between {found['lower']:.2f} and {found['upper']:.2f}"
    print(f"Log-likelihood of the test images: {found['estimate']:.2f} nats, {ends}. {found['reason']}")
    for kind, words in (("equilibrium", "of the equilibrium"), ("data", "of chains from training images")):
        parzen = quality["parzen"][kind]
        print(f"Parzen: {parzen['values'][-1]} nats under {parzen['counts'][-1]} samples {words}, sigma {sigma:.3f}")
    return {"sigma": round(sigma, 4), **quality}
