"""One count, one display, one set of callbacks and one history for a training that goes through several layers."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import keras


@keras.saving.register_keras_serializable(package="tf_wcd")
class PretrainingCount(keras.layers.Layer):
    """How many epochs of pre-training each layer has done, as a variable that is saved with the model."""

    def __init__(self, layers: int, **kwargs: Any) -> None:
        super().__init__(trainable=False, **kwargs)
        self.num_layers = layers

    def build(self, input_shape: Any) -> None:
        self.epochs = self.add_weight(
            shape=(self.num_layers,), initializer="zeros", dtype="int32", trainable=False, name="epochs"
        )
        self.built = True


class PretrainingProgress(keras.callbacks.Callback):
    """Shows the layer, its epoch, and Keras' progress bar.

    Args:
        verbose: 0 for nothing, 1 for a progress bar, 2 for one line after each epoch.
    """

    def __init__(self, verbose: int) -> None:
        super().__init__()
        self.verbose = verbose
        self.title = ""
        self.updates: int | None = None
        self._bar: Any = None
        self._updates_done = 0

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        if self.verbose:
            print(self.title)
            self._bar = keras.utils.Progbar(target=self.updates, verbose=self.verbose, unit_name="step")
            self._updates_done = 0

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        self._updates_done = batch + 1
        if self.verbose == 1:
            self._bar.update(self._updates_done, _values(logs), finalize=False)

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        if self.verbose:
            if self._bar.target is None:
                self._bar.target = self._updates_done
            self._bar.update(self._bar.target, _values(logs), finalize=True)
            sys.stdout.flush()


class LayerReports(keras.callbacks.Callback):
    """Hands what happens in the training of one layer to the callbacks of the whole.

    Args:
        callbacks: those of the whole, which count the epochs of all layers together.
        layer: number of the layer, which the logs get.
        first_epoch: number of this layer's epoch 0 among those of all layers.
        describe: makes the title of an epoch, from its number in this layer.
        epoch_done: called with the number of epochs that the layer has done.
    """

    def __init__(
        self,
        callbacks: keras.callbacks.CallbackList,
        layer: int,
        first_epoch: int,
        describe: Callable[[int], None],
        epoch_done: Callable[[int], None],
    ) -> None:
        super().__init__()
        self._callbacks, self._layer, self._first_epoch = callbacks, layer, first_epoch
        self._describe, self._epoch_done = describe, epoch_done

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        self._describe(epoch)
        self._callbacks.on_epoch_begin(self._first_epoch + epoch)

    def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
        self._callbacks.on_train_batch_begin(batch, logs)

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        self._callbacks.on_train_batch_end(batch, logs)

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        # The count first: a callback that saves the model saves with it how far the training has come.
        self._epoch_done(epoch + 1)
        self._callbacks.on_epoch_end(self._first_epoch + epoch, {**(logs or {}), "layer": self._layer})
        if self._callbacks.model.stop_training:
            self.model.stop_training = True


def _values(logs: Any) -> list[tuple[str, float]]:
    return [(name, float(value)) for name, value in (logs or {}).items() if name != "layer"]
