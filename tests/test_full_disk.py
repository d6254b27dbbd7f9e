"""A disk that is full while something is written: what was there before stays good, and the error says so."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import serving
import tf_wcd
from serving.publish import versions_in
from tests.support.small_disk import small_disk
from trainers.runs.image_sets import Losses
from trainers.runs.resumable import Checkpoints, Plan
from trainers.store.files import save_model

X = (np.random.default_rng(0).random((40, 60)) < 0.4).astype("float32")


@pytest.fixture
def disk(tmp_path):
    with small_disk(tmp_path / "disk", megabytes=3) as disk:
        yield disk


def layer():
    rbm = tf_wcd.RBMLayer(50, negative_phase="pcd", seed=3)
    rbm.build((None, 60))
    rbm.compile(keras.optimizers.SGD(0.05, momentum=0.9), jit_compile=False)
    return rbm


def test_export(disk):
    rbm = layer()
    base = disk.path / "rbm"
    serving.publish(rbm, base, warmup=False)
    seeds = tf.range(4, dtype=tf.int64)
    before = tf.saved_model.load(str(base / "1")).signatures["sample"](seed=seeds)["visible"]
    disk.fill(but=100_000)
    with pytest.raises(OSError, match=r"No new version in .*; those before, \[1\], are as they were"):
        serving.publish(rbm, base, warmup=False)
    assert sorted(path.name for path in base.iterdir()) == ["1", "last_version"]
    disk.make_room()
    np.testing.assert_array_equal(
        tf.saved_model.load(str(base / "1")).signatures["sample"](seed=seeds)["visible"], before
    )
    serving.publish(rbm, base, warmup=False)
    assert versions_in(base) == [1, 2]


class FillAfter(keras.callbacks.Callback):
    """Fills the disk when an epoch is done, before it is saved."""

    def __init__(self, disk, epoch):
        super().__init__()
        self.disk, self.epoch = disk, epoch

    def on_epoch_end(self, epoch, logs=None):
        if epoch == self.epoch:
            self.disk.fill(but=5000)


def test_backup_and_restore(disk):
    """The run stops with an error; when there is room again it goes on from the epoch before, to the same bits."""
    whole = layer()
    whole.fit(X, batch_size=10, epochs=5, verbose=0)

    def backup():
        return keras.callbacks.BackupAndRestore(disk.path / "backup", delete_checkpoint=False)

    with pytest.raises(OSError, match=r"latest.weights.h5 could not be written .*before is still there"):
        layer().fit(X, batch_size=10, epochs=5, verbose=0, callbacks=[FillAfter(disk, 2), backup()])
    assert [path.name for path in (disk.path / "backup").glob("*.h5")] == ["latest.weights.h5"]
    disk.make_room()
    rbm = layer()
    history = rbm.fit(X, batch_size=10, epochs=5, verbose=0, callbacks=[backup()])
    assert history.epoch == [2, 3, 4]
    for mine, theirs in zip(rbm.variables, whole.variables, strict=True):
        if "loss" not in mine.path:
            np.testing.assert_array_equal(mine, theirs, err_msg=mine.path)


def test_checkpoints_of_the_trainers(disk):
    rbm = layer()
    saved = Checkpoints(disk.path / "run", Losses(), Plan(checkpoint_epochs=1))
    saved.set_model(rbm)
    for epoch in range(2):
        saved.on_epoch_end(epoch)
    disk.fill(but=20_000)
    with pytest.raises(OSError, match=r"run\.000003\.npz could not be written; the one before, .*000002\.npz, is"):
        saved.on_epoch_end(2)
    model, epoch = Checkpoints(disk.path / "run", Losses(), Plan()).restore()
    assert epoch == 2
    np.testing.assert_array_equal(model.kernel, rbm.kernel)


def test_models_that_are_replaced(disk):
    rbm, path = layer(), disk.path / "rbm.keras"
    save_model(rbm.save, path)
    disk.fill(but=5000)
    with pytest.raises(OSError, match=r"rbm.keras could not be written .*before is still there"):
        save_model(rbm.save, path)
    assert sorted(path.suffix for path in disk.path.iterdir() if path.name != "filler") == [".keras"]
    np.testing.assert_array_equal(keras.models.load_model(path).kernel, rbm.kernel)
