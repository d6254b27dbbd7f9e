"""Fine-tuning that is stopped and goes on: dropout, the order of the data and the lines of epochs as if it had not."""

import json

import keras
import numpy as np
import pytest

from trainers import dbn, dbn_records, dbn_tuning

RNG = np.random.default_rng(0)
X = RNG.random((50, 6)).astype("float32")
Y = RNG.integers(0, 3, 50).astype("int32")


class StopError(Exception):
    pass


def tuned(folder, stop_at=None):
    """A small classifier after six epochs, or until it is stopped between the line of an epoch and its state."""
    keras.utils.set_random_seed(1)
    layers = [keras.Input((6,)), keras.layers.Dropout(0.3), keras.layers.Dense(5, "tanh"), keras.layers.Dense(3)]
    model = keras.Sequential(layers)
    model.compile(
        keras.optimizers.Adam(keras.optimizers.schedules.CosineDecay(0.05, 24)),
        keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
    )

    def stop(epoch, logs):
        if epoch == stop_at:
            raise StopError

    lines = dbn_records.EpochLines(folder / "lines.jsonl", "tuning")
    callbacks = [lines, keras.callbacks.LambdaCallback(on_epoch_end=stop)]
    dbn_tuning.tune(model, X, Y, 16, 6, 7, folder / "state.npz", callbacks, 0)
    return model


def test_a_run_that_was_stopped_ends_with_the_same_bits(tmp_path):
    whole, stopped = tmp_path / "whole", tmp_path / "stopped"
    for folder in (whole, stopped):
        folder.mkdir()
    expected = tuned(whole)
    for epoch in (0, 3):
        with pytest.raises(StopError):
            tuned(stopped, stop_at=epoch)
    model = tuned(stopped)
    for mine, theirs in zip(dbn_tuning._variables(model), dbn_tuning._variables(expected), strict=True):
        np.testing.assert_array_equal(mine, theirs, err_msg=mine.path)
    assert any("seed" in variable.path for variable in dbn_tuning._variables(model))  # dropout's counter is among them
    lines = [
        [json.loads(line) | {"seconds": 0} for line in (folder / "lines.jsonl").read_text().splitlines()]
        for folder in (whole, stopped)
    ]
    assert lines[0] == lines[1]
    assert [line["epoch"] for line in lines[0]] == [1, 2, 3, 4, 5, 6]
    # At the end there is nothing left to train.
    before = (stopped / "state.npz").read_bytes()
    tuned(stopped)
    assert (stopped / "state.npz").read_bytes() == before


def test_a_damaged_state_is_named(tmp_path):
    (tmp_path / "state.npz").write_bytes(b"cut short")
    with pytest.raises(ValueError, match=r"state\.npz is damaged"):
        tuned(tmp_path)


def test_to_begin_anew_removes_what_there_is_of_a_part_and_no_more(tmp_path):
    ours = ["classifier.json", "classifier.jsonl", "classifier.keras", "classifier_tuning.npz", "wcd_0.keras"]
    others = ["autoencoder.json", "generation.keras", "notes.txt"]
    for name in (*ours, *others):
        (tmp_path / name).touch()
    dbn.forget(tmp_path, "classifier")
    assert sorted(path.name for path in tmp_path.iterdir()) == others
