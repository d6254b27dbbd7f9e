"""Checkpoints on a full disk, cut short, and left half written."""

import resource
import signal

import keras
import numpy as np
import pytest
from trainers.checkpoints import Checkpoints

from trainers import checkpoints, small_run
from trainers.settings import Settings


class Seen:
    def __init__(self):
        self.values = []

    def state(self):
        return {"values": np.array(self.values)}

    def restore(self, state):
        self.values = list(state["values"])


def saved(folder, epochs, monkeypatch):
    """Checkpoints after so many epochs, in each of which the only weight grows by one."""
    monkeypatch.setattr(checkpoints, "SECONDS_BETWEEN_CHECKPOINTS", 0.0)
    callback = Checkpoints(folder / "run", Seen())
    model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1, use_bias=False, kernel_initializer="zeros")])
    callback.set_model(model)
    for epoch in range(epochs):
        model.layers[0].kernel.assign([[epoch + 1.0]])
        callback.seen.values.append(epoch)
        callback.on_epoch_end(epoch)
    return callback


def restored(folder):
    callback = Checkpoints(folder / "run", Seen())
    model, epoch = callback.restore()
    return float(model.layers[0].kernel.numpy()[0, 0]), callback.seen.values, epoch


def test_the_last_checkpoint_is_restored_and_two_are_kept(tmp_path, monkeypatch):
    saved(tmp_path, 3, monkeypatch)
    assert restored(tmp_path) == (3.0, [0, 1, 2], 3)
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "run.000002.keras", "run.000002.npz", "run.000003.keras", "run.000003.npz",
    ]  # fmt: skip


@pytest.mark.parametrize("suffix", ["keras", "npz"])
def test_a_damaged_checkpoint_is_refused_by_name_and_the_one_before_used_without_it(tmp_path, monkeypatch, suffix):
    saved(tmp_path, 3, monkeypatch)
    file = tmp_path / f"run.000003.{suffix}"
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])
    with pytest.raises(ValueError, match=r"run\.000003\.keras, run\.000003\.npz, is damaged"):
        restored(tmp_path)
    for file in tmp_path.glob("run.000003.*"):
        file.unlink()
    assert restored(tmp_path) == (2.0, [0, 1], 2)


def test_ctrl_c_is_given_back_where_training_fails(tmp_path, monkeypatch):
    def fail(*_):
        assert signal.getsignal(signal.SIGINT) is not before, "Ctrl-C waits for the end of the epoch"
        raise ArithmeticError("something in training")

    before = signal.getsignal(signal.SIGINT)
    monkeypatch.setattr(small_run.KLAlongTraining, "on_epoch_end", fail)
    runs = [Settings("BS09", "cd", 1, 9, 0.01, 0.1, "constant", 0.9, 4)]
    with pytest.raises(ArithmeticError, match="something in training"):
        small_run.train_group(runs, 0, 2, tmp_path, verbose=False)
    assert signal.getsignal(signal.SIGINT) is before


def test_a_checkpoint_that_was_not_finished_does_not_count(tmp_path, monkeypatch):
    saved(tmp_path, 2, monkeypatch)
    (tmp_path / "run.000003.keras").write_bytes(b"cut short")
    (tmp_path / "run.000003.part.npz").write_bytes(b"cut short")
    assert restored(tmp_path) == (2.0, [0, 1], 2)


def test_a_full_disk_leaves_the_checkpoint_before(tmp_path, monkeypatch):
    callback = saved(tmp_path, 2, monkeypatch)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, hard))
    try:
        with pytest.raises(OSError, match=r"run\.000003\.npz could not be written; the one before, .*000002\.npz"):
            callback.on_epoch_end(2)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert restored(tmp_path) == (2.0, [0, 1], 2)
