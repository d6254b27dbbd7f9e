"""A run for the record of a set of images: its images and its training."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import keras
import numpy as np

import tf_wcd
from tf_wcd import negative_phases
from tf_wcd.datasets.grey_levels import binarize
from trainers.runs.image_sets import Images
from trainers.runs.progress import ProgressLine
from trainers.runs.resumable import Plan, Seen, Trained
from trainers.runs.resumable import train as train_resumably
from trainers.settings.record_protocol import FRESH, RecordRun
from trainers.settings.runs import fingerprint


def load(run: RecordRun, held_back: int = 0) -> Images:
    """The images of a run; the training part as grey levels where they are drawn anew at each epoch.

    Args:
        run: its settings.
        held_back: how many of the last training images are for validation, where the set has no such part.
    """
    (grey, _), (test, _) = tf_wcd.datasets.load(run.data, None if run.binarize == FRESH else run.binarize, seed=0)
    if run.binarize == FRESH:
        test = binarize(test, run.read_as, rng=np.random.default_rng(1))
    if not held_back:
        return Images(grey, test[:0], test)
    if run.data in ("caltech101_silhouettes", "ocr_letters"):
        _, (valid, _), _ = tf_wcd.datasets.load(run.data, run.binarize, validation=True, seed=0)
        return Images(grey, valid, test)
    valid = grey[-held_back:]
    if run.binarize == FRESH:
        valid = binarize(valid, run.read_as, rng=np.random.default_rng(2))
    return Images(grey[:-held_back], valid, test)


def images_of_epoch(run: RecordRun, train: np.ndarray, epoch: int, seed: int) -> np.ndarray:
    """The training images in black and white, the same whenever this epoch of this run is asked for."""
    if run.binarize != FRESH:
        return train
    return binarize(train, run.read_as, rng=np.random.default_rng([seed, epoch]))


def build(run: RecordRun, updates: int, pixels: int, seed: int) -> tf_wcd.RBMLayer:
    """The model of a run, compiled."""
    phase = negative_phases.get(
        run.negative_phase,
        gibbs_steps=run.gibbs_steps,
        chains=run.chains,
        observers=0 if run.negative_phase == "jpcd" else None,  # nobody asks for a running log Z here
    )
    rbm = tf_wcd.RBMLayer(
        run.hidden,
        negative_phase=phase,
        centered=True,
        kernel_initializer=keras.initializers.RandomNormal(stddev=0.01, seed=seed),
        seed=seed,
    )
    rbm.build((None, pixels))
    optimizer = keras.optimizers.SGD(
        keras.optimizers.schedules.PolynomialDecay(run.learning_rate, updates, 0.0),
        momentum=run.momentum,
        weight_decay=run.weight_decay or None,
    )
    if run.weight_decay:
        optimizer.exclude_from_weight_decay(var_list=[rbm.visible_bias, rbm.hidden_bias])
    rbm.compile(optimizer)
    return rbm


class Inputs(NamedTuple):
    """What a model is trained on, and where it starts.

    Attributes:
        of_epoch: states of 0 and 1, the same whenever those of this epoch are asked for.
        start: puts an untrained model where its training begins.
        rows: number of examples.
        columns: visible units.
        facts: what else the run depends on.
    """

    of_epoch: Callable[[int], np.ndarray]
    start: Callable[[tf_wcd.RBMLayer], None]
    rows: int
    columns: int
    facts: dict[str, Any] = {}  # noqa: RUF012 - never changed


def train(
    run: RecordRun, images: np.ndarray, seed: int, checkpoints: Path | None, plan: Plan, verbose: bool = True
) -> Trained:
    """Trains the model of a run on images; the same call goes on where it was stopped."""

    def of_epoch(epoch: int) -> np.ndarray:
        return images_of_epoch(run, images, epoch, seed)

    inputs = Inputs(of_epoch, lambda rbm: rbm.start_at_means(of_epoch(0)), *images.shape)
    return train_on(run, inputs, seed, checkpoints, plan, verbose)


def train_on(
    run: RecordRun, inputs: Inputs, seed: int, checkpoints: Path | None, plan: Plan, verbose: bool = True
) -> Trained:
    """Trains the model of a run on any inputs; the same call goes on where it was stopped."""
    updates = -(-inputs.rows // run.batch_size)

    def new() -> tf_wcd.RBMLayer:
        rbm = build(run, updates * run.epochs, inputs.columns, seed)
        inputs.start(rbm)
        return rbm

    def fit(rbm: tf_wcd.RBMLayer, first_epoch: int, callbacks: list[keras.callbacks.Callback]) -> None:
        for epoch in range(first_epoch, run.epochs):
            rbm.fit(
                inputs.of_epoch(epoch),
                batch_size=run.batch_size,
                epochs=epoch + 1,
                initial_epoch=epoch,
                callbacks=callbacks,
                verbose=0,
            )

    callbacks = []
    if verbose:
        title = f"{run.data} {run.negative_phase} rate {run.learning_rate:g}"
        callbacks.append(ProgressLine(title, run.epochs, updates, ("reconstruction_error",)))
    stem = checkpoints and checkpoints / fingerprint(**run.as_dict(), **inputs.facts, rows=inputs.rows, seed=seed)
    return train_resumably(new, fit, stem, plan, Seen(), callbacks)
