"""Training that goes on exactly where it was stopped, with `keras.callbacks.BackupAndRestore`.

Keras writes the weights and then the number of the epoch, each over the one before. A process that is killed in
between, or in the middle of one of them, would go on from a file that is cut short, or one epoch off. Here weights are
written aside and renamed, and the number of epochs is one of them, which decides.
"""

from __future__ import annotations

import io
import json
import os
from pathlib import Path
from typing import Any

import keras
from keras.src.saving import saving_lib


def save_weights_at_once(
    model: keras.Model, save: Any, filepath: Any, overwrite: bool = True, max_shard_size: Any = None
) -> None:
    """Saves weights aside and puts the file in its place: the one before stays whole until then.

    Args:
        model: whose weights.
        save: Keras' own `save_weights`, for what is not an ordinary ``.weights.h5`` file to be overwritten.
        filepath: the file.
        overwrite: as for Keras.
        max_shard_size: as for Keras.

    Raises:
        OSError: if the file cannot be written; what was at its place is still there.
    """
    path = Path(filepath)
    if not overwrite or max_shard_size is not None or not path.name.endswith(".weights.h5") or not model.built:
        save(filepath, overwrite=overwrite, max_shard_size=max_shard_size)
        return
    aside = path.with_name(f"new_{path.name}")
    try:
        with open(aside, "wb") as file:
            file.write(_weights_file(model))
            file.flush()
            os.fsync(file.fileno())
        aside.replace(path)
    except OSError as error:
        aside.unlink(missing_ok=True)
        raise OSError(f"{path} could not be written ({error}); what was there before is still there.") from error


def _weights_file(model: keras.Model) -> bytes:
    """The content of a ``.weights.h5`` file, made in memory: HDF5 crashes the process where a disk is full."""
    content = io.BytesIO()
    store = saving_lib.H5IOStore(content, mode="w")
    saving_lib._save_state(model, weights_store=store, assets_store=None, inner_path="", visited_saveables=set())
    store.close()
    return content.getvalue()


class ResumeExactly(keras.callbacks.Callback):
    """Makes `BackupAndRestore` among the other callbacks exact. `RBMLayer.fit` puts it before and behind them.

    Args:
        callbacks: the other callbacks.
        before: whether this is the one before them, or the one behind.
    """

    def __init__(self, callbacks: list[keras.callbacks.Callback], before: bool) -> None:
        super().__init__()
        self.backups = [c for c in callbacks if isinstance(c, keras.callbacks.BackupAndRestore)]
        self.before = before

    def on_train_begin(self, logs: Any = None) -> None:
        if not self.backups:
            return
        if self.before:
            self.model.epochs_of_fit = None
            for backup in self.backups:
                forget_broken_count(backup)
            return
        # None: nothing was loaded, whatever a number that was left behind says.
        self.model._initial_epoch = self.model.epochs_of_fit

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        if self.before:
            self.model.epochs_of_fit = epoch + 1

    def on_train_end(self, logs: Any = None) -> None:
        if self.backups and not self.before:
            self.model._initial_epoch = None  # or Keras would leave out as many epochs of the next `fit`


def forget_broken_count(backup: keras.callbacks.BackupAndRestore) -> None:
    """Removes Keras' own count of epochs if a kill has cut it short: the one among the weights decides."""
    path = Path(backup._training_metadata_path)
    if path.exists():
        try:
            json.loads(path.read_text())
        except ValueError:
            path.unlink()
