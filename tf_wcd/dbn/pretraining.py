"""Greedy training: one layer after the other, each on what the layers below make of the data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import keras
import numpy as np
import tensorflow as tf

from tf_wcd import compat
from tf_wcd.arguments import check_integer, is_integer, list_of_callbacks
from tf_wcd.dbn.compatibility import check_layers
from tf_wcd.dbn.progress import LayerReports, PretrainingProgress
from tf_wcd.machine import Machine
from tf_wcd.random import batch_source, key_of, subkey
from tf_wcd.sampling.passes import pass_up
from tf_wcd.training.inputs import ArrayInput, DatasetInput, input_of
from tf_wcd.training.resume import forget_broken_count

if TYPE_CHECKING:
    from tf_wcd.dbn.model import DBN

INPUTS = ("probabilities", "samples")
EXAMPLES_FOR_MEANS = 10_000
Data = ArrayInput | DatasetInput


def pretrain(
    dbn: DBN,
    data: Data,
    epochs: Sequence[int],
    inputs: str,
    initial_layer: int | None,
    callbacks: Any,
    layer_callbacks: Mapping[int, Any] | None,
    verbose: int,
    start_at_means: bool,
) -> list[keras.callbacks.History]:
    """Trains the layers from ``initial_layer`` on, each up to its number of epochs; see `DBN.pretrain`."""
    progress = PretrainingProgress(verbose)
    progress.updates = data.updates_per_epoch
    everything = keras.callbacks.CallbackList(
        [*list_of_callbacks(callbacks), progress],
        add_history=False,
        model=dbn,
        epochs=sum(epochs),
        steps=data.updates_per_epoch,
        verbose=verbose,
    )
    dbn.stop_training = False
    histories = []
    _begin(dbn, data, everything)
    # Callbacks may have restored a model that was further on.
    begun = [number for number in range(len(dbn.rbms)) if dbn.epochs_done(number)]
    initial_layer = max(begun, default=0) if initial_layer is None else initial_layer
    for number, rbm in enumerate(dbn.rbms):
        done, wished = dbn.epochs_done(number), epochs[number]
        history = keras.callbacks.History()
        history.set_model(rbm)
        history.on_train_begin()
        if number >= initial_layer and done < wished and not dbn.stop_training:
            # The layers above see hidden units, whose means are nowhere near their ends: trials found no gain there.
            if start_at_means and number == done == 0 and not np.any(rbm.visible_bias.numpy()):
                rbm.start_at_means(means_of_data(data)[None, : rbm.num_visible])
            history = _train_layer(
                dbn, number, data, (done, wished), inputs, everything, progress, (layer_callbacks or {}).get(number)
            )
        histories.append(history)
    everything.on_train_end()
    return histories


def _begin(dbn: DBN, data: Data, everything: keras.callbacks.CallbackList) -> None:
    """Tells the callbacks that training begins; `BackupAndRestore` loads what was saved."""
    backups = [c for c in everything.callbacks if isinstance(c, keras.callbacks.BackupAndRestore)]
    if backups:
        # They can load only what is there: the chains of every layer, too, whose turn would come later.
        for rbm in dbn.rbms:
            rbm.prepare(data.batch_size)
    for backup in backups:
        forget_broken_count(backup)
    everything.on_train_begin()
    # How far each layer has come is in the model. With this number Keras would skip epochs of `fit`.
    compat.set_initial_epoch(dbn, None)


def _train_layer(
    dbn: DBN,
    number: int,
    data: Data,
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
        data.numbered(seed, span[0]),
        [below.machine() for below in dbn.rbms[:number]],
        inputs,
        key_of(tf.constant([seed, 0], tf.int64), purpose=0xDB),
        classes=dbn.classes,
        with_labels=number == len(dbn.rbms) - 1,
        joined=not rbm.classes,
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
        steps_per_epoch=data.updates_per_epoch if isinstance(data, ArrayInput) else data.steps_per_epoch,
        verbose=0,
        callbacks=[*list_of_callbacks(callbacks), reports],
    )


def means_of_data(data: Data) -> np.ndarray:
    """Weighted means of the columns, labels behind the others: of all examples, or of the first of a data set."""
    if isinstance(data, ArrayInput):
        return data.means()
    total, weight = 0.0, 0.0
    for rows, weights in data.checked().take(-(-EXAMPLES_FOR_MEANS // data.batch_size)):
        total += tf.linalg.matvec(rows, weights, transpose_a=True).numpy()
        weight += float(tf.reduce_sum(weights))
    return np.asarray(total) / weight


def inputs_of_layer(
    numbered: tf.data.Dataset,
    machines: Sequence[Machine],
    inputs: str,
    key: tf.Tensor,
    classes: int,
    with_labels: bool,
    joined: bool = True,
) -> tf.data.Dataset:
    """What a layer is trained on: batches of the data carried up through the layers below it.

    Only batches are in memory: the inputs of a layer are computed from the data as they are needed.

    Args:
        numbered: ``(number, rows, weights)``, with labels in the last columns of the rows.
        machines: the layers below, at their present parameters, which stay as they are in the result.
        inputs: ``"probabilities"`` or ``"samples"``: what each layer hands to the next.
        key: uint32 [2] for the samples; those of a batch depend on its number alone.
        classes: number of labels.
        with_labels: whether the layer has the labels among its units.
        joined: join them to the columns; else they come as the second item of a batch.
    """

    @tf.autograph.experimental.do_not_convert
    def carry(number: tf.Tensor, rows: tf.Tensor, weights: tf.Tensor) -> tuple[tf.Tensor, ...]:
        x, y = rows[:, : rows.shape[1] - classes], rows[:, rows.shape[1] - classes :]
        word = tf.bitwise.bitwise_and(number, tf.constant(2**32 - 1, tf.int64))
        source = batch_source(subkey(key, word)) if inputs == "samples" else None
        states = pass_up(machines, x, source)[-1]
        if with_labels and not joined:
            return states, y, weights
        states = tf.concat([states, y], axis=-1) if with_labels else states
        return states, states[:, :1], weights

    return numbered.map(carry, num_parallel_calls=tf.data.AUTOTUNE)


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


def check_arguments(
    dbn: DBN,
    x: Any,
    y: Any,
    sample_weight: Any,
    batch_size: int,
    steps_per_epoch: int | None,
    inputs: str,
    initial_layer: int | None,
) -> Data:
    """The data of `DBN.pretrain`, and checks of its other arguments and of the layers."""
    if inputs not in INPUTS:
        raise ValueError(f"`inputs` must be one of {list(INPUTS)}. Received: inputs={inputs!r}")
    if initial_layer is not None and not 0 <= initial_layer < len(dbn.rbms):
        raise ValueError(f"`initial_layer` must be in 0 .. {len(dbn.rbms) - 1}. Received: {initial_layer!r}")
    check_layers(dbn.rbms)
    if dbn.untied:
        raise ValueError(
            "Up-down training has given the layers separate generative weights, which pre-training would not change. "
            "Pre-train before `fit`. Received: a DBN that `fit` or `untie` has changed"
        )
    for rbm in dbn.rbms:
        if not rbm.compiled:
            raise ValueError(f"Compile every layer before pre-training. Received: {rbm.name!r}, not compiled")
    data = input_of(x, y, sample_weight, dbn.data_spec(), check_integer("batch_size", batch_size), steps_per_epoch)
    if not isinstance(data, Data):
        raise ValueError(f"`x` must be an array or a tf.data.Dataset. Received: {type(x).__name__}")
    if isinstance(data, ArrayInput) and steps_per_epoch is not None:
        raise ValueError(
            f"`steps_per_epoch` goes with a tf.data.Dataset. Received: steps_per_epoch={steps_per_epoch!r}"
        )
    return data
