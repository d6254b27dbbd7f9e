"""Training that goes on exactly where it was stopped, with `keras.callbacks.BackupAndRestore`.

Keras writes the weights and then the number of the epoch, each over the one before. A process that is killed in
between, or in the middle of one of them, would go on from a file that is cut short, or one epoch off. Here weights are
written aside and renamed, and the number of epochs is one of them, which decides.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import keras


def save_weights_at_once(save: Any, filepath: Any, overwrite: bool = True, **kwargs: Any) -> None:
    """Saves weights aside and puts the file in its place: the one before stays whole until then.

    Raises:
        OSError: if the file cannot be written; what was at its place is still there.
    """
    path = Path(filepath)
    aside = path.with_name(f"new_{path.name}")
    if not overwrite or kwargs or not path.name.endswith(".weights.h5"):
        save(filepath, overwrite=overwrite, **kwargs)
        return
    try:
        save(aside, overwrite=True, **kwargs)
        with open(aside, "rb+") as file:
            os.fsync(file.fileno())
    except OSError as error:
        aside.unlink(missing_ok=True)
        raise OSError(f"{path} could not be written ({error}); what was there before is still there.") from error
    aside.replace(path)


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
                _forget_if_broken(Path(backup._training_metadata_path))
            return
        # None: nothing was loaded, whatever a number that was left behind says.
        self.model._initial_epoch = self.model.epochs_of_fit

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        if self.before:
            self.model.epochs_of_fit = epoch + 1

    def on_train_end(self, logs: Any = None) -> None:
        if self.backups and not self.before:
            self.model._initial_epoch = None  # or Keras would leave out as many epochs of the next `fit`


def _forget_if_broken(path: Path) -> None:
    if path.exists():
        try:
            json.loads(path.read_text())
        except ValueError:
            path.unlink()
