"""Digits drawn from a Deep Belief Network."""

from __future__ import annotations

import time

import keras
import numpy as np

import tf_wcd
from tf_wcd import plots
from trainers.runs.backpropagation import tune
from trainers.runs.resumable import Trained
from trainers.settings.dbn import CLASSES, GENERATION, SIDE, UP_DOWN_RATE
from trainers.settings.runs import fingerprint
from trainers.store.epochs import EpochRecords
from trainers.store.files import save_model
from trainers.studies.dbn.stacks import pretrained
from trainers.studies.dbn.study import Study


def generate(study: Study) -> None:
    """784-500-500-1000 with labels on top: pictures of digits, all kinds and class by class."""
    data, settings = study.data, study.settings
    dbn, seconds = pretrained(study, "generation", GENERATION, settings.seed)
    start = time.perf_counter()
    before = free_energy_error(dbn, study)
    print(f"Classification by free energy: test error {before:.2%}")
    draw_sheets(dbn, study, "_before_up_down")
    trained = up_down(dbn, study)
    dbn = trained.model
    save_model(dbn.save, study.folder / "up_down.keras")
    after = free_energy_error(dbn, study)
    print(f"After up-down: test error {after:.2%}")
    draw_sheets(dbn, study, "")
    bound = tf_wcd.evaluation.variational_bound(dbn, (data.x_test[:1000] > 0.5).astype("float32"), seed=settings.seed)
    print(f"Variational bound, first test images in black and white: {bound.mean:.1f} nats")
    study.keep(
        "generation",
        free_energy_test_error=before,
        pretraining_seconds=seconds,
        free_energy_test_error_after_up_down=after,
        bound=bound.mean,
        bound_standard_error=bound.standard_error,
        bound_with_upper_log_partition=bound.lower,
        bound_method=f"{bound.method}, log Z {bound.log_partition_method}",
        seconds=seconds + time.perf_counter() - start,
    )
    trained.forget()


def free_energy_error(dbn: tf_wcd.DBN, study: Study) -> float:
    """The test error of the label with the lowest free energy."""
    predicted = np.argmax(dbn.label_log_prob(study.data.x_test), axis=1)
    return float(np.mean(predicted != study.data.y_test))


def up_down(dbn: tf_wcd.DBN, study: Study) -> Trained:
    """The model trained further with the up-down algorithm, from wherever the last run left it."""
    data, settings = study.data, study.settings
    epochs = max(1, settings.epochs // 3)
    updates = -(-len(data.x) // settings.batch_size)

    def build() -> tf_wcd.DBN:
        schedule = keras.optimizers.schedules.PolynomialDecay(UP_DOWN_RATE, epochs * updates, UP_DOWN_RATE / 100)
        dbn.compile(keras.optimizers.SGD(schedule, momentum=0.5))
        return dbn

    return tune(
        build,
        data.x,
        data.y,
        settings.batch_size,
        epochs,
        settings.seed,
        study.folder / "checkpoints" / f"up_down-{fingerprint(**settings.as_dict())}",
        study.plan,
        [EpochRecords(study.records("generation"), "up-down")],
        study.verbose,
    )


def draw_sheets(dbn: tf_wcd.DBN, study: Study, suffix: str) -> None:
    """One sheet of any digits, and one with a row for each class; all are the first that were drawn.

    A chain without a label seldom goes from one kind of digit to another, so those of the first sheet start from a
    hundred training images; the others start from random states with their label held.
    """
    start, seed = study.data.x[:100], study.settings.seed
    free = dbn.sample(len(start), gibbs_steps=1000, initial=start, probabilities=True, seed=seed).numpy()
    plots.image_sheet(free, (SIDE, SIDE)).savefig(study.folder / f"unconditional{suffix}.png")
    labels = np.repeat(np.arange(CLASSES), 10)
    given = dbn.sample(100, gibbs_steps=1000, labels=labels, probabilities=True, seed=seed).numpy()
    names = [str(label) for label in range(CLASSES)]
    plots.image_sheet(given, (SIDE, SIDE), row_names=names).savefig(study.folder / f"by_class{suffix}.png")
