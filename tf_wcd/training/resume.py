"""Training that goes on exactly where it was stopped, with `keras.callbacks.BackupAndRestore`.

Keras writes the weights and then the number of the epoch, each over the one before. A process that is killed in
between, or in the middle of one of them, would go on from a file that is cut short, or one epoch off. Here weights are
replaced atomically, and the number of epochs is one of them, which decides.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import keras

from tf_wcd import compat
from tf_wcd.arguments import list_of_callbacks
from tf_wcd.files import write_atomically


def save_weights_atomically(
    model: keras.Model, save: Any, filepath: Any, overwrite: bool = True, max_shard_size: Any = None
) -> None:
    """Saves weights; the file that was there before stays whole until the new one is.

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
    try:
        write_atomically(path, compat.weights_file(model))
    except OSError as error:
        raise OSError(f"{path} could not be written ({error}); what was there before is still there.") from error


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
        compat.set_initial_epoch(self.model, self.model.epochs_of_fit)

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        if self.before:
            self.model.epochs_of_fit = epoch + 1

    def on_train_end(self, logs: Any = None) -> None:
        if self.backups and not self.before:
            compat.set_initial_epoch(self.model, None)  # or Keras would leave out as many epochs of the next `fit`


def forget_broken_count(backup: keras.callbacks.BackupAndRestore) -> None:
    """Removes Keras' own count of epochs if a kill has cut it short: the one among the weights decides."""
    path = compat.backup_count_path(backup)
    if path.exists():
        try:
            json.loads(path.read_text())
        except ValueError:
            path.unlink()


class FirstUpdate(keras.callbacks.Callback):
    """The number of updates before the first epoch, after callbacks have restored what they restore.

    The order of the data is a function of it. Asked later, when the data are fetched, the optimizer may have begun to
    count.

    Attributes:
        number: updates of the model so far.
        epochs: epochs that are still to come.
    """

    def __init__(self) -> None:
        super().__init__()
        self.number: int = -1
        self.epochs = 0

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        if self.number < 0:
            self.number = int(self.model.optimizer.iterations.numpy())
            # A `CallbackList` need not say how many epochs there will be.
            self.epochs = int((self.params or {}).get("epochs", epoch + 1)) - epoch


def with_ours(callbacks: Any, model: keras.Model, ours: list[keras.callbacks.Callback]) -> Any:
    """The callbacks, with ours before them, and around them those that make an interrupted training go on exactly."""
    whole = callbacks if isinstance(callbacks, keras.callbacks.CallbackList) else None
    others = list_of_callbacks(callbacks)
    before, behind = (ResumeExactly(others, before=place) for place in (True, False))
    if whole is None:
        return [*ours, before, *others, behind]
    for callback in (*ours, before, behind):
        callback.set_model(model)
        callback.set_params(whole.params)
    whole.callbacks[:] = [*ours, before, *others, behind]
    return whole
