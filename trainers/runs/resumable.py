"""The one way to train here: a run goes on where it was stopped, with what was seen along the way."""

from __future__ import annotations

import dataclasses
import signal
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import keras
import numpy as np

from tf_wcd.files import replaced_atomically
from trainers.runs.workers import Workers
from trainers.store.files import save_model


class Seen(keras.callbacks.Callback):
    """What is seen along the way, as arrays; subclasses say what. A run that goes on has it back."""

    def state(self) -> dict[str, np.ndarray]:
        """What a checkpoint keeps."""
        return {}

    def restore(self, state: dict[str, np.ndarray], model: Any) -> None:
        """Takes back what a checkpoint has kept, with the model of the checkpoint."""


@dataclasses.dataclass(frozen=True)
class Plan:
    """How a run is kept and shared.

    Attributes:
        resume: go on where the same run was stopped; if not, what there is of it is removed.
        checkpoint_epochs: epochs from one checkpoint to the next; 0 to go by the clock, or after each epoch where
            several processes train together, whose clocks would not agree.
        checkpoint_seconds: seconds from one checkpoint to the next, by the clock.
        workers: the processes that train together; by default this one alone.
    """

    resume: bool = True
    checkpoint_epochs: int = 0
    checkpoint_seconds: float = 60.0
    workers: Workers = dataclasses.field(default_factory=Workers)


class Checkpoints(keras.callbacks.Callback):
    """Saves a run now and then, so that it goes on where it was stopped.

    The model is written first and what was seen along the way last: a pair without the second is not there yet, so
    that a kill at any moment leaves whole pairs. The newest two pairs are kept. On Ctrl-C the epoch is finished and
    saved before `KeyboardInterrupt` is raised; a second Ctrl-C stops immediately. With several workers, who would have
    to stop together, the first one does, and the last checkpoint counts.

    Args:
        stem: path of the files, without the number of epochs and the suffix.
        seen: what was seen along the way.
        plan: how often to save, and who does.
    """

    def __init__(self, stem: Path, seen: Seen, plan: Plan) -> None:
        super().__init__()
        self.stem, self.seen, self.plan, self.workers = stem, seen, plan, plan.workers
        self.epochs_between = plan.checkpoint_epochs or int(self.workers.several)
        self._last = self._start = time.monotonic()
        self._cpu_start = time.process_time()
        self._seconds_before = self._cpu_seconds_before = 0.0
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
        print("\nStopping after this epoch, to save it (Ctrl-C again: immediately)", file=sys.stderr, flush=True)

    def release(self) -> None:
        """Gives Ctrl-C back; to be called where `fit` ends with an error, too, of which Keras tells no callback."""
        if self._handler is not None:
            signal.signal(signal.SIGINT, self._handler)
            self._handler = None

    def seconds(self) -> float:
        """Time spent in all, the stretches before interruptions included."""
        return self._seconds_before + time.monotonic() - self._start

    def cpu_seconds(self) -> float:
        """Time of the processor, all threads of this process together, the stretches before interruptions included."""
        return self._cpu_seconds_before + time.process_time() - self._cpu_start

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
            # Checkpoints from before it was counted have the time on the clock alone.
            cpu_seconds = float(state.get("cpu_seconds", seconds))
        except Exception as error:  # h5py, zipfile, NumPy and Keras each raise errors of another kind
            raise ValueError(
                f"The checkpoint {path.with_suffix('.keras')}, {path.name}, is damaged: delete both files to go on "
                f"from the one before, or from the start. Received: {error}"
            ) from error
        self.seen.restore(state, model)
        self._seconds_before, self._cpu_seconds_before = seconds, cpu_seconds
        return model, int(path.name.split(".")[-2])

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        if not self._stopping and not self._is_time(epoch):
            return
        self._last = time.monotonic()
        path = self.stem.with_name(f"{self.stem.name}.{epoch + 1:06}.npz")
        earlier, kept = self._files(), self._whole()[-1:]
        self.stem.parent.mkdir(parents=True, exist_ok=True)
        try:
            self.workers.save(lambda target: save_model(self.model.save, target), path.with_suffix(".keras"))
            if self.workers.chief:
                times = {"seconds": self.seconds(), "cpu_seconds": self.cpu_seconds()}
                arrays: dict[str, Any] = {**times, **self.seen.state()}
                with replaced_atomically(path) as new, open(new, "wb") as file:
                    np.savez(file, **arrays)
        except OSError as error:
            path.with_suffix(".keras").unlink(missing_ok=True)
            before = f"the one before, {kept[0]}, is still good" if kept else "there is none before it"
            raise OSError(f"The checkpoint {path} could not be written; {before}. Received: {error}") from error
        if self.workers.chief:
            for file_before in earlier:
                if not any(file_before.stem == whole.stem for whole in [*kept, path]):
                    file_before.unlink(missing_ok=True)
        if self._stopping:
            raise KeyboardInterrupt(f"saved in {self.stem.parent}")

    def _is_time(self, epoch: int) -> bool:
        if self.epochs_between:
            return (epoch + 1) % self.epochs_between == 0
        return time.monotonic() - self._last >= self.plan.checkpoint_seconds

    def _whole(self) -> list[Path]:
        """Checkpoints that were written to the end, the oldest first."""
        return sorted(self.stem.parent.glob(f"{self.stem.name}.[0-9]*[0-9].npz"))

    def _files(self) -> list[Path]:
        """All files of the run, those that a kill has left half written (they are hidden) included."""
        return [file for start in ("", ".") for file in self.stem.parent.glob(f"{start}{self.stem.name}.*")]

    def remove(self) -> None:
        """Removes all checkpoints of the run: to be called when what it has found is kept elsewhere."""
        if self.workers.chief:
            for file in self._files():
                file.unlink(missing_ok=True)


class Trained(NamedTuple):
    """A run that has come to its end.

    Attributes:
        model: the model.
        seconds: time spent in all, the stretches before interruptions included.
        cpu_seconds: time of the processor, all threads of this process together, likewise.
        forget: removes the checkpoints: to be called when what was found is kept elsewhere.
    """

    model: Any
    seconds: float
    cpu_seconds: float
    forget: Callable[[], None]


def train(
    build: Callable[[], Any],
    fit: Callable[[Any, int, list[keras.callbacks.Callback]], Any],
    stem: Path | None,
    plan: Plan,
    seen: Seen | None = None,
    callbacks: Sequence[keras.callbacks.Callback] = (),
) -> Trained:
    """Trains a model, from its last checkpoint if there is one.

    Args:
        build: makes the model, compiled, where there is no checkpoint; called in the workers' strategy.
        fit: trains a model from an epoch on, with callbacks.
        stem: path of the checkpoints, without number and suffix; the same run has the same one. ``None`` for none.
        plan: how the run is kept and shared.
        seen: what is seen along the way, and kept through interruptions. It comes first among the callbacks.
        callbacks: others, called before an epoch is saved.
    """
    seen = seen or Seen()
    saved = Checkpoints(stem or Path("unsaved"), seen, plan)
    model, first_epoch = None, 0
    if stem is not None:
        if not plan.resume:
            saved.remove()
            plan.workers.wait()
        model, first_epoch = saved.restore()
    if model is None:
        with plan.workers.strategy.scope():
            model = build()
    try:
        fit(model, first_epoch, [seen, *callbacks, *([saved] if stem is not None else [])])
    finally:
        saved.release()
    forget = saved.remove if stem is not None else lambda: None
    return Trained(model, saved.seconds(), saved.cpu_seconds(), forget)
