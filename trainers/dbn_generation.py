"""Digits drawn from a Deep Belief Network."""

from __future__ import annotations

import time
from pathlib import Path

import keras
import numpy as np

import tf_wcd
from tf_wcd import plots
from trainers.dbn_pretraining import CLASSES, SIDE, Data, Settings, pretrained
from trainers.dbn_records import EpochLines, Record, SaveModel
from trainers.dbn_tuning import shuffled


def generate(folder: Path, settings: Settings, data: Data, record: Record, verbose: int) -> None:
    """784-500-500-1000 with labels on top: pictures of digits, all kinds and class by class."""
    start = time.perf_counter()
    dbn = pretrained(
        folder, "generation", data, settings, verbose,
        units=settings.units(500, 500, 1000), hidden="bernoulli", phases=["cd", "cd", "pcd"], rate=0.1,
        epochs=[settings.epochs, settings.epochs, 4 * settings.epochs], seed=settings.seed, labels=CLASSES,
        inputs="samples",  # what the layers below make of the data is what the top RBM has to draw: states
    )  # fmt: skip
    predicted = np.argmax(dbn.label_log_prob(data.x_test), axis=1)
    record.update(
        free_energy_test_error=float(np.mean(predicted != data.y_test)), pretraining_seconds=time.perf_counter() - start
    )
    print(f"Classification by free energy: test error {record.content['free_energy_test_error']:.2%}")
    draw_sheets(folder, dbn, settings, data, "_before_up_down")
    dbn = up_down(folder, dbn, settings, data, verbose)
    predicted = np.argmax(dbn.label_log_prob(data.x_test), axis=1)
    record.update(free_energy_test_error_after_up_down=float(np.mean(predicted != data.y_test)))
    print(f"After up-down: test error {record.content['free_energy_test_error_after_up_down']:.2%}")
    draw_sheets(folder, dbn, settings, data, "")
    bound = tf_wcd.evaluation.variational_bound(dbn, (data.x_test[:1000] > 0.5).astype("float32"), seed=settings.seed)
    record.update(
        bound=bound.mean,
        bound_standard_error=bound.standard_error,
        bound_with_upper_log_partition=bound.lower,
        bound_method=f"{bound.method}, log Z {bound.log_partition_method}",
    )
    print(f"Variational bound, first test images in black and white: {bound.mean:.1f} nats")
    record.update(seconds=time.perf_counter() - start)


def up_down(folder: Path, dbn: tf_wcd.DBN, settings: Settings, data: Data, verbose: int) -> tf_wcd.DBN:
    """The model trained further with the up-down algorithm, from wherever the last run left it."""
    path = folder / "up_down.keras"
    epochs = max(1, settings.epochs // 3)
    updates = -(-len(data.x) // settings.batch_size)
    if path.exists():
        dbn = keras.models.load_model(path)
    else:
        schedule = keras.optimizers.schedules.PolynomialDecay(0.02, epochs * updates, 0.0002)
        dbn.compile(keras.optimizers.SGD(schedule, momentum=0.5))
    first_epoch = int(dbn.optimizer.iterations) // updates
    dbn.fit(
        shuffled(data.x, data.y, settings.batch_size, settings.seed, first_epoch),
        steps_per_epoch=updates,
        epochs=epochs,
        initial_epoch=first_epoch,
        callbacks=[EpochLines(folder / "generation.jsonl", "up-down"), SaveModel(path)],
        verbose=verbose,
    )
    return dbn


def draw_sheets(folder: Path, dbn: tf_wcd.DBN, settings: Settings, data: Data, suffix: str) -> None:
    """One sheet of any digits, and one with a row for each class; all are the first that were drawn.

    A chain without a label seldom goes from one kind of digit to another, so those of the first sheet start from a
    hundred training images; the others start from random states with their label held.
    """
    start = data.x[:100]
    free = dbn.sample(len(start), gibbs_steps=1000, initial=start, probabilities=True, seed=settings.seed).numpy()
    plots.image_sheet(free, (SIDE, SIDE)).savefig(folder / f"unconditional{suffix}.png")
    labels = np.repeat(np.arange(CLASSES), 10)
    given = dbn.sample(100, gibbs_steps=1000, labels=labels, probabilities=True, seed=settings.seed).numpy()
    names = [str(label) for label in range(CLASSES)]
    plots.image_sheet(given, (SIDE, SIDE), row_names=names).savefig(folder / f"by_class{suffix}.png")
