"""Training that goes on where it was stopped, with what was seen along the way."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import keras
import numpy as np

from trainers.workers import Workers

SECONDS_BETWEEN_CHECKPOINTS = 60.0


class Seen(Protocol):
    """What was seen along the way, as arrays."""

    def state(self) -> dict[str, np.ndarray]: ...

    def restore(self, state: Any) -> None: ...


class Plan(NamedTuple):
    """How a run is kept and shared.

    Attributes:
        resume: go on where the same run was stopped; if not, what there is of it is removed.
        checkpoint_epochs: epochs from one checkpoint to the next; 0 for one a minute, and one after each epoch where
            several processes train together, whose clocks would not agree.
        workers: the processes that train together; ``None`` for this one alone.
    """

    resume: bool = True
    checkpoint_epochs: int = 0
    workers: Workers | None = None


class Checkpoints(keras.callbacks.Callback):
    """Saves runs in the middle now and then, so that they go on where they were stopped.

    The model is written first and what was seen along the way last, aside, and then renamed: a pair without the second
    is not there yet, so that a kill at any moment leaves whole pairs. The newest two pairs are kept. On Ctrl-C the
    epoch is finished and saved before `KeyboardInterrupt` is raised; a second Ctrl-C stops at once. With several
    workers, who would have to stop together, Ctrl-C stops at once, and the last checkpoint counts.

    Args:
        stem: path of the files, without the number of epochs and the suffix.
        seen: what was seen along the way.
        plan: how often to save, and who does.
    """

    def __init__(self, stem: Path, seen: Seen, plan: Plan | None = None) -> None:
        super().__init__()
        self.stem, self.seen = stem, seen
        self.plan = plan or Plan()
        self.workers = self.plan.workers or Workers()
        self.epochs_between = self.plan.checkpoint_epochs or int(self.workers.several)
        self._last = self._start = time.monotonic()
        self._seconds_before = 0.0
        self._stopping = False
        self._handler: Any = None

    def on_train_begin(self, logs: Any = None) -> None:
        if threading.current_thread() is threading.main_thread() and not self.workers.several:
            self._handler = signal.signal(signal.SIGINT, self._stop)

    def on_train_end(self, logs: Any = None) -> None:
        self.release()

    def _stop(self, *_: Any) -> None:
        self._stopping = True
        self.release()
        print("\nStopping after this epoch, to save it (Ctrl-C again: at once)", file=sys.stderr, flush=True)

    def release(self) -> None:
        """Gives Ctrl-C back; to be called where `fit` ends with an error, too, of which Keras tells no callback."""
        if self._handler is not None:
            signal.signal(signal.SIGINT, self._handler)
            self._handler = None

    def seconds(self) -> float:
        """Time spent in all, the stretches before interruptions included."""
        return self._seconds_before + time.monotonic() - self._start

    def restore(self) -> tuple[Any, int]:
        """The model as it was saved last, or None, and the epoch that comes next. It is made in the workers' strategy.

        Raises:
            ValueError: if the last checkpoint is damaged.
        """
        found = self._restore()
        self.workers.agree(found[1], "checkpoints (their last epochs)")
        return found

    def _restore(self) -> tuple[Any, int]:
        whole = self._whole()
        if not whole:
            return None, 0
        path = whole[-1]
        try:
            state = dict(np.load(path))
            with self.workers.strategy.scope():
                model = keras.models.load_model(path.with_suffix(".keras"))
            seconds = float(state["seconds"])
        except Exception as error:  # h5py, zipfile, NumPy and Keras each have errors of their own for this
            raise ValueError(
                f"The checkpoint {path.with_suffix('.keras')}, {path.name}, is damaged: delete both files to go on "
                f"from the one before, or from the start. Received: {error}"
            ) from error
        self.seen.restore(state)
        self._seconds_before = seconds
        return model, int(path.name.split(".")[-2])

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        if not self._stopping and not self._is_time(epoch):
            return
        self._last = time.monotonic()
        path = self.stem.with_name(f"{self.stem.name}.{epoch + 1:06}.npz")
        earlier, kept = self._files(), self._whole()[-1:]
        self.stem.parent.mkdir(parents=True, exist_ok=True)
        try:
            self.workers.save(self.model.save, path.with_suffix(".keras"))
            if self.workers.chief:
                self._finish(path)
        except OSError as error:
            for file in (path.with_suffix(".keras"), path.with_suffix(".part.npz")):
                file.unlink(missing_ok=True)
            before = f"the one before, {kept[0]}, is still good" if kept else "there is none before it"
            raise OSError(f"The checkpoint {path} could not be written; {before}. Received: {error}") from error
        if self.workers.chief:
            for file in earlier:
                if not any(file.stem == whole.stem for whole in [*kept, path]):
                    file.unlink(missing_ok=True)
        if self._stopping:
            raise KeyboardInterrupt(f"saved in {self.stem.parent}")

    def _is_time(self, epoch: int) -> bool:
        if self.epochs_between:
            return (epoch + 1) % self.epochs_between == 0
        return time.monotonic() - self._last >= SECONDS_BETWEEN_CHECKPOINTS

    def _finish(self, path: Path) -> None:
        """Writes what was seen, aside, and puts it in its place when both files are on the disk."""
        aside = path.with_suffix(".part.npz")
        arrays: dict[str, Any] = {"seconds": self.seconds(), **self.seen.state()}
        with open(aside, "wb") as file:
            np.savez(file, **arrays)
        for written in (path.with_suffix(".keras"), aside):
            with open(written, "rb+") as file:
                os.fsync(file.fileno())
        aside.rename(path)

    def _whole(self) -> list[Path]:
        """Checkpoints that were written to the end, the oldest first."""
        return sorted(self.stem.parent.glob(f"{self.stem.name}.[0-9]*[0-9].npz"))

    def _files(self) -> list[Path]:
        return list(self.stem.parent.glob(f"{self.stem.name}.*"))

    def remove(self) -> None:
        if self.workers.chief:
            for file in self._files():
                file.unlink(missing_ok=True)
