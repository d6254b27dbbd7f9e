"""A warning of weights that have collapsed."""

from __future__ import annotations

import sys
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
            warnings.warn(text, stacklevel=_levels_to_user())


def _levels_to_user() -> int:
    """The ``stacklevel`` at which a warning of the calling function names the line that has called `fit`."""
    frame, level = sys._getframe(1), 1
    while frame.f_globals.get("__name__", "").split(".")[0] in ("keras", "tf_wcd") and frame.f_back is not None:
        frame, level = frame.f_back, level + 1
    return level
