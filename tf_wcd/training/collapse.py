"""A warning of weights that have collapsed."""

from __future__ import annotations

import warnings
from typing import Any

import keras


class CollapseWarning(keras.callbacks.Callback):
    """Warns once for each model if the weights of its negative phase were on hardly more than one point in an epoch.

    It looks at the logs of an epoch, which have the effective sample size already: an update costs nothing more.

    Args:
        batch_size: examples in a batch.
    """

    def __init__(self, batch_size: int) -> None:
        super().__init__()
        self._batch_size = batch_size

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        if self.model.warned_of_collapse or "ess" not in (logs or {}):
            return
        if text := self.model.collapse_warning(float(logs["ess"]), self._batch_size):
            self.model.warned_of_collapse = True
            warnings.warn(text, stacklevel=2)
