"""Checkpoints on a full disk, cut short, and left half written."""

import resource
import signal

import keras
import numpy as np
import pytest

from trainers.runs.resumable import Checkpoints, Plan, Seen, train
from trainers.store.files import save_model

EVERY_EPOCH = Plan(checkpoint_epochs=1)


class Values(Seen):
    def __init__(self):
        super().__init__()
        self.values = []

    def state(self):
        return {"values": np.array(self.values)}

    def restore(self, state, model):
        self.values = list(state["values"])


def small_model():
    return keras.Sequential([keras.Input((1,)), keras.layers.Dense(1, use_bias=False, kernel_initializer="zeros")])


def saved(folder, epochs):
    """Checkpoints after so many epochs, in each of which the only weight grows by one."""
    callback = Checkpoints(folder / "run", Values(), EVERY_EPOCH)
    model = small_model()
    callback.set_model(model)
    for epoch in range(epochs):
        model.layers[0].kernel.assign([[epoch + 1.0]])
        callback.seen.values.append(epoch)
        callback.on_epoch_end(epoch)
    return callback


def restored(folder):
    callback = Checkpoints(folder / "run", Values(), EVERY_EPOCH)
    model, epoch = callback.restore()
    return float(model.layers[0].kernel.numpy()[0, 0]), callback.seen.values, epoch


def test_the_last_checkpoint_is_restored_and_two_are_kept(tmp_path):
    saved(tmp_path, 3)
    assert restored(tmp_path) == (3.0, [0, 1, 2], 3)
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "run.000002.keras", "run.000002.npz", "run.000003.keras", "run.000003.npz",
    ]  # fmt: skip


@pytest.mark.parametrize("suffix", ["keras", "npz"])
def test_a_damaged_checkpoint_is_refused_by_name_and_the_one_before_used_without_it(tmp_path, suffix):
    saved(tmp_path, 3)
    file = tmp_path / f"run.000003.{suffix}"
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])
    with pytest.raises(ValueError, match=r"run\.000003\.keras, run\.000003\.npz, is damaged"):
        restored(tmp_path)
    for file in tmp_path.glob("run.000003.*"):
        file.unlink()
    assert restored(tmp_path) == (2.0, [0, 1], 2)


def test_by_the_clock(tmp_path):
    for seconds, names in ((1000.0, []), (0.0, ["run.000001.keras", "run.000001.npz"])):
        callback = Checkpoints(tmp_path / "run", Values(), Plan(checkpoint_seconds=seconds))
        callback.set_model(small_model())
        callback.on_epoch_end(0)
        assert sorted(path.name for path in tmp_path.iterdir()) == names


def test_ctrl_c_is_given_back_where_training_fails(tmp_path):
    before = signal.getsignal(signal.SIGINT)

    def fit(model, first_epoch, callbacks):
        keras.callbacks.CallbackList(callbacks, model=model).on_train_begin()
        assert signal.getsignal(signal.SIGINT) is not before, "Ctrl-C waits for the end of the epoch"
        raise ArithmeticError("something in training")

    with pytest.raises(ArithmeticError, match="something in training"):
        train(small_model, fit, tmp_path / "run", EVERY_EPOCH)
    assert signal.getsignal(signal.SIGINT) is before


def test_what_there_is_of_a_run_is_removed_where_it_begins_anew(tmp_path):
    saved(tmp_path, 2)
    begun = []
    for resume in (True, False):
        trained = train(
            small_model, lambda _, epoch, __: begun.append(epoch), tmp_path / "run", Plan(resume=resume), Values()
        )
    assert begun == [2, 0]
    trained.forget()
    assert not list(tmp_path.iterdir())


def test_a_checkpoint_that_was_not_finished_does_not_count(tmp_path):
    saved(tmp_path, 2)
    (tmp_path / "run.000003.keras").write_bytes(b"cut short")
    (tmp_path / ".run.000003.npz.0123.part").write_bytes(b"cut short")
    assert restored(tmp_path) == (2.0, [0, 1], 2)
    Checkpoints(tmp_path / "run", Values(), EVERY_EPOCH).remove()
    assert not list(tmp_path.iterdir())


def test_a_full_disk_leaves_the_checkpoint_before(tmp_path):
    callback = saved(tmp_path, 2)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, hard))
    try:
        with pytest.raises(OSError, match=r"run\.000003\.npz could not be written; the one before, .*000002\.npz"):
            callback.on_epoch_end(2)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert restored(tmp_path) == (2.0, [0, 1], 2)


def test_a_saved_model_is_always_whole(tmp_path):
    path = tmp_path / "model.keras"
    save_model(small_model().save, path)
    first = path.read_bytes()

    def interrupted(path):
        path.write_bytes(b"half")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        save_model(interrupted, path)
    assert path.read_bytes() == first
    assert [file.name for file in tmp_path.iterdir()] == ["model.keras"]
