"""PCD against WPCD on the four sets of images: the learning rate chosen on a mesh, then one long run of each.

As in the paper: 500 hidden units, batches of 100, momentum 0.75, weight decay 0.0002, a linearly falling rate.
"""

from __future__ import annotations

import datetime
import itertools
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import keras
import numpy as np

import tf_wcd
from trainers.runs.image_quality import full_quality, quick_quality, reference_bandwidth
from trainers.runs.image_sets import Images, Load, load_images, train
from trainers.runs.resumable import Trained
from trainers.settings.image_protocol import ImageSet, Variant
from trainers.settings.runs import ImageMethod, ImageRun
from trainers.store.records import Records
from trainers.store.sharing import Piece, work_off
from trainers.studies.work import Work


def long_runs(folder: Path) -> Records:
    """The records of the long runs."""
    return Records(folder / "runs.jsonl")


def rates_tried(name: str, folder: Path) -> Records:
    """The records of the runs that choose the rates on a set of images."""
    return Records(folder / "selection" / f"{name}.jsonl")


def run_name(data: str, method: ImageMethod, variant: Variant) -> str:
    """What the record of a long run is called."""
    return f"{data}-{method.label}-{variant.units}{'-centered' if variant.centered else ''}"


def run_of(data: str, method: ImageMethod, variant: Variant, rate: float, epochs: int) -> ImageRun:
    """The settings of one run."""
    return ImageRun(data, method.name, variant.units, variant.centered, rate, epochs, method.minimum_ess)


class Mesh:
    """The choice of the rate on one set of images.

    Args:
        images: the set.
        work: protocol, folder and the rest.
        load: reads the images.
    """

    def __init__(self, images: ImageSet, work: Work, load: Load = load_images) -> None:
        self.set, self.work, self.protocol = images, work, work.protocol.images
        self.records = rates_tried(images.name, work.large)
        self.images = load(images)
        self.sigma = reference_bandwidth(self.images.train, self.images.valid)

    def select(self, method: ImageMethod, variant: Variant, rounds: int | None = None) -> float:
        """The rate of the mesh whose short run gives the largest Parzen likelihood of the validation images.

        All rates get a short run, and the best two a longer one (`ImageSet.mesh_epochs`). Finished runs are taken from
        the records.

        Args:
            method: the negative phase.
            variant: units and gradient.
            rounds: how many of the rounds; all by default.
        """
        rates: Sequence[float] = self.protocol.mesh
        for epochs in self.set.mesh_epochs[:rounds]:
            scores: dict[float, float] = {}
            for rate in rates:
                parzen = self._parzen(run_of(self.set.name, method, variant, rate, epochs))
                scores[rate] = -np.inf if parzen is None else parzen
            rates = sorted(scores, key=lambda rate: -scores[rate])[:2]
        return rates[0]

    def _parzen(self, run: ImageRun) -> float | None:
        """What a short run gives; None if it diverges."""
        done = [record for record in self.records.read() if ImageRun.from_record(record["settings"]) == run]
        if not done:
            trained, found = self._short_run(run)
            done = [{"settings": run.as_dict(), **found}]
            self.records.append(*done)
            if trained is not None:
                trained.forget()
        return done[-1]["parzen"]

    def _short_run(self, run: ImageRun) -> tuple[Trained | None, dict[str, Any]]:
        """Trains and evaluates on the validation images; a rate at which training diverges has no figures."""
        keras.utils.clear_session(free_memory=True)  # compiled programs of earlier models would add up
        work, images = self.work, self.images
        try:
            trained, losses = train(
                run, self.protocol, images.train, work.large / "checkpoints", work.plan(), work.verbose
            )
        except tf_wcd.DivergenceError:
            return None, {"parzen": None, "annealed": None, "ess": None, "seconds": None}
        quality = quick_quality(trained.model, images.train, images.valid, self.sigma, self.protocol.seed)
        return trained, {**quality, "ess": round(losses.ess[-1], 4), "seconds": round(trained.seconds, 1)}


def run_one(images: ImageSet, method: ImageMethod, work: Work, load: Load = load_images) -> dict[str, Any]:
    """Chooses the rate on the validation images, trains the long run, and evaluates it on the test images.

    The long run has the training images, and those that were held back to choose the rate.
    """
    protocol, folder = work.protocol.images, work.large
    name = run_name(images.name, method, protocol.main)
    mesh = Mesh(images, work, load)
    run = run_of(images.name, method, protocol.main, mesh.select(method, protocol.main), images.epochs)
    everything = _everything(images, mesh.images)
    trained, losses = train(run, protocol, everything, folder / "checkpoints", work.plan(), work.verbose)
    start = time.monotonic()
    picture = folder / "figures" / _plain(name)
    quality = full_quality(trained.model, everything, mesh.images.test, mesh.sigma, protocol.evaluation, picture)
    points = np.unique(np.linspace(0, len(losses.ess) - 1, 50).astype(int))
    record = {
        "name": name,
        "settings": run.as_dict(),
        **quality,
        "ess": [[int(p) + 1, round(losses.ess[p], 4)] for p in points],
        "training_seconds": round(trained.seconds),
        "evaluation_seconds": round(time.monotonic() - start),
        "date": datetime.date.today().isoformat(),
    }
    long_runs(folder).append(record)
    trained.forget()
    return record


def _everything(images: ImageSet, parts: Images) -> np.ndarray:
    return np.concatenate([parts.train, parts.valid]) if images.held_back else parts.train


def _plain(name: str) -> str:
    return "".join(c if c.isalnum() or c in "-_" else "" for c in name.replace(" ", "_"))


def long_pieces(work: Work, load: Load = load_images) -> list[Piece]:
    """The long runs."""
    protocol, records = work.protocol.images, long_runs(work.large)

    def piece(method: ImageMethod, images: ImageSet) -> Piece:
        name = run_name(images.name, method, protocol.main)
        return Piece(
            work.large / "checkpoints" / f"{images.name}.lock",
            lambda: any(record["name"] == name for record in records.read()),
            lambda: run_one(images, method, work, load),
        )

    return list(itertools.starmap(piece, itertools.product(protocol.methods, protocol.sets.values())))


def variant_pieces(work: Work, load: Load = load_images) -> list[Piece]:
    """The first round of the mesh on one set with other units and the plain gradient: does either matter?"""
    protocol = work.protocol.images
    images = protocol.sets[protocol.variants_on]
    records = rates_tried(images.name, work.large)

    def piece(variant: Variant, method: ImageMethod) -> Piece:
        wanted = {run_of(images.name, method, variant, rate, images.mesh_epochs[0]) for rate in protocol.mesh}
        return Piece(
            work.large / "checkpoints" / f"{images.name}.lock",
            lambda: wanted <= {ImageRun.from_record(record["settings"]) for record in records.read()},
            lambda: Mesh(images, work, load).select(method, variant, rounds=1),
        )

    return list(itertools.starmap(piece, itertools.product(protocol.variants, protocol.methods)))


def run(work: Work, deadline: float = float("inf"), load: Load = load_images) -> int:
    """Runs all that is not done yet; returns how many pieces of work are left.

    Args:
        work: what to work on.
        deadline: time (as of `time.time`) after which nothing is begun.
        load: reads a set of images.
    """
    return work_off([*long_pieces(work, load), *variant_pieces(work, load)], deadline)


def label_of(record: dict[str, Any]) -> str:
    """What a run on images is called in figures and tables."""
    run = ImageRun.from_record(record["settings"])
    kind = {"bernoulli": "0/1", "spin": "spins"}[run.units] + (", centred" if run.centered else "")
    return f"{run.image_method.label} ({kind})"
