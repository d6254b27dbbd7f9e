"""Weighted and plain persistent chains on the four sets of images, as the paper runs them: the rate chosen on a mesh.

500 hidden units, batches of 100, momentum 0.75, weight decay 0.0002, a linearly falling rate. The rate is that of the
models with labels joined to the images which classify best; the long runs have no labels. Our one departure: these
models are compared on held-out training images, where the paper took those of the test.
"""

from __future__ import annotations

import datetime
import itertools
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import keras
import numpy as np

import tf_wcd
from trainers.runs.image_quality import full_quality, parzen_curve, reference_bandwidth
from trainers.runs.image_sets import Images, Load, accuracy, load_images, train
from trainers.settings.image_protocol import ImageProtocol, ImageSet
from trainers.settings.runs import ImageMethod, ImageRun
from trainers.store.records import Records
from trainers.store.sharing import Piece, work_off
from trainers.studies.work import Work

CANDIDATES = 2  # rates that get another, longer run


def long_runs(folder: Path) -> Records:
    """The records of the long runs."""
    return Records(folder / "runs.jsonl")


def rates_tried(name: str, folder: Path) -> Records:
    """The records of the runs with labels that choose the rates on a set of images."""
    return Records(folder / "selection" / f"{name}.jsonl")


def references(folder: Path) -> Records:
    """The records of what is computed once for a set: the width of the Parzen window, the training images' curve."""
    return Records(folder / "references.jsonl")


def run_name(data: str, method: ImageMethod, seed: int) -> str:
    """What the record of a long run is called."""
    return f"{data}-{method.label}-{seed}"


def run_of(data: str, method: ImageMethod, protocol: ImageProtocol, rate: float, epochs: int) -> ImageRun:
    """The settings of one run."""
    return ImageRun(data, method.name, protocol.main.units, protocol.main.centered, rate, epochs, method.minimum_ess)


# Choosing the rate


def scores_of(records: Sequence[Mapping[str, Any]]) -> dict[ImageRun, float]:
    """Accuracy of each run with labels that was recorded; -1 where training has diverged."""
    return {ImageRun.from_record(r["settings"]): -1.0 if r["accuracy"] is None else r["accuracy"] for r in records}


def choice(
    images: ImageSet, method: ImageMethod, protocol: ImageProtocol, scores: Mapping[ImageRun, float]
) -> tuple[float | None, ImageRun | None]:
    """The rate of the mesh, if it is known, and else the run with labels that is to be made next.

    All rates get a short run, and the best two a longer one (`ImageSet.mesh_epochs`). Of equal accuracies the one with
    the smaller rate counts.

    Args:
        images: the set.
        method: the negative phase.
        protocol: mesh, units and gradient.
        scores: see `scores_of`.
    """
    rates = list(protocol.mesh)
    for epochs in images.mesh_epochs:
        runs = {rate: run_of(images.name, method, protocol, rate, epochs) for rate in rates}
        for run in runs.values():
            if run not in scores:
                return None, run
        rates = sorted(rates, key=lambda rate: (-scores[runs[rate]], rate))[:CANDIDATES]
    return rates[0], None


def choose_rate(images: ImageSet, method: ImageMethod, work: Work, parts: Images) -> float:
    """The rate of a method on a set, from the records or by the runs that are missing there."""
    records = rates_tried(images.name, work.large)
    while True:
        rate, run = choice(images, method, work.protocol.images, scores_of(records.read()))
        if rate is not None:
            return rate
        assert run is not None
        records.append(_run_with_labels(run, work, parts))


def _run_with_labels(run: ImageRun, work: Work, parts: Images) -> dict[str, Any]:
    """Trains a model of images and labels, and counts the held-out images that it classifies right."""
    if parts.labels is None:
        raise ValueError(f"Rates are chosen by labels, and {run.data} came without them.")
    keras.utils.clear_session(free_memory=True)  # compiled programs of earlier models would add up
    protocol, checkpoints = work.protocol.images, work.large / "checkpoints"
    record: dict[str, Any] = {
        "settings": run.as_dict(),
        "accuracy": None,
        "ess": None,
        "seconds": None,
        "cpu_seconds": None,
    }
    try:
        trained, losses = train(run, protocol, parts.train, checkpoints, work.plan(), work.verbose, parts.labels)
    except tf_wcd.DivergenceError:
        return record
    record |= {
        "accuracy": round(accuracy(trained.model, parts.valid, parts.labels.valid), 5),
        "ess": round(losses.ess[-1], 4),
        "seconds": round(trained.seconds, 1),
        "cpu_seconds": round(trained.cpu_seconds, 1),
    }
    trained.forget()
    return record


