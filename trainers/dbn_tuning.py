"""Back-propagation that can be resumed exactly: the order of the data, dropout and all."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from tf_wcd.blocks import index_blocks, row_batches

from trainers.dbn_records import replace


class TuningState(keras.callbacks.Callback):
    """Saves all that fine-tuning changes after each epoch: weights, the optimizer's state, counters of random numbers.

    Args:
        path: an ``.npz`` file, always a whole one.
    """

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.path = path

    def restore(self, model: keras.Model) -> int:
        """Brings a compiled model to the state that was saved, if there is one; returns the epoch that comes next."""
        model.optimizer.build(model.trainable_variables)
        if not self.path.exists():
            return 0
        try:
            saved = dict(np.load(self.path))
            for number, variable in enumerate(_variables(model)):
                variable.assign(saved[str(number)])
            return int(saved["epochs"])
        except Exception as error:  # NumPy, zipfile and Keras each have errors of their own for this
            raise ValueError(
                f"The saved state {self.path} is damaged: delete it to tune from the start. Received: {error}"
            ) from error

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        state = {str(number): variable.numpy() for number, variable in enumerate(_variables(self.model))}
        replace(self.path, lambda path: np.savez(path, epochs=epoch + 1, **state))


def _variables(model: keras.Model) -> list[keras.Variable]:
    """Weights, counters of random numbers and the optimizer's variables; metrics begin anew in each epoch."""
    metrics = {id(variable) for variable in model.metrics_variables}
    return [v for v in (*model.variables, *model.optimizer.variables) if id(v) not in metrics]


def shuffled(x: np.ndarray, y: np.ndarray, batch_size: int, seed: int, first_epoch: int) -> tf.data.Dataset:
    """Batches ``(x, y)`` without end, from an epoch on: the order of each depends on the seed and its number alone.

    Example:

    >>> x = np.arange(6.0)[:, None]
    >>> whole = [x[:, 0].tolist() for x, _ in shuffled(x, x, 4, seed=1, first_epoch=0).take(4).as_numpy_iterator()]
    >>> later = [x[:, 0].tolist() for x, _ in shuffled(x, x, 4, seed=1, first_epoch=1).take(2).as_numpy_iterator()]
    >>> [len(batch) for batch in whole], later == whole[2:]
    ([4, 2, 4, 2], True)
    """
    updates = -(-len(x) // batch_size)
    return row_batches(
        x, y, lambda: index_blocks(len(x), batch_size, 1, seed, first_epoch * updates, shuffle=True, endless=False)
    )


def tune(
    model: keras.Model,
    x: np.ndarray,
    y: np.ndarray,
    batch_size: int,
    epochs: int,
    seed: int,
    state: Path | None,
    callbacks: list[keras.callbacks.Callback],
    verbose: int,
) -> None:
    """Trains a compiled model by back-propagation.

    Args:
        model: the model.
        x: inputs.
        y: targets.
        batch_size: examples in a batch.
        epochs: passes over the data.
        seed: of the order of the data.
        state: file for the state of work in progress, from which the same call goes on; ``None`` to keep none.
        callbacks: others.
        verbose: Keras' verbosity.
    """
    first_epoch = 0
    if state is not None:
        saved = TuningState(state)
        first_epoch = saved.restore(model)
        callbacks = [*callbacks, saved]
    model.fit(
        shuffled(x, y, batch_size, seed, first_epoch),
        steps_per_epoch=-(-len(x) // batch_size),
        epochs=epochs,
        initial_epoch=first_epoch,
        shuffle=False,  # the stream has an order already
        callbacks=callbacks,
        verbose=verbose,
    )
