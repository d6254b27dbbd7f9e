"""A record for each epoch of a run."""

from __future__ import annotations

import time
from typing import Any

import keras

from trainers.store.records import Records


class EpochRecords(keras.callbacks.Callback):
    """Appends a record with the metrics of each epoch.

    Args:
        records: where they go.
        stage: what the epochs are part of; other stages may have the same file.
    """

    def __init__(self, records: Records, stage: str) -> None:
        super().__init__()
        self.records, self.stage = records, stage
        self._start = 0.0
        self._begun = False

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        if not self._begun:
            # Epochs that are trained again after a kill take the place of what was written of them.
            self.records.remove(lambda old: old["stage"] == self.stage and old["epoch"] > epoch)
            self._begun = True
        self._start = time.perf_counter()

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        values = {name: float(f"{float(value):.5g}") for name, value in (logs or {}).items()}
        seconds = round(time.perf_counter() - self._start, 2)
        self.records.append({"stage": self.stage, "epoch": epoch + 1, **values, "seconds": seconds})
