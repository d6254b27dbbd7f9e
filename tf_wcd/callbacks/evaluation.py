"""The base class of callbacks that evaluate the model."""

from __future__ import annotations

from typing import Any

import keras

from tf_wcd.arguments import check_integer
from tf_wcd.tables import table_of


class EvaluationCallback(keras.callbacks.Callback):
    """Evaluates the model after the first epoch and then every few epochs, and puts the values into the logs.

    At epochs in between the last values are repeated, so that no values are missing. Put such a callback before those
    that use its values (`ModelCheckpoint`, `EarlyStopping`, `CSVLogger`, `TensorBoard`).

    Args:
        states: visible states that the evaluation needs, ``[n, visible units]``; ``None`` if it needs none.
        every: epochs between two evaluations.
        what: name of the argument ``states``, for error messages.
        strict: refuse expectations, which are no states.

    Attributes:
        names: names of the values in the logs.
        history: list of (epoch, values...), one entry for each evaluation.
    """

    names: tuple[str, ...]
    of_data = False  # whether the states are data without labels, where the model has labels

    def __init__(self, states: Any, every: int, what: str, strict: bool = True) -> None:
        super().__init__()
        self._table = None if states is None else table_of(states, what)
        self.states: Any = None if self._table is None else self._table.values
        self.every = check_integer("every", every)
        self.history: list[tuple[Any, ...]] = []
        self._what, self._strict = what, strict

    def evaluate(self) -> tuple[Any, ...]:
        """The values, in the order of ``names``."""
        raise NotImplementedError(f"{type(self).__name__} must implement `evaluate`.")

    def summarise(self, values: tuple[Any, ...]) -> tuple[float, ...]:
        """The values for the logs."""
        return values

    def on_train_begin(self, logs: Any = None) -> None:
        # Wrong states are refused before the first update if possible, and not an epoch later.
        if self.model.built and self._table is not None:
            check = self.model.checked_data if self.of_data else self.model.checked_visible
            check(self._table, self._what, strict=self._strict)

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        if not self.history or (epoch + 1) % self.every == 0:
            self.history.append((epoch, *self.evaluate()))
        if logs is not None:
            logs.update(zip(self.names, self.summarise(self.history[-1][1:]), strict=True))
