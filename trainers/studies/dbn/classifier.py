"""Classifiers of digits: pre-trained and fine-tuned with all labels, and compared with others with few of them."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import keras
import numpy as np

import tf_wcd
from trainers.runs.backpropagation import tune
from trainers.runs.resumable import Trained
from trainers.settings.dbn import (
    CLASSES,
    CLASSIFIER,
    CLASSIFIER_RATE,
    FEW_LABELS_RATES,
    FRACTIONS,
    PIXEL_DROPOUT,
    PIXELS,
    STARTS,
    UNIT_DROPOUT,
)
from trainers.settings.runs import fingerprint
from trainers.store.epochs import EpochRecords
from trainers.store.files import save_model
from trainers.studies.dbn.stacks import pretrained
from trainers.studies.dbn.study import Study


def network(dbn: tf_wcd.DBN, tuning: str = "dropout") -> keras.Model:
    """The classifier that is fine-tuned.

    Args:
        dbn: what it starts from.
        tuning: "dropout" leaves out some pixels and some units of each layer while training, "plain" does not.
    """
    if tuning == "plain":
        return keras.Sequential([keras.Input((PIXELS,)), dbn.classifier(CLASSES)])
    pixels = keras.layers.Dropout(PIXEL_DROPOUT)
    return keras.Sequential([keras.Input((PIXELS,)), pixels, dbn.classifier(CLASSES, dropout=UNIT_DROPOUT)])


def fine_tune(
    study: Study,
    build: Callable[[], keras.Model],
    x: np.ndarray,
    y: np.ndarray,
    epochs: int,
    rate: float,
    seed: int,
    name: str | None = None,
) -> tuple[Trained, float]:
    """Trains a classifier; returns it with its test error.

    Args:
        study: settings, data and folder.
        build: makes the classifier.
        x: images.
        y: labels.
        epochs: passes over them.
        rate: first learning rate.
        seed: of initial weights, dropout and the order of the images.
        name: of its files, from which an interrupted run goes on; ``None`` to keep none, and to say nothing.
    """
    batch = min(100, len(x))
    updates = epochs * -(-len(x) // batch)

    def compiled() -> keras.Model:
        keras.utils.set_random_seed(seed)
        model = build()
        model.compile(
            keras.optimizers.Adam(keras.optimizers.schedules.CosineDecay(rate, updates)),
            keras.losses.SparseCategoricalCrossentropy(from_logits=True),
            metrics=["accuracy"],
        )
        return model

    kept: dict[str, Any] = {}
    if name is not None:
        kept["stem"] = study.folder / "checkpoints" / f"{name}-{fingerprint(**study.settings.as_dict())}"
        kept["callbacks"] = [EpochRecords(study.records(name), "tuning")]
        kept["verbose"] = study.verbose
    trained = tune(compiled, x, y, batch, epochs, seed, plan=study.plan, **kept)
    predicted = trained.model.predict(study.data.x_test, batch_size=1000, verbose=0).argmax(axis=1)
    return trained, float(np.mean(predicted != study.data.y_test))


def classify(study: Study) -> None:
    """784-500-500 pre-trained with WCD and fine-tuned with all labels."""
    data, settings = study.data, study.settings
    dbn, seconds = wcd_stack(study, settings.seed)
    trained, error = fine_tune(
        study,
        lambda: network(dbn),
        data.x,
        data.y,
        settings.tuning_epochs,
        CLASSIFIER_RATE,
        settings.seed,
        "classifier",
    )
    save_model(trained.model.save, study.folder / "classifier.keras")
    print(f"784-500-500, WCD and back-propagation: test error {error:.2%}")
    study.keep("classifier", pretraining_seconds=seconds, test_error=error, seconds=seconds + trained.seconds)
    trained.forget()


def wcd_stack(study: Study, seed: int) -> tuple[tf_wcd.DBN, float]:
    """784-500-500 with WCD_1 throughout, and the seconds that its pre-training took."""
    return pretrained(study, f"wcd_{seed}", CLASSIFIER, seed)


def few_labels(study: Study) -> None:
    """The same network with 1 % and 10 % of the labels, pre-trained (on all images) or not, with dropout or without."""
    settings, records = study.settings, study.records("few_labels")
    stacks: dict[int, tf_wcd.DBN] = {}
    for tuning, seed, fraction, start in itertools.product(FEW_LABELS_RATES, range(settings.seeds), FRACTIONS, STARTS):
        facts = {"settings": settings.as_dict(), "seed": seed, "tuning": tuning, "fraction": fraction, "start": start}
        if any(facts == {key: run[key] for key in facts} for run in records.read()):
            continue
        if seed not in stacks:
            stacks = {seed: wcd_stack(study, seed)[0]}
        x, y = study.data.few(fraction, seed)
        # As many updates with few labels as with a tenth of them, so that no network is left unfinished.
        epochs = max(1, round(settings.tuning_epochs * min(10.0, 0.1 / fraction)))

        def build(start: str = start, tuning: str = tuning, dbn: tf_wcd.DBN = stacks[seed]) -> keras.Model:
            model = network(dbn, tuning)
            return keras.models.clone_model(model) if start == "random" else model

        _, error = fine_tune(study, build, x, y, epochs, FEW_LABELS_RATES[tuning], seed)
        records.append({**facts, "labels": len(x), "test_error": error})
        print(f"{len(x)} labels, seed {seed}, {tuning}, {start}: test error {error:.2%}", flush=True)
    runs = [run for run in records.read() if run["settings"] == settings.as_dict()]
    for run in runs:
        del run["settings"]
    study.keep("few_labels", runs=runs, mean_test_error=_means(runs, settings.seeds))


def _means(runs: list[dict[str, Any]], seeds: int) -> dict[str, dict[str, dict[str, float]]]:
    """The mean test error by kind of fine-tuning, part of the labels, and start; prints it."""
    means: dict[str, dict[str, dict[str, float]]] = {}
    for tuning, fraction in itertools.product(FEW_LABELS_RATES, FRACTIONS):
        errors = {
            start: [
                r["test_error"] for r in runs if (r["tuning"], r["fraction"], r["start"]) == (tuning, fraction, start)
            ]
            for start in STARTS
        }
        means.setdefault(tuning, {})[f"{fraction:g}"] = {start: float(np.mean(errors[start])) for start in STARTS}
        said = ", ".join(f"{start} {np.mean(errors[start]):.2%} (sd {np.std(errors[start]):.2%})" for start in STARTS)
        print(f"{fraction:.0%} of the labels, {tuning}, mean of {seeds} seeds: {said}")
    return means
