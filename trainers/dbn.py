"""Deep Belief Networks on MNIST: pre-trained with WCD, fine-tuned, compared with what they should beat, and dreaming.

Each part writes a record as it goes and keeps the state of its training: an interrupted command goes on if repeated.
"""

from __future__ import annotations

import dataclasses
import itertools
import time
from pathlib import Path
from typing import Any

import keras
import numpy as np

import tf_wcd
from tf_wcd import plots
from tf_wcd.negative_phases import WCD
from trainers.dbn_generation import generate
from trainers.dbn_pretraining import CLASSES, PIXELS, SIDE, Data, Settings, pretrained
from trainers.dbn_records import EpochLines, Record, replace
from trainers.dbn_tuning import tune

FRACTIONS = (0.01, 0.1)
STARTS = ("pre-trained", "random")
# Chosen on the last 10,000 training images (--validation), as the dropout below.
TUNING_RATE = 0.004
# For few labels, where there is time for many more epochs: the first rate of each kind of fine-tuning.
FEW_LABELS_RATES = {"plain": 0.001, "dropout": 0.002}


def network(dbn: tf_wcd.DBN, tuning: str = "dropout") -> keras.Model:
    """The classifier that is fine-tuned.

    Args:
        dbn: what it starts from.
        tuning: "dropout" leaves out some pixels and some units of each layer while training, "plain" does not.
    """
    if tuning == "plain":
        return keras.Sequential([keras.Input((PIXELS,)), dbn.classifier(CLASSES)])
    return keras.Sequential([keras.Input((PIXELS,)), keras.layers.Dropout(0.2), dbn.classifier(CLASSES, dropout=0.3)])


