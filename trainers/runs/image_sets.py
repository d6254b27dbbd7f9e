"""Runs on a set of images: the images, the model, and its training."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import keras
import numpy as np

import tf_wcd
from tf_wcd import negative_phases
from tf_wcd.negative_phases import NegativePhase
from trainers.runs.image_samples import in_units
from trainers.runs.progress import ProgressLine
from trainers.runs.resumable import Plan, Seen, Trained
from trainers.runs.resumable import train as train_resumably
from trainers.settings.image_protocol import ImageProtocol, ImageSet
from trainers.settings.runs import ImageMethod, ImageRun, fingerprint


class Labels(NamedTuple):
    """The labels of the images that are trained on, and of those that choices are made on."""

    train: np.ndarray
    valid: np.ndarray

    @property
    def classes(self) -> int:
        """How many there are."""
        return int(max(part.max() for part in self)) + 1


class Images(NamedTuple):
    """A set of images: what is trained on, what choices are made on, and what is evaluated only in the end."""

    train: np.ndarray
    valid: np.ndarray
    test: np.ndarray
    labels: Labels | None = None


Load = Callable[[ImageSet], Images]


def load_images(images: ImageSet) -> Images:
    """Images of 0 and 1; where there is no validation part, it is the last training images."""
    if not images.held_back:
        (train, y), (valid, y_valid), (test, _) = tf_wcd.datasets.load(
            images.name, images.binarize, validation=True, seed=0
        )
        return Images(train, valid, test, Labels(y, y_valid))
    (train, y), (test, _) = tf_wcd.datasets.load(images.name, images.binarize, seed=0)
    kept = len(train) - images.held_back
    return Images(train[:kept], train[kept:], test, Labels(y[:kept], y[kept:]))


class Losses(Seen):
    """The metrics of each epoch, kept through interruptions."""

    names = ("loss", "reconstruction_error", "ess")

    def __init__(self) -> None:
        super().__init__()
        self.values: list[list[float]] = []

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        self.values.append([float(logs[name]) for name in self.names])

    @property
    def ess(self) -> list[float]:
        """The effective sample size of each epoch, as a fraction of the chains."""
        return [values[self.names.index("ess")] for values in self.values]

    def state(self) -> dict[str, np.ndarray]:
        return {"values": np.array(self.values)}

    def restore(self, state: dict[str, np.ndarray], model: Any) -> None:
        self.values = state["values"].tolist()


def phase_of(method: ImageMethod) -> NegativePhase:
    """The negative phase of a method."""
    # Observers give a running log Z, which nobody asks for here, and do not change the training.
    observers = 0 if method.name == "JPCD" else None
    return negative_phases.get(method.name, minimum_ess=method.minimum_ess or None, observers=observers)


def build(run: ImageRun, protocol: ImageProtocol, updates: int, pixels: int, classes: int | None) -> tf_wcd.RBMLayer:
    """The model of a run, compiled.

    Args:
        run: its settings.
        protocol: what all runs have in common.
        updates: how many there will be.
        pixels: of an image.
        classes: number of labels that are joined to the images; ``None`` for none.
    """
    rbm = tf_wcd.RBMLayer(
        protocol.hidden,
        visible_type=run.units,
        hidden_type=run.units,
        negative_phase=phase_of(run.image_method),
        centered=run.centered,
        kernel_initializer=keras.initializers.RandomNormal(stddev=0.01, seed=protocol.seed),
        classes=classes,
        seed=protocol.seed,
    )
    rbm.build((None, pixels))
    optimizer = keras.optimizers.SGD(
        keras.optimizers.schedules.PolynomialDecay(run.learning_rate, updates, 0.0),
        momentum=protocol.momentum,
        weight_decay=protocol.weight_decay,
    )
    optimizer.exclude_from_weight_decay(var_list=[rbm.visible_bias, rbm.hidden_bias])
    rbm.compile(optimizer)
    return rbm


def train(
    run: ImageRun,
    protocol: ImageProtocol,
    x: np.ndarray,
    checkpoints: Path | None = None,
    plan: Plan | None = None,
    verbose: bool = True,
    labels: Labels | None = None,
) -> tuple[Trained, Losses]:
    """Trains one model on images of 0 and 1; returns it, and its metrics along the way.

    Args:
        run: its settings.
        protocol: what all runs have in common.
        x: the images.
        checkpoints: folder for work in progress; the same run goes on from there. ``None`` to keep none.
        plan: how the run is kept and shared.
        verbose: whether there is a progress line.
        labels: of the images, for a model of both; ``None`` for the images alone.
    """
    plan = plan or Plan()
    # Never fewer updates than asked for, but possibly a few more.
    updates = -(-run.updates // run.epochs) if run.updates else -(-len(x) // protocol.batch_size)
    inputs = in_units(x, run.units)
    losses = Losses()
    classes = None if labels is None else labels.classes

    def new() -> tf_wcd.RBMLayer:
        rbm = build(run, protocol, updates * run.epochs, x.shape[1], classes)
        rbm.start_at_means(inputs if labels is None else rbm.with_labels(inputs, labels.train))
        return rbm

    def fit(rbm: tf_wcd.RBMLayer, first_epoch: int, callbacks: list[keras.callbacks.Callback]) -> None:
        rbm.fit(
            inputs,
            None if labels is None else labels.train,
            batch_size=protocol.batch_size,
            steps_per_epoch=updates if run.updates else None,
            epochs=run.epochs,
            initial_epoch=first_epoch,
            callbacks=callbacks,
            verbose=0,
        )

    callbacks = []
    if verbose and plan.workers.chief:
        joined = "" if labels is None else " with labels"
        title = f"{run.data}{joined} {run.image_method.label} rate {run.learning_rate}, seed {protocol.seed}"
        callbacks.append(ProgressLine(title, run.epochs, updates, losses.names))
    facts = {**run.as_dict(), "rows": len(x), "hidden": protocol.hidden, "seed": protocol.seed}
    facts |= {"classes": classes} if classes else {}
    stem = checkpoints and checkpoints / fingerprint(**facts)
    return train_resumably(new, fit, stem, plan, losses, callbacks), losses


def accuracy(rbm: tf_wcd.RBMLayer, x: np.ndarray, labels: np.ndarray) -> float:
    """Part of the images, of 0 and 1, whose most probable label is theirs.

    Args:
        rbm: a model of images and labels.
        x: images.
        labels: their classes.
    """
    log_probabilities = rbm.label_log_prob(in_units(x, rbm.data_unit.name)).numpy()
    return float(np.mean(np.argmax(log_probabilities, axis=-1) == labels))
