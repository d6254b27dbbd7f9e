"""Fine-tuning that is stopped and goes on: dropout, the order of the data and the epochs as if it had not been."""

import keras
import numpy as np
import pytest

from trainers.runs.backpropagation import tune
from trainers.store.epochs import EpochRecords
from trainers.store.records import Records

RNG = np.random.default_rng(0)
X = RNG.random((50, 6)).astype("float32")
Y = RNG.integers(0, 3, 50).astype("int32")


class StopError(Exception):
    pass


def build():
    keras.utils.set_random_seed(1)
    layers = [keras.Input((6,)), keras.layers.Dropout(0.3), keras.layers.Dense(5, "tanh"), keras.layers.Dense(3)]
    model = keras.Sequential(layers)
    model.compile(
        keras.optimizers.Adam(keras.optimizers.schedules.CosineDecay(0.05, 24)),
        keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
    )
    return model


def tuned(folder, stop_at=None):
    """A small classifier after six epochs, or until it is stopped between the record of an epoch and its checkpoint."""

    def stop(epoch, logs):
        if epoch == stop_at:
            raise StopError

    callbacks = [
        EpochRecords(Records(folder / "epochs.jsonl"), "tuning"),
        keras.callbacks.LambdaCallback(on_epoch_end=stop),
    ]
    return tune(build, X, Y, 16, 6, 7, folder / "checkpoints" / "run", callbacks=callbacks).model


def everything(model):
    """Weights, counters of random numbers and the optimizer's variables; metrics begin anew in each epoch."""
    metrics = {id(variable) for variable in model.metrics_variables}
    return [v for v in (*model.variables, *model.optimizer.variables) if id(v) not in metrics]


def test_a_run_that_was_stopped_ends_with_the_same_bits(tmp_path):
    whole, stopped = tmp_path / "whole", tmp_path / "stopped"
    expected = tuned(whole)
    for epoch in (0, 3):
        with pytest.raises(StopError):
            tuned(stopped, stop_at=epoch)
    model = tuned(stopped)
    for mine, theirs in zip(everything(model), everything(expected), strict=True):
        np.testing.assert_array_equal(mine, theirs, err_msg=mine.path)
    assert any("seed" in variable.path for variable in everything(model))  # dropout's counter is among them
    epochs = [
        [record | {"seconds": 0} for record in Records(folder / "epochs.jsonl").read()] for folder in (whole, stopped)
    ]
    assert epochs[0] == epochs[1]
    assert [record["epoch"] for record in epochs[0]] == [1, 2, 3, 4, 5, 6]
    # At the end there is nothing left to train.
    before = sorted((path.name, path.read_bytes()) for path in (stopped / "checkpoints").iterdir())
    again = tuned(stopped)
    assert sorted((path.name, path.read_bytes()) for path in (stopped / "checkpoints").iterdir()) == before
    for mine, theirs in zip(everything(again), everything(expected), strict=True):
        np.testing.assert_array_equal(mine, theirs, err_msg=mine.path)


def test_a_damaged_state_is_named(tmp_path):
    tuned(tmp_path)
    (tmp_path / "checkpoints" / "run.000006.npz").write_bytes(b"cut short")
    with pytest.raises(ValueError, match=r"run\.000006\.npz, is damaged"):
        tuned(tmp_path)