def fine_tune(
    model: keras.Model,
    x: Any,
    y: Any,
    data: Data,
    epochs: int,
    rate: float,
    seed: int,
    folder: Path | None,
    verbose: int,
) -> float:
    """Trains a classifier, goes on where an interrupted run was if a folder is given, and returns the test error."""
    batch = min(100, len(x))
    updates = epochs * -(-len(x) // batch)
    model.compile(
        keras.optimizers.Adam(keras.optimizers.schedules.CosineDecay(rate, updates)),
        keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
    )
    state: Path | None = None
    callbacks: list[keras.callbacks.Callback] = []
    if folder is not None:
        state = folder / "classifier_tuning.npz"
        callbacks = [EpochLines(folder / "classifier.jsonl", "tuning")]
    tune(model, x, y, batch, epochs, seed, state, callbacks, verbose)
    predicted = model.predict(data.x_test, batch_size=1000, verbose=0).argmax(axis=1)
    return float(np.mean(predicted != data.y_test))


def classify(folder: Path, settings: Settings, data: Data, record: Record, verbose: int) -> None:
    """784-500-500 pre-trained with WCD and fine-tuned with all labels."""
    start = time.perf_counter()
    dbn = wcd_stack(folder, settings, data, settings.seed, verbose)
    record.update(pretraining_seconds=time.perf_counter() - start)
    keras.utils.set_random_seed(settings.seed)
    model = network(dbn)
    error = fine_tune(model, data.x, data.y, data, settings.tuning_epochs, TUNING_RATE, settings.seed, folder, verbose)
    replace(folder / "classifier.keras", model.save)
    record.update(test_error=error, seconds=time.perf_counter() - start)
    print(f"784-500-500, WCD and back-propagation: test error {error:.2%}")


def wcd_stack(folder: Path, settings: Settings, data: Data, seed: int, verbose: int) -> tf_wcd.DBN:
    """784-500-500 with WCD_1 throughout, its weights tempered: plain ones fall onto one or two of 100 points."""
    return pretrained(
        folder, f"wcd_{seed}", data, settings, verbose,
        units=settings.units(500, 500), hidden="bernoulli", phases=[WCD(minimum_ess=0.5) for _ in range(2)], rate=0.05,
        epochs=[settings.epochs] * 2, seed=seed,
    )  # fmt: skip


def few_labels(folder: Path, settings: Settings, data: Data, record: Record, verbose: int) -> None:
    """The same network with 1 % and 10 % of the labels, pre-trained (on all images) or not, with dropout or without."""
    runs = record.content.setdefault("runs", [])
    stacks: dict[int, tf_wcd.DBN] = {}
    for tuning, seed, fraction, start in itertools.product(FEW_LABELS_RATES, range(settings.seeds), FRACTIONS, STARTS):
        facts = {"seed": seed, "tuning": tuning, "fraction": fraction, "start": start}
        if any(facts.items() <= run.items() for run in runs):
            continue
        if seed not in stacks:
            stacks = {seed: wcd_stack(folder, settings, data, seed, verbose)}
        x, y = data.few(fraction, seed)
        # As many updates with few labels as with a tenth of them, so that no network is left unfinished.
        epochs = max(1, round(settings.tuning_epochs * min(10.0, 0.1 / fraction)))
        keras.utils.set_random_seed(seed)
        model = network(stacks[seed], tuning)
        if start == "random":
            model = keras.models.clone_model(model)
        error = fine_tune(model, x, y, data, epochs, FEW_LABELS_RATES[tuning], seed, None, 0)
        runs.append({**facts, "labels": len(x), "test_error": error})
        record.update(runs=runs)
        print(f"{len(x)} labels, seed {seed}, {tuning}, {start}: test error {error:.2%}", flush=True)
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
        print(f"{fraction:.0%} of the labels, {tuning}, mean of {settings.seeds} seeds: {said}")
    record.update(mean_test_error=means)


def autoencode(folder: Path, settings: Settings, data: Data, record: Record, verbose: int) -> None:
    """784-1000-500-250-30 unrolled and fine-tuned, against principal components with the same code size."""
    start = time.perf_counter()
    units = settings.units(1000, 500, 250, 30)
    # Eight layers of 0/1 units stay at the mean of the data in back-propagation; spins (tanh) and a linear code do not.
    dbn = pretrained(
        folder, "autoencoder", data, settings, verbose,
        units=units, hidden="spin", phases=[WCD(minimum_ess=0.5) for _ in units], rate=0.01,
        epochs=[settings.epochs] * 4, seed=settings.seed,
    )  # fmt: skip
    keras.utils.set_random_seed(settings.seed)
    model = dbn.autoencoder(linear_code=True)
    total = settings.tuning_epochs * -(-len(data.x) // settings.batch_size)
    model.compile(keras.optimizers.Adam(keras.optimizers.schedules.CosineDecay(1e-3, total)), "binary_crossentropy")
    before = square_error(model, data.x_test)
    tune(
        model, data.x, data.x, settings.batch_size, settings.tuning_epochs, settings.seed,
        folder / "autoencoder_tuning.npz", [EpochLines(folder / "autoencoder.jsonl", "tuning")], verbose,
    )  # fmt: skip
    replace(folder / "unrolled.keras", model.save)
    ours = square_error(model, data.x_test)
    components = principal_components(data.x, units[-1])
    theirs = components(data.x_test)
    record.update(
        code_size=units[-1],
        test_error_before_tuning=before,
        test_error=ours,
        test_error_of_pca=float(np.mean(np.square(theirs - data.x_test))),
        seconds=time.perf_counter() - start,
    )
    print(
        f"Mean square error of a pixel, code of {units[-1]}: autoencoder {ours:.5f} ({before:.5f} before fine-tuning), "
        f"principal components {record.content['test_error_of_pca']:.5f}"
    )
    shown = data.x_test[:10]
    rows = np.stack([shown, model.predict(shown, verbose=0), components(shown)])
    sheet = plots.image_sheet(rows, (SIDE, SIDE), row_names=["data", "autoencoder", "PCA"])
    sheet.savefig(folder / "autoencoder.png")


def square_error(model: keras.Model, x: np.ndarray) -> float:
    return float(np.mean(np.square(model.predict(x, batch_size=1000, verbose=0) - x)))


def principal_components(x: np.ndarray, count: int) -> Any:
    """The projection on the leading principal components of the training data, as a function of other data."""
    mean = x.mean(axis=0, dtype="float64")
    _, vectors = np.linalg.eigh(np.cov(x, rowvar=False, dtype="float64"))
    leading = vectors[:, -count:]
    return lambda data: mean + (data - mean) @ leading @ leading.T


def forget(folder: Path, part: str) -> None:
    """Removes all that there is of a part: its record first, so that a kill leaves nothing that looks finished."""
    stacks = {"few_labels": ["wcd_*"], "classifier": ["wcd_*"], "autoencoder": ["unrolled"], "generation": ["up_down"]}
    for name in (part, f"{part}_tuning", *stacks[part]):
        for suffix in ("json", "jsonl", "keras", "npz"):
            for file in folder.glob(f"{name}.{suffix}"):
                file.unlink()


PARTS = {"classifier": classify, "few_labels": few_labels, "autoencoder": autoencode, "generation": generate}


def run(
    folder: str | Path, parts: list[str], settings: Settings, verbose: int = 2, resume: bool = True
) -> dict[str, Any]:
    """Runs the parts that are not finished yet, and returns their records.

    Args:
        folder: where records (``.json``), epochs (``.jsonl``), models and pictures go.
        parts: names out of `PARTS`.
        settings: what to do.
        verbose: Keras' verbosity.
        resume: go on where parts were stopped; if not, what there is of them is removed first.
    """
    unknown = [part for part in parts if part not in PARTS]
    if unknown or not parts:
        raise ValueError(f"`parts` must be some of {list(PARTS)}. Received: {parts}")
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    if not resume:
        for part in parts:
            forget(folder, part)
    records = {part: Record(folder / f"{part}.json", dataclasses.asdict(settings)) for part in parts}
    data = Data(settings)
    for part, record in records.items():
        if record.finished:
            print(f"{part}: finished already, see {record.path}")
            continue
        print(f"{part}: {PARTS[part].__doc__}")
        PARTS[part](folder, settings, data, record, verbose)
        record.finish()
        (folder / f"{part}_tuning.npz").unlink(missing_ok=True)
    return {part: record.content for part, record in records.items()}
