"""Back-propagation that can be resumed exactly: the order of the data, dropout and all."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tf_wcd.training.inputs.arrays import index_blocks, row_batches
from trainers.runs.resumable import Plan, Seen, Trained, train


class DropoutCounters(Seen):
    """The counters of random numbers of Keras' own layers, which are not part of its files."""

    def state(self) -> dict[str, np.ndarray]:
        return {f"counter_{i}": variable.numpy() for i, variable in enumerate(_counters(self.model))}

    def restore(self, state: dict[str, np.ndarray], model: Any) -> None:
        for i, variable in enumerate(_counters(model)):
            variable.assign(state[f"counter_{i}"])


def _counters(model: keras.Model) -> list[keras.Variable]:
    return [variable for variable in model.variables if "seed_generator_state" in variable.path]


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
        lambda chosen: (x[chosen], y[chosen]),
        lambda: index_blocks(len(x), batch_size, 1, seed, first_epoch * updates, shuffle=True, endless=False),
    )


def tune(
    build: Callable[[], keras.Model],
    x: np.ndarray,
    y: np.ndarray,
    batch_size: int,
    epochs: int,
    seed: int,
    stem: Path | None = None,
    plan: Plan | None = None,
    callbacks: Sequence[keras.callbacks.Callback] = (),
    verbose: int = 0,
) -> Trained:
    """Trains a model by back-propagation, or a DBN by up-down: any `fit` that takes batches ``(x, y)``.

    Args:
        build: makes the model, compiled.
        x: inputs.
        y: targets.
        batch_size: examples in a batch.
        epochs: passes over the data.
        seed: of the order of the data.
        stem: see `trainers.runs.resumable.train`.
        plan: see `trainers.runs.resumable.train`; by default a checkpoint after each epoch.
        callbacks: others.
        verbose: Keras' verbosity.
    """

    def fit(model: keras.Model, first_epoch: int, all_callbacks: list[keras.callbacks.Callback]) -> None:
        model.fit(
            shuffled(x, y, batch_size, seed, first_epoch),
            steps_per_epoch=-(-len(x) // batch_size),
            epochs=epochs,
            initial_epoch=first_epoch,
            shuffle=False,  # the stream has an order already
            callbacks=all_callbacks,
            verbose=verbose,
        )

    return train(build, fit, stem, plan or Plan(checkpoint_epochs=1), DropoutCounters(), callbacks)
