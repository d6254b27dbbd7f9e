"""Training that goes on where it was stopped, with what was seen along the way."""

from __future__ import annotations

import signal
import sys
import threading
import time
from pathlib import Path
from typing import Any, Protocol

import keras
import numpy as np

SECONDS_BETWEEN_CHECKPOINTS = 60.0


class Seen(Protocol):
    """What was seen along the way, as arrays."""

    def state(self) -> dict[str, np.ndarray]: ...

    def restore(self, state: Any) -> None: ...


class Checkpoints(keras.callbacks.Callback):
    """Saves runs in the middle now and then, so that they go on where they were stopped.

    The model is written first and what was seen along the way last: a pair without the second is not there yet. The
    newest two pairs are kept. On Ctrl-C the epoch is finished and saved before `KeyboardInterrupt` is raised; a second
    Ctrl-C stops at once.
    """

    def __init__(self, stem: Path, seen: Seen) -> None:
        super().__init__()
        self.stem, self.seen = stem, seen
        self._last = self._start = time.monotonic()
        self._seconds_before = 0.0
        self._stopping = False
        self._handler: Any = None

    def on_train_begin(self, logs: Any = None) -> None:
        if threading.current_thread() is threading.main_thread():
            self._handler = signal.signal(signal.SIGINT, self._stop)

    def on_train_end(self, logs: Any = None) -> None:
        self._release()

    def _stop(self, *_: Any) -> None:
        self._stopping = True
        self._release()
        print("\nStopping after this epoch, to save it (Ctrl-C again: at once)", file=sys.stderr, flush=True)

    def _release(self) -> None:
        if self._handler is not None:
            signal.signal(signal.SIGINT, self._handler)
            self._handler = None

    def seconds(self) -> float:
        """Time spent in all, the stretches before interruptions included."""
        return self._seconds_before + time.monotonic() - self._start

    def restore(self, use_earlier: bool = False) -> tuple[Any, int]:
        """The model as it was saved last, or None, and the epoch that comes next.

        Args:
            use_earlier: go on from the checkpoint before where the last one is damaged.

        Raises:
            ValueError: if a checkpoint is damaged.
        """
        for path in reversed(self._whole()):
            try:
                state = dict(np.load(path))
                model = keras.models.load_model(path.with_suffix(".keras"))
                seconds = float(state["seconds"])
            except Exception as error:  # h5py, zipfile, NumPy and Keras each have errors of their own for this
                if use_earlier:
                    continue
                raise ValueError(
                    f"The checkpoint {path.with_suffix('.keras')}, {path.name}, is damaged: delete both files to go on "
                    f"from the one before, or from the start. Received: {error}"
                ) from error
            self.seen.restore(state)
            self._seconds_before = seconds
            return model, int(path.name.split(".")[-2])
        return None, 0

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        if not self._stopping and time.monotonic() - self._last < SECONDS_BETWEEN_CHECKPOINTS:
            return
        self._last = time.monotonic()
        earlier, kept = self._files(), self._whole()[-1:]
        self.stem.parent.mkdir(parents=True, exist_ok=True)
        path = self.stem.with_name(f"{self.stem.name}.{epoch + 1:06}.npz")
        aside = path.with_suffix(".part.npz")
        arrays: dict[str, Any] = {"seconds": self.seconds(), **self.seen.state()}
        try:
            self.model.save(path.with_suffix(".keras"))
            np.savez(aside, **arrays)
        except OSError as error:
            for file in (path.with_suffix(".keras"), aside):
                file.unlink(missing_ok=True)
            before = f"the one before, {kept[0]}, is still good" if kept else "there is none before it"
            raise OSError(f"The checkpoint {path} could not be written; {before}. Received: {error}") from error
        aside.rename(path)
        for file in earlier:
            if not any(file.stem == whole.stem for whole in kept):
                file.unlink()
        if self._stopping:
            raise KeyboardInterrupt(f"saved in {self.stem.parent}")

    def _whole(self) -> list[Path]:
        """Checkpoints that were written to the end, the oldest first."""
        return sorted(self.stem.parent.glob(f"{self.stem.name}.[0-9]*[0-9].npz"))

    def _files(self) -> list[Path]:
        return list(self.stem.parent.glob(f"{self.stem.name}.*"))

    def remove(self) -> None:
        for file in self._files():
            file.unlink()
