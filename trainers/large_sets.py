"""PCD against WPCD on the four sets of images: the learning rate chosen on a mesh, then one long run of each.

As in the paper: 500 hidden units, batches of 100, momentum 0.75, weight decay 0.0002, a linearly falling rate. Besides
its two methods there is WPCD with tempered weights, which keep an effective sample size of half of the chains.
"""

from __future__ import annotations

import dataclasses
import datetime
import itertools
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import keras
import numpy as np

import tf_wcd
from tf_wcd.negative_phases import PCD, WPCD, NegativePhase
from trainers import image_evaluation
from trainers.checkpoints import Checkpoints, Plan
from trainers.progress import ProgressLine
from trainers.records import Piece, Records, work_off
from trainers.settings import fingerprint

HIDDEN = 500
BATCH_SIZE = 100
MOMENTUM = 0.75
WEIGHT_DECAY = 0.0002
MESH = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0)
SEED = 11


class ImageTask(NamedTuple):
    """How long runs on a set of images are, and how its grey levels are read.

    Attributes:
        name: of the data set.
        title: what figures call it.
        binarize: how grey levels are read.
        epochs: length of the long run.
        mesh_epochs: length of the runs that choose its rate: all rates of the mesh, then the best two of them.
    """

    name: str
    title: str
    binarize: str
    epochs: int
    mesh_epochs: tuple[int, ...]


# The paper trains for 1000 epochs on all four.
TASKS = {
    task.name: task
    for task in (
        ImageTask("caltech101_silhouettes", "Caltech-101 Silhouettes", "threshold", 1000, (40, 200)),
        ImageTask("ocr_letters", "OCR letters", "threshold", 1000, (20, 100)),
        ImageTask("mnist", "MNIST", "stochastic", 100, (4,)),
        ImageTask("fashion_mnist", "Fashion-MNIST", "threshold", 100, (4,)),
    )
}


def phase_of(method: str) -> NegativePhase:
    """The negative phase of a method's name: "PCD", "WPCD", or "WPCD, ESS >= 50%" for tempered weights."""
    if method == "PCD":
        return PCD()
    if method == "WPCD":
        return WPCD()
    return WPCD(minimum_ess=float(method.rpartition(" ")[2].rstrip("%")) / 100)


METHODS = ("PCD", "WPCD", "WPCD, ESS >= 50%")


class Variant(NamedTuple):
    """Type of the units of both layers, and whether the gradient is centred."""

    units: str
    centered: bool


# The long runs; then what is tried on OCR letters beside them.
MAIN = Variant("bernoulli", True)
VARIANTS = (MAIN, Variant("bernoulli", False), Variant("spin", False), Variant("spin", True))


@dataclasses.dataclass(frozen=True)
class ImageSettings:
    """All that defines a run, but for its seed.

    Attributes:
        data: name of the set of images.
        method: one of `METHODS`.
        units: "bernoulli" or "spin", of both layers.
        centered: whether the gradient is centred.
        learning_rate: at the start; it falls linearly to zero.
        epochs: passes over the training images.
    """

    data: str
    method: str
    units: str
    centered: bool
    learning_rate: float
    epochs: int


class Images(NamedTuple):
    """A set of images: what is trained on, what choices are made on, and what is only looked at in the end."""

    train: np.ndarray
    valid: np.ndarray
    test: np.ndarray


def load_images(task: ImageTask) -> Images:
    """Images of 0 and 1; where there is no validation part of its own, the last 5000 training images are it."""
    if "valid" in tf_wcd.datasets.IMAGES[task.name].rows:
        parts = tf_wcd.datasets.load(task.name, task.binarize, validation=True, seed=0)
        return Images(*(x for x, _ in parts))
    (train, _), (test, _) = tf_wcd.datasets.load(task.name, task.binarize, seed=0)
    return Images(train[:-5000], train[-5000:], test)


class Losses(keras.callbacks.Callback):
    """The metrics of each epoch, kept through interruptions."""

    names = ("loss", "reconstruction_error", "ess")

    def __init__(self) -> None:
        super().__init__()
        self.values: list[list[float]] = []

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        self.values.append([float(logs[name]) for name in self.names])

    def state(self) -> dict[str, np.ndarray]:
        return {"values": np.array(self.values)}

    def restore(self, state: Any) -> None:
        self.values = state["values"].tolist()


