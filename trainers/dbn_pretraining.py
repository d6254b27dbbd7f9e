"""What the parts of the work on Deep Belief Networks share: settings, data, and pre-training that can be resumed."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path

import keras
import numpy as np

import tf_wcd
from trainers.dbn_records import EpochLines, SaveModel

PIXELS, SIDE, CLASSES = 784, 28, 10


@dataclasses.dataclass(frozen=True)
class Settings:
    """What a run does.

    Attributes:
        epochs: epochs of pre-training for each layer.
        tuning_epochs: epochs of back-propagation.
        train_size: number of training images, and at most of test images; ``None`` for all.
        seeds: seeds of the comparison with few labels.
        seed: seed of everything else.
        width: the hidden layers are this much of their full width (1 but in short trials).
        batch_size: images in a batch.
        validation: hold out the last 10,000 training images and measure on them, not on the test images.
    """

    epochs: int = 10
    tuning_epochs: int = 30
    train_size: int | None = None
    seeds: int = 5
    seed: int = 0
    width: float = 1.0
    batch_size: int = 100
    validation: bool = False

    def units(self, *full: int) -> list[int]:
        return [max(2, round(self.width * n)) for n in full]


class Data:
    """MNIST, its training part cut to size."""

    def __init__(self, settings: Settings) -> None:
        (x, y), (x_test, y_test) = tf_wcd.datasets.load("mnist")
        if settings.validation:
            (x, x_test), (y, y_test) = np.split(x, [-10_000]), np.split(y, [-10_000])
        size = settings.train_size
        self.x, self.y = x[:size], y[:size].astype("int32")
        self.x_test, self.y_test = x_test[:size], y_test[:size].astype("int32")

    def few(self, fraction: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
        """A part of the labelled images, with equally many of each class."""
        generator = np.random.default_rng(seed)
        each = max(1, round(fraction * len(self.x) / CLASSES))
        rows = [generator.permutation(np.flatnonzero(self.y == label))[:each] for label in range(CLASSES)]
        chosen = generator.permutation(np.concatenate(rows))
        return self.x[chosen], self.y[chosen]


def make_dbn(
    units: list[int],
    hidden: str,
    phases: Sequence[str | tf_wcd.NegativePhase],
    rate: float,
    updates: list[int],
    seed: int,
    labels: int = 0,
) -> tf_wcd.DBN:
    """A stack on 0/1 data with the centred gradient; each layer has a learning rate that falls to a hundredth.

    Args:
        units: hidden units of each layer.
        hidden: their kind.
        phases: negative phase of each layer.
        rate: first learning rate.
        updates: updates of each layer, in which its rate falls.
        seed: of all layers.
        labels: number of labels joined to the top layer.
    """
    layers = []
    for number, (count, phase, length) in enumerate(zip(units, phases, updates, strict=True)):
        below = hidden if number else "bernoulli"
        joined = labels and number == len(units) - 1
        rbm = tf_wcd.RBMLayer(
            count,
            visible_type=tf_wcd.units.Labelled(below, labels) if joined else below,
            hidden_type=hidden,
            negative_phase=phase,
            centered=True,
            kernel_initializer=keras.initializers.RandomNormal(stddev=0.01, seed=100 * seed + number),
            seed=100 * seed + number,
            name=f"rbm_{number + 1}",
        )
        schedule = keras.optimizers.schedules.PolynomialDecay(rate, max(1, length), rate / 100)
        rbm.compile(keras.optimizers.SGD(schedule, momentum=0.5))
        layers.append(rbm)
    return tf_wcd.DBN(layers)


def pretrained(
    folder: Path,
    name: str,
    data: Data,
    settings: Settings,
    verbose: int,
    *,
    units: list[int],
    hidden: str,
    phases: Sequence[str | tf_wcd.NegativePhase],
    rate: float,
    epochs: list[int],
    seed: int,
    labels: int = 0,
    inputs: str = "probabilities",
) -> tf_wcd.DBN:
    """The model of a part, pre-trained to the end, from wherever the last run left it."""
    path = folder / f"{name}.keras"
    if path.exists():
        dbn = keras.models.load_model(path)
    else:
        updates = [count * -(-len(data.x) // settings.batch_size) for count in epochs]
        dbn = make_dbn(units, hidden, phases, rate, updates, seed, labels)
    dbn.pretrain(
        data.x,
        data.y,
        epochs=epochs,
        batch_size=settings.batch_size,
        inputs=inputs,
        callbacks=[EpochLines(folder / f"{name}.jsonl", "pretraining"), SaveModel(path)],
        verbose=verbose,
    )
    return dbn
