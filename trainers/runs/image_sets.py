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
from trainers.runs.image_quality import in_units
from trainers.runs.progress import ProgressLine
from trainers.runs.resumable import Plan, Seen, Trained
from trainers.runs.resumable import train as train_resumably
from trainers.settings.image_protocol import ImageProtocol, ImageSet
from trainers.settings.runs import ImageMethod, ImageRun, fingerprint


class Images(NamedTuple):
    """A set of images: what is trained on, what choices are made on, and what is evaluated only in the end."""

    train: np.ndarray
    valid: np.ndarray
    test: np.ndarray


Load = Callable[[ImageSet], Images]


def load_images(images: ImageSet) -> Images:
    """Images of 0 and 1; where there is no validation part, it is the last training images."""
    if not images.held_back:
        parts = tf_wcd.datasets.load(images.name, images.binarize, validation=True, seed=0)
        return Images(*(x for x, _ in parts))
    (train, _), (test, _) = tf_wcd.datasets.load(images.name, images.binarize, seed=0)
    return Images(train[: -images.held_back], train[-images.held_back :], test)


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


def build(run: ImageRun, protocol: ImageProtocol, updates: int, pixels: int) -> tf_wcd.RBMLayer:
    """The model of a run, compiled."""
    rbm = tf_wcd.RBMLayer(
        protocol.hidden,
        visible_type=run.units,
        hidden_type=run.units,
        negative_phase=phase_of(run.image_method),
        centered=run.centered,
        kernel_initializer=keras.initializers.RandomNormal(stddev=0.01, seed=protocol.seed),
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
) -> tuple[Trained, Losses]:
    """Trains one model on images of 0 and 1; returns it, and its metrics along the way.

    Args:
        run: its settings.
        protocol: what all runs have in common.
        x: the images.
        checkpoints: folder for work in progress; the same run goes on from there. ``None`` to keep none.
        plan: how the run is kept and shared.
        verbose: whether there is a progress line.
    """
    plan = plan or Plan()
    # Never fewer updates than asked for, but possibly a few more.
    updates = -(-run.updates // run.epochs) if run.updates else -(-len(x) // protocol.batch_size)
    inputs = in_units(x, run.units)
    losses = Losses()

    def new() -> tf_wcd.RBMLayer:
        rbm = build(run, protocol, updates * run.epochs, x.shape[1])
        rbm.start_at_means(inputs)
        return rbm

    def fit(rbm: tf_wcd.RBMLayer, first_epoch: int, callbacks: list[keras.callbacks.Callback]) -> None:
        rbm.fit(
            inputs,
            batch_size=protocol.batch_size,
            steps_per_epoch=updates if run.updates else None,
            epochs=run.epochs,
            initial_epoch=first_epoch,
            callbacks=callbacks,
            verbose=0,
        )

    callbacks = []
    if verbose and plan.workers.chief:
        title = f"{run.data} {run.image_method.label} rate {run.learning_rate}"
        callbacks.append(ProgressLine(title, run.epochs, updates, losses.names))
    facts = {**run.as_dict(), "rows": len(x), "hidden": protocol.hidden, "seed": protocol.seed}
    stem = checkpoints and checkpoints / fingerprint(**facts)
    return train_resumably(new, fit, stem, plan, losses, callbacks), losses
