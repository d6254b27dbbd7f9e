"""Greedy training: one layer after the other, each on what the layers below make of the data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import keras
import numpy as np
import tensorflow as tf

from tf_wcd.arguments import is_integer
from tf_wcd.dbn.progress import LayerReports, PretrainingProgress
from tf_wcd.dbn.streams import INPUTS, ArrayStream, DatasetStream, inputs_of_layer
from tf_wcd.random_bits import key_of
from tf_wcd.resume import forget_broken_count

if TYPE_CHECKING:
    from tf_wcd.dbn.model import DBN


def pretrain(
    dbn: DBN,
    stream: ArrayStream | DatasetStream,
    epochs: Sequence[int],
    inputs: str,
    initial_layer: int | None,
    callbacks: Any,
    layer_callbacks: Mapping[int, Any] | None,
    verbose: int,
) -> list[keras.callbacks.History]:
    """Trains the layers from ``initial_layer`` on, each up to its number of epochs; see `DBN.pretrain`."""
    progress = PretrainingProgress(verbose)
    progress.updates = stream.updates_per_epoch
    everything = keras.callbacks.CallbackList(
        [*_as_list(callbacks), progress],
        add_history=False,
        model=dbn,
        epochs=sum(epochs),
        steps=stream.updates_per_epoch,
        verbose=verbose,
    )
    dbn.stop_training = False
    histories = []
    _begin(dbn, stream, everything)
    # Callbacks may have restored a model that was further on.
    begun = [number for number in range(len(dbn.rbms)) if dbn.epochs_done(number)]
    initial_layer = max(begun, default=0) if initial_layer is None else initial_layer
    for number, rbm in enumerate(dbn.rbms):
        done, wished = dbn.epochs_done(number), epochs[number]
        history = keras.callbacks.History()
        history.set_model(rbm)
        history.on_train_begin()
        if number >= initial_layer and done < wished and not dbn.stop_training:
            history = _train_layer(
                dbn, number, stream, (done, wished), inputs, everything, progress, (layer_callbacks or {}).get(number)
            )
        histories.append(history)
    everything.on_train_end()
    return histories


def _begin(dbn: DBN, stream: ArrayStream | DatasetStream, everything: keras.callbacks.CallbackList) -> None:
    """Tells the callbacks that training begins; `BackupAndRestore` loads what was saved."""
    backups = [c for c in everything.callbacks if isinstance(c, keras.callbacks.BackupAndRestore)]
    if backups:
        # They can load only what is there: the chains of every layer, too, whose turn would come later.
        for rbm in dbn.rbms:
            rbm.prepare(stream.first_batch_size())
    for backup in backups:
        forget_broken_count(backup)
    everything.on_train_begin()
    dbn._initial_epoch = None  # how far each layer has come is in the model; Keras would skip epochs of `fit`


def _train_layer(
    dbn: DBN,
    number: int,
    stream: ArrayStream | DatasetStream,
    span: tuple[int, int],
    inputs: str,
    everything: keras.callbacks.CallbackList,
    progress: PretrainingProgress,
    callbacks: Any,
) -> keras.callbacks.History:
    """Trains one layer from the epoch ``span[0]`` to the epoch ``span[1]``."""
    rbm = dbn.rbms[number]
    seed = int(rbm.seed_generator.state.numpy()[0])
    dataset = inputs_of_layer(
        stream.numbered(seed, span[0]),
        [below.machine() for below in dbn.rbms[:number]],
        inputs,
        key_of(tf.constant([seed, 0], tf.int64), purpose=0xDB),
        with_labels=number == len(dbn.rbms) - 1,
    )

    def describe(epoch: int) -> None:
        sizes = f"{rbm.num_visible} -> {rbm.units}"
        progress.title = f"Layer {number + 1}/{len(dbn.rbms)}, {rbm.name} ({sizes}), epoch {epoch + 1}/{span[1]}"

    reports = LayerReports(
        everything,
        number,
        first_epoch=sum(dbn.epochs_done(below) for below in range(number)),
        describe=describe,
        epoch_done=lambda count: dbn.count_epochs(number, count),
    )
    return rbm.fit(
        dataset,
        epochs=span[1],
        initial_epoch=span[0],
        steps_per_epoch=stream.steps_per_epoch,
        verbose=0,
        callbacks=[*_as_list(callbacks), reports],
    )


def check_epochs(epochs: Any, layers: int) -> list[int]:
    """Epochs of each layer, from one number for all or one for each."""
    each = list(epochs) if isinstance(epochs, Sequence | np.ndarray) else [epochs] * layers
    whole = [is_integer(n) and n >= 0 for n in each]
    if len(each) != layers or not all(whole):
        raise ValueError(
            f"`epochs` must be an integer of at least 0, or one for each of the {layers} layers. "
            f"Received: epochs={epochs!r}"
        )
    return [int(n) for n in each]


def check_inputs(inputs: str) -> str:
    if inputs not in INPUTS:
        raise ValueError(f"`inputs` must be one of {list(INPUTS)}. Received: inputs={inputs!r}")
    return inputs


def _as_list(callbacks: Any) -> list[keras.callbacks.Callback]:
    if callbacks is None:
        return []
    return list(callbacks) if isinstance(callbacks, list | tuple) else [callbacks]
