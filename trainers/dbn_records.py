"""Records of the training of Deep Belief Networks: written as the work goes on, so that it can be interrupted."""

from __future__ import annotations

import datetime
import json
import os
import time
from pathlib import Path
from typing import Any

import keras


class Record:
    """The JSON file of one part of the work: its settings, its results so far, and whether it is finished.

    Args:
        path: the file. If it is there already, the work goes on from it.
        settings: of the work. Another run's record with other settings is not overwritten.
    """

    def __init__(self, path: Path, settings: dict[str, Any]) -> None:
        self.path = path
        self.content: dict[str, Any] = {"settings": settings, "finished": False}
        if path.exists():
            self.content = json.loads(path.read_text())
            if self.content["settings"] != settings:
                raise ValueError(
                    f"{path} is of a run with other settings: use another folder, or the same settings. "
                    f"Received: {settings} instead of {self.content['settings']}"
                )

    @property
    def finished(self) -> bool:
        return bool(self.content["finished"])

    def update(self, **results: Any) -> None:
        """Adds results and writes the file, at once or not at all."""
        self.content |= results
        replace(self.path, lambda path: path.write_text(json.dumps(self.content, indent=1) + "\n"))

    def finish(self) -> None:
        self.update(finished=True, date=datetime.date.today().isoformat(), cores=os.cpu_count())


class SaveModel(keras.callbacks.Callback):
    """Saves the model after each epoch: the file is always a whole one."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.path = path

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        replace(self.path, self.model.save)


class EpochLines(keras.callbacks.Callback):
    """Adds a line of JSON for each epoch to a file that is always a whole one.

    Args:
        path: the file.
        stage: what the epoch is part of.
    """

    def __init__(self, path: Path, stage: str) -> None:
        super().__init__()
        self.path, self.stage = path, stage
        self._start = 0.0

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        self._start = time.perf_counter()

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        values = {name: float(f"{float(value):.5g}") for name, value in (logs or {}).items()}
        seconds = round(time.perf_counter() - self._start, 2)
        line = json.dumps({"stage": self.stage, "epoch": epoch + 1, **values, "seconds": seconds})
        # An epoch that is trained again after a kill takes the place of what was written of it, and after it.
        kept = [old for old in self._lines() if not self._is_later(json.loads(old), epoch)]
        replace(self.path, lambda path: path.write_text("\n".join([*kept, line]) + "\n"))

    def _lines(self) -> list[str]:
        return self.path.read_text().splitlines() if self.path.exists() else []

    def _is_later(self, line: dict[str, Any], epoch: int) -> bool:
        return line["stage"] == self.stage and line["epoch"] > epoch


def replace(path: Path, write: Any) -> None:
    """Writes a file beside the old one and puts it in its place.

    Raises:
        OSError: if it cannot be written; what was there before is still there.
    """
    new = path.with_name(f"new_{path.name}")
    try:
        write(new)
        with open(new, "rb+") as file:
            os.fsync(file.fileno())
    except OSError as error:
        new.unlink(missing_ok=True)
        raise OSError(f"{path} could not be written ({error}); what was there before is still there.") from error
    new.replace(path)