# The long runs


def reference_of(images: ImageSet, parts: Images, work: Work) -> dict[str, Any]:
    """What is computed once for a set; see `references`."""
    records = references(work.large)
    for record in records.read():
        if record["data"] == images.name:
            return record
    sigma = reference_bandwidth(parts.train, parts.valid)
    everything = _everything(images, parts)
    curve = parzen_curve(everything, parts.test, sigma, work.protocol.images.evaluation.counts)
    record = {"data": images.name, "sigma": round(sigma, 4), "parzen": curve}
    records.append(record)
    return record


def run_one(images: ImageSet, method: ImageMethod, seed: int, work: Work, load: Load = load_images) -> dict[str, Any]:
    """Chooses the rate, if that is still to do, trains a long run and evaluates it on the test images.

    The long run has the training images, and those that were held back to choose the rate. A training that diverges is
    recorded without figures.
    """
    protocol, parts = work.protocol.images, load(images)
    run = run_of(images.name, method, protocol, choose_rate(images, method, work, parts), images.epochs)
    name, everything = run_name(images.name, method, seed), _everything(images, parts)
    record: dict[str, Any] = {"name": name, "settings": run.as_dict(), "seed": seed, "parzen": None, "likelihood": None}
    keras.utils.clear_session(free_memory=True)
    plan, checkpoints = work.plan(), work.large / "checkpoints"
    try:
        trained, losses = train(run, protocol._replace(seed=seed), everything, checkpoints, plan, work.verbose)
    except tf_wcd.DivergenceError:
        record |= {"date": datetime.date.today().isoformat()}
        long_runs(work.large).append(record)
        return record
    start = time.process_time()
    picture = work.large / "figures" / _plain(name) if seed == images.seeds[0] else None
    sigma = reference_of(images, parts, work)["sigma"]
    record |= full_quality(trained.model, everything, parts.test, sigma, protocol.evaluation, picture)
    points = np.unique(np.linspace(0, len(losses.ess) - 1, 50).astype(int))
    record |= {
        "ess": [[int(p) + 1, round(losses.ess[p], 4)] for p in points],
        "training_seconds": round(trained.seconds),
        "training_cpu_seconds": round(trained.cpu_seconds),
        "evaluation_cpu_seconds": round(time.process_time() - start),
        "date": datetime.date.today().isoformat(),
    }
    long_runs(work.large).append(record)
    trained.forget()
    return record


def _everything(images: ImageSet, parts: Images) -> np.ndarray:
    return np.concatenate([parts.train, parts.valid]) if images.held_back else parts.train


def _plain(name: str) -> str:
    return "".join(c if c.isalnum() or c in "-_" else "" for c in name.replace(" ", "_"))


# The stage


def rate_pieces(work: Work, load: Load = load_images) -> Iterator[Piece]:
    """The choice of each rate, set by set."""
    protocol = work.protocol.images

    def piece(images: ImageSet, method: ImageMethod) -> Piece:
        def done() -> bool:
            scores = scores_of(rates_tried(images.name, work.large).read())
            return choice(images, method, protocol, scores)[0] is not None

        return Piece(_lock(images, work), done, lambda: choose_rate(images, method, work, load(images)))

    return (piece(images, method) for images in protocol.sets.values() for method in images.methods)


def long_pieces(work: Work, load: Load = load_images) -> Iterator[Piece]:
    """The long runs, set by set; in a set all methods with one seed come before any with the next."""
    records = long_runs(work.large)

    def piece(images: ImageSet, seed: int, method: ImageMethod) -> Piece:
        name = run_name(images.name, method, seed)
        return Piece(
            _lock(images, work),
            lambda: any(record["name"] == name for record in records.read()),
            lambda: run_one(images, method, seed, work, load),
        )

    for images in work.protocol.images.sets.values():
        yield from itertools.starmap(piece, itertools.product([images], images.seeds, images.methods))


def _lock(images: ImageSet, work: Work) -> Path:
    """What a process claims that works on a set."""
    return work.large / "checkpoints" / f"{images.name}.lock"


def run(work: Work, deadline: float = float("inf"), load: Load = load_images) -> int:
    """Does all that is neither done nor worked on by another process; returns how many pieces of work are left.

    Args:
        work: what to work on.
        deadline: time (as of `time.time`) after which nothing is begun.
        load: reads a set of images.
    """
    return work_off([*rate_pieces(work, load), *long_pieces(work, load)], deadline)
