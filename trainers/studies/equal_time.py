"""All methods on one set of images, each with as many updates as fit into the same time.

The costs of an update are measured once and kept, so that a study that goes on later makes the same runs.
"""

from __future__ import annotations

import datetime
import itertools
import time
from pathlib import Path
from typing import Any

import keras

import tf_wcd
from trainers.runs.image_costs import cost_ratios
from trainers.runs.image_likelihood import annealed_quality
from trainers.runs.image_sets import Images, Load, load_images, train
from trainers.settings.runs import ImageMethod, ImageRun
from trainers.settings.weights_protocol import EqualTimeProtocol
from trainers.store.records import Records
from trainers.store.sharing import Piece, work_off
from trainers.studies.work import Work


def costs(folder: Path) -> Records:
    """The records of what an update costs, as a ratio."""
    return Records(folder / "equal_time" / "costs.jsonl")


def runs_done(folder: Path) -> Records:
    """The records of the runs."""
    return Records(folder / "equal_time" / "runs.jsonl")


def run_of(method: ImageMethod, rate: float, updates: int, work: Work) -> ImageRun:
    """The settings of one run."""
    protocol, variant = work.protocol.equal_time, work.protocol.images.main
    units, centered, epochs = variant.units, variant.centered, protocol.epochs
    return ImageRun(protocol.data, method.name, units, centered, rate, epochs, method.minimum_ess, updates)


def method_of(record: dict[str, Any]) -> ImageMethod:
    """The method of a run that was recorded."""
    return ImageRun.from_record(record["settings"]).image_method


def known_costs(folder: Path, protocol: EqualTimeProtocol) -> dict[str, float]:
    """What an update of each method costs, by its label, as far as it has been measured; the reference costs 1."""
    return {protocol.reference.label: 1.0, **{record["method"]: record["cost"] for record in costs(folder).read()}}


def cost_of(method: ImageMethod, work: Work, images: Images) -> float:
    """Time of an update over that of the reference: from the records, or measured now and kept."""
    protocol = work.protocol.equal_time
    known = known_costs(work.large, protocol)
    if method.label not in known:
        new = [other for other in protocol.methods if other.label not in known]
        compared = [run_of(other, protocol.rates[0], 1, work) for other in (protocol.reference, *new)]
        ratios = cost_ratios(compared, work.protocol.images, images.train, protocol.timing)[1:]
        today = datetime.date.today().isoformat()
        measured = {other.label: round(ratio, 3) for other, ratio in zip(new, ratios, strict=True)}
        costs(work.large).append(*({"method": name, "cost": cost, "date": today} for name, cost in measured.items()))
        known |= measured
    return known[method.label]


def run_one(method: ImageMethod, rate: float, seed: int, work: Work, load: Load = load_images) -> dict[str, Any]:
    """Trains one model for the time that all have, and evaluates it on the test images; keeps and returns its record.

    A rate at which training diverges has no figures.
    """
    protocol, everywhere = work.protocol.equal_time, work.protocol.images._replace(seed=seed)
    images = load(everywhere.sets[protocol.data])
    reference_updates = protocol.epochs * -(-len(images.train) // everywhere.batch_size)
    cost = cost_of(method, work, images)
    run = run_of(method, rate, round(reference_updates / cost), work)
    keras.utils.clear_session(free_memory=True)  # compiled programs of earlier models would add up
    record = {"settings": run.as_dict(), "seed": seed, "cost": cost}
    found: dict[str, Any] = {"annealed": None, "ess": None, "training_seconds": None, "evaluation_seconds": None}
    trained = None
    try:
        trained, losses = train(run, everywhere, images.train, work.large / "checkpoints", work.plan(), work.verbose)
    except tf_wcd.DivergenceError:
        pass
    else:
        start = time.monotonic()
        found = {
            "annealed": annealed_quality(
                trained.model, images.train, images.test, protocol.temperatures, protocol.evaluation_seed
            ),
            "ess": round(losses.ess[-1], 4),
            "training_seconds": round(trained.seconds, 1),
            "evaluation_seconds": round(time.monotonic() - start, 1),
        }
    record |= {**found, "date": datetime.date.today().isoformat()}
    runs_done(work.large).append(record)
    if trained is not None:
        trained.forget()
    return record


def run(work: Work, deadline: float = float("inf"), load: Load = load_images) -> int:
    """Runs all that is not done yet; returns how many pieces of work are left.

    Args:
        work: what to work on.
        deadline: time (as of `time.time`) after which nothing is begun.
        load: reads the images.
    """
    protocol, records = work.protocol.equal_time, runs_done(work.large)

    def piece(seed: int, rate: float, method: ImageMethod) -> Piece:
        def done() -> bool:
            return any(_is_of(record, method, rate, seed) for record in records.read())

        lock = work.large / "checkpoints" / "equal_time.lock"
        return Piece(lock, done, lambda: run_one(method, rate, seed, work, load))

    # All methods with one seed come before any with the next.
    every = itertools.product(protocol.seeds, protocol.rates, protocol.methods)
    return work_off(itertools.starmap(piece, every), deadline)


def _is_of(record: dict[str, Any], method: ImageMethod, rate: float, seed: int) -> bool:
    return (method_of(record), record["settings"]["learning_rate"], record["seed"]) == (method, rate, seed)
