"""Stacks of RBMs, pre-trained layer by layer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import keras

import tf_wcd
from tf_wcd.negative_phases import CD, PCD, WCD, NegativePhase
from trainers.runs.resumable import train
from trainers.settings.dbn import Phase, Stack
from trainers.settings.runs import fingerprint
from trainers.store.epochs import EpochRecords
from trainers.store.files import save_model
from trainers.studies.dbn.study import PRETRAINING, Study

# What of the settings a stack depends on.
SETTINGS = ("epochs", "train_size", "width", "batch_size", "validation")


def phase_of(phase: Phase) -> NegativePhase:
    """The negative phase of a layer."""
    if phase.name == "wcd":
        return WCD(minimum_ess=phase.minimum_ess)
    return CD() if phase.name == "cd" else PCD()


def make_dbn(stack: Stack, units: Sequence[int], updates: Sequence[int], seed: int) -> tf_wcd.DBN:
    """The layers of a stack, compiled.

    Args:
        stack: what it is.
        units: hidden units of each layer.
        updates: updates of each layer, in which its rate falls.
        seed: of all layers.
    """
    layers = []
    for number, (count, phase, length) in enumerate(zip(units, stack.phases, updates, strict=True)):
        below = stack.hidden if number else "bernoulli"
        joined = stack.labels and number == len(units) - 1
        rbm = tf_wcd.RBMLayer(
            count,
            visible_type=tf_wcd.units.Labelled(below, stack.labels) if joined else below,
            hidden_type=stack.hidden,
            negative_phase=phase_of(phase),
            centered=True,
            kernel_initializer=keras.initializers.RandomNormal(stddev=0.01, seed=100 * seed + number),
            seed=100 * seed + number,
            name=f"rbm_{number + 1}",
        )
        schedule = keras.optimizers.schedules.PolynomialDecay(stack.rate, max(1, length), stack.rate / 100)
        rbm.compile(keras.optimizers.SGD(schedule, momentum=0.5))
        layers.append(rbm)
    return tf_wcd.DBN(layers)


def pretrained(study: Study, name: str, stack: Stack, seed: int) -> tuple[tf_wcd.DBN, float]:
    """A stack that is pre-trained to the end, from wherever the last run left it, and the seconds that it took.

    Args:
        study: settings, data and folder.
        name: of its files; parts that use the same name share it.
        stack: what it is.
        seed: of all layers.
    """
    settings, data = study.settings, study.data
    facts: dict[str, Any] = {name: getattr(settings, name) for name in SETTINGS} | {"seed": seed}
    path = study.folder / f"{name}.keras"
    done = study.finished.find(PRETRAINING + name, facts)
    if done is not None and path.exists():
        return keras.models.load_model(path), done["seconds"]
    epochs = [settings.epochs * length for length in stack.lengths]
    updates = [count * -(-len(data.x) // settings.batch_size) for count in epochs]

    def fit(dbn: tf_wcd.DBN, _: int, callbacks: list[keras.callbacks.Callback]) -> None:
        # How far each layer has come is in the model.
        dbn.pretrain(
            data.x,
            data.y,
            epochs=epochs,
            batch_size=settings.batch_size,
            inputs=stack.inputs,
            callbacks=callbacks,
            verbose=study.verbose,
            start_at_means=False,  # as in the runs that are recorded
        )

    trained = train(
        lambda: make_dbn(stack, settings.units(stack.units), updates, seed),
        fit,
        study.folder / "checkpoints" / f"{name}-{fingerprint(**facts)}",
        study.plan,
        callbacks=[EpochRecords(study.records(name), "pretraining")],
    )
    save_model(trained.model.save, path)
    study.finished.add(PRETRAINING + name, facts, seconds=trained.seconds)
    trained.forget()
    return trained.model, trained.seconds