def build(settings: ImageSettings, updates: int, pixels: int) -> tf_wcd.RBMLayer:
    """The model of a run, compiled."""
    rbm = tf_wcd.RBMLayer(
        HIDDEN,
        visible_type=settings.units,
        hidden_type=settings.units,
        negative_phase=phase_of(settings.method),
        centered=settings.centered,
        kernel_initializer=keras.initializers.RandomNormal(stddev=0.01, seed=SEED),
        seed=SEED,
    )
    rbm.build((None, pixels))
    optimizer = keras.optimizers.SGD(
        keras.optimizers.schedules.PolynomialDecay(settings.learning_rate, updates, 0.0),
        momentum=MOMENTUM,
        weight_decay=WEIGHT_DECAY,
    )
    optimizer.exclude_from_weight_decay(var_list=[rbm.visible_bias, rbm.hidden_bias])
    rbm.compile(optimizer)
    return rbm


def train(
    settings: ImageSettings,
    x: np.ndarray,
    checkpoints: Path | None = None,
    verbose: bool = True,
    plan: Plan | None = None,
) -> tuple[tf_wcd.RBMLayer, Losses, float]:
    """Trains one model on images of 0 and 1; returns it, its metrics along the way, and the seconds it took."""
    updates = -(-len(x) // BATCH_SIZE)
    losses = Losses()
    saved = Checkpoints(_stem(checkpoints or Path("checkpoints"), settings, len(x)), losses, plan)
    if not saved.plan.resume:
        saved.remove()
        saved.workers.wait()
    rbm, first_epoch = saved.restore() if checkpoints else (None, 0)
    inputs = image_evaluation.in_units(x, settings.units)
    if rbm is None:
        with saved.workers.strategy.scope():
            rbm = build(settings, updates * settings.epochs, x.shape[1])
            rbm.start_at_means(inputs)
    callbacks: list[keras.callbacks.Callback] = [losses]
    if checkpoints:
        callbacks.append(saved)
    if verbose and saved.workers.chief:
        title = f"{settings.data} {settings.method} rate {settings.learning_rate}"
        callbacks.append(ProgressLine(title, settings.epochs, updates, losses.names))
    try:
        rbm.fit(
            inputs,
            batch_size=BATCH_SIZE,
            epochs=settings.epochs,
            initial_epoch=first_epoch,
            callbacks=callbacks,
            verbose=0,
        )
    finally:
        saved.release()
    return rbm, losses, saved.seconds()


def select_rate(
    task: ImageTask,
    images: Images,
    sigma: float,
    method: str,
    variant: Variant,
    folder: Path,
    rounds: int | None = None,
) -> float:
    """The rate of the mesh whose short run gives the largest Parzen likelihood of the validation images.

    All rates get a short run, and the best two a longer one (`ImageTask.mesh_epochs`).

    Args:
        task: the set of images.
        images: its images.
        sigma: width of the Parzen window.
        method: one of `METHODS`.
        variant: units and gradient.
        folder: where the records are; finished runs are taken from there.
        rounds: how many of the rounds; all by default.
    """
    records = Records(folder / "selection" / f"{task.name}.jsonl")
    rates: Sequence[float] = MESH
    for epochs in task.mesh_epochs[:rounds]:
        scores: dict[float, float] = {}
        for rate in rates:
            settings = ImageSettings(task.name, method, *variant, rate, epochs)
            facts = dataclasses.asdict(settings)
            done = [record for record in records.read() if record["settings"] == facts]
            if not done:
                done = [{"settings": facts, **_short_run(settings, images, sigma, folder)}]
                records.append(*done)
                forget(folder / "checkpoints", settings, len(images.train))
            scores[rate] = done[-1]["parzen"] if done[-1]["parzen"] is not None else -np.inf
        rates = sorted(scores, key=lambda rate: -scores[rate])[:2]
    return rates[0]


def _short_run(settings: ImageSettings, images: Images, sigma: float, folder: Path) -> dict[str, Any]:
    """Trains and looks at the validation images; a rate at which training diverges has no figures."""
    keras.utils.clear_session(free_memory=True)  # compiled programs of earlier models would add up
    try:
        rbm, losses, seconds = train(settings, images.train, folder / "checkpoints")
    except tf_wcd.DivergenceError:
        return {"parzen": None, "annealed": None, "ess": None, "seconds": None}
    quality = image_evaluation.quick_quality(rbm, images.train, images.valid, sigma, SEED)
    return {**quality, "ess": round(losses.values[-1][2], 4), "seconds": round(seconds, 1)}


def run_variants(folder: Path, deadline: float = float("inf")) -> int:
    """The first round of the mesh on OCR letters with other units and the plain gradient: does either matter?"""
    task = TASKS["ocr_letters"]
    records = Records(folder / "selection" / f"{task.name}.jsonl")

    def piece(variant: Variant, method: str) -> Piece:
        facts = [dataclasses.asdict(ImageSettings(task.name, method, *variant, r, task.mesh_epochs[0])) for r in MESH]

        def work() -> None:
            images = load_images(task)
            sigma = image_evaluation.reference_bandwidth(images.train, images.valid)
            select_rate(task, images, sigma, method, variant, folder, rounds=1)

        def done() -> bool:
            have = [record["settings"] for record in records.read()]
            return all(run in have for run in facts)

        return Piece(folder / "checkpoints" / f"{task.name}.lock", done, work)

    return work_off(itertools.starmap(piece, itertools.product(VARIANTS, METHODS)), deadline)


def run_name(data: str, method: str, variant: Variant = MAIN) -> str:
    """What the record of a long run is called."""
    return f"{data}-{method}-{variant.units}{'-centered' if variant.centered else ''}"


def run_one(task: ImageTask, method: str, folder: Path, variant: Variant = MAIN) -> dict[str, Any]:
    """Chooses the rate on the validation images, trains the long run, and evaluates it on the test images.

    The long run has the training images, and those that were held back where the set has no validation part of its own.
    """
    name = run_name(task.name, method, variant)
    images = load_images(task)
    sigma = image_evaluation.reference_bandwidth(images.train, images.valid)
    rate = select_rate(task, images, sigma, method, variant, folder)
    everything = (
        np.concatenate([images.train, images.valid]) if task.name in ("mnist", "fashion_mnist") else images.train
    )
    settings = ImageSettings(task.name, method, *variant, rate, task.epochs)
    rbm, losses, seconds = train(settings, everything, folder / "checkpoints")
    start = time.monotonic()
    quality = image_evaluation.full_quality(
        rbm, everything, images.test, sigma, SEED, folder / "figures" / _plain(name)
    )
    points = np.unique(np.linspace(0, len(losses.values) - 1, 50).astype(int))
    record = {
        "name": name,
        "settings": dataclasses.asdict(settings),
        **quality,
        "ess": [[int(p) + 1, round(losses.values[p][2], 4)] for p in points],
        "training_seconds": round(seconds),
        "evaluation_seconds": round(time.monotonic() - start),
        "date": datetime.date.today().isoformat(),
    }
    Records(folder / "runs.jsonl").append(record)
    forget(folder / "checkpoints", settings, len(everything))
    return record


def run_large_sets(
    folder: Path, tasks: Sequence[str] = tuple(TASKS), methods: Sequence[str] = METHODS, deadline: float = float("inf")
) -> int:
    """Runs all that is not done yet; returns how many runs are left."""
    records = Records(folder / "runs.jsonl")

    def piece(method: str, name: str) -> Piece:
        return Piece(
            folder / "checkpoints" / f"{name}.lock",
            lambda: any(record["name"] == run_name(name, method) for record in records.read()),
            lambda: run_one(TASKS[name], method, folder),
        )

    return work_off(itertools.starmap(piece, itertools.product(methods, tasks)), deadline)


def _plain(name: str) -> str:
    return "".join(c if c.isalnum() or c in "-_" else "" for c in name.replace(" ", "_"))


def forget(folder: Path, settings: ImageSettings, rows: int) -> None:
    """Removes the checkpoints of a run."""
    Checkpoints(_stem(folder, settings, rows), Losses()).remove()


def _stem(folder: Path, settings: ImageSettings, rows: int) -> Path:
    return folder / fingerprint(**dataclasses.asdict(settings), rows=rows)
