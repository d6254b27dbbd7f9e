"""Ordinary Keras models that start from pre-trained layers, for back-propagation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import keras
import numpy as np
import tensorflow as tf

from tf_wcd.arguments import check_integer
from tf_wcd.dbn.stack import deserialised
from tf_wcd.images import are_images, as_images, as_rows
from tf_wcd.layer import RBMLayer
from tf_wcd.sampling.passes import label_log_weights, reconstruction
from tf_wcd.units import Unit

if TYPE_CHECKING:
    from tf_wcd.dbn.model import DBN


def classifier(dbn: DBN, num_classes: int, share: bool, dropout: float) -> keras.Model:
    """See `DBN.classifier`."""
    num_classes = check_integer("num_classes", num_classes, least=2)
    if share and dbn.classes:
        return _labelled_classifier(dbn, num_classes, dropout)
    return _with_head(
        dbn, keras.layers.Dense(num_classes, name="logits", dtype="float32"), share, dropout, "classifier"
    )


def regressor(dbn: DBN, num_targets: int, share: bool, dropout: float) -> keras.Model:
    """See `DBN.regressor`."""
    if share and dbn.classes:
        raise ValueError("A regressor has no place for labels: use copies. Received: share=True of a DBN with labels")
    head = keras.layers.Dense(check_integer("num_targets", num_targets), name="targets", dtype="float32")
    return _with_head(dbn, head, share, dropout, "regressor")


def _with_head(dbn: DBN, head: keras.layers.Layer, share: bool, dropout: float, name: str) -> keras.Model:
    """The layers of a DBN, or copies of them, with another one on top."""
    inputs, outputs = _inputs_of(dbn)
    for rbm in dbn.rbms:
        outputs = rbm(outputs) if share else upward(rbm)(outputs)
        outputs = _dropped(outputs, dropout)
    return keras.Model(inputs, head(outputs), name=name)


def _inputs_of(dbn: DBN) -> tuple[Any, Any]:
    """The input of a network that starts from a DBN, in the shape of its data, and the rows that it sees."""
    if dbn.visible_shape is None:
        inputs = keras.Input((dbn.num_visible,), name="visible")
        return inputs, inputs
    inputs = keras.Input(dbn.visible_shape, name="visible")
    return inputs, keras.layers.Reshape((dbn.num_visible,), name="rows")(inputs)


def _dropped(outputs: Any, dropout: float) -> Any:
    """The units with part of them left out while training."""
    if not 0 <= dropout < 1:
        raise ValueError(f"`dropout` must be in [0, 1). Received: dropout={dropout!r}")
    return keras.layers.Dropout(dropout)(outputs) if dropout else outputs


def _labelled_classifier(dbn: DBN, num_classes: int, dropout: float) -> keras.Model:
    """The free energies of the top RBM with each label as logits, over the layers of the DBN themselves."""
    if num_classes != dbn.classes:
        raise ValueError(f"The top layer has {dbn.classes} labels. Received: num_classes={num_classes}")
    inputs, outputs = _inputs_of(dbn)
    for rbm in dbn.rbms[:-1]:
        outputs = _dropped(rbm(outputs), dropout)
    return keras.Model(inputs, LabelLogits(dbn.rbms[-1], name="logits")(outputs), name="classifier")


def autoencoder(dbn: DBN, share: bool, linear_code: bool = False) -> keras.Model:
    """See `DBN.autoencoder`."""
    if dbn.classes:
        raise ValueError("An autoencoder has no place for labels. Received: a DBN with labelled visible units on top")
    if share and linear_code:
        raise ValueError("A linear code goes with copies of the weights. Received: share=True and linear_code=True")
    if share:
        return TiedAutoencoder(dbn.rbms, name="autoencoder")
    up = [upward(rbm) for rbm in dbn.rbms]
    kernels = [*(np.asarray(machine.kernel) for machine in dbn.generative_machines()), dbn.rbms[-1].kernel.numpy()]
    layers = [downward(rbm, kernel) for rbm, kernel in zip(dbn.rbms, kernels, strict=True)]
    if linear_code:
        _make_linear(up[-1], layers[-1], dbn.rbms[-1].hidden_unit)
    row: tuple[int, ...] = (dbn.num_visible,)
    shape = dbn.visible_shape or row
    to_rows = [] if shape == row else [keras.layers.Reshape(row, name="rows")]
    to_images = [] if shape == row else [keras.layers.Reshape(shape, name="images")]
    encoder = keras.Sequential([keras.Input(shape), *to_rows, *up], name="encoder")
    decoder = keras.Sequential([keras.Input((dbn.rbms[-1].units,)), *reversed(layers), *to_images], name="decoder")
    inputs = keras.Input(shape, name="visible")
    return keras.Model(inputs, decoder(encoder(inputs)), name="autoencoder")


def _make_linear(encode: keras.layers.Dense, decode: keras.layers.Dense, unit: Unit) -> None:
    """Makes the code the field of its units, and the decoder that of the linear part of their mean around field 0."""
    if not unit.elementwise:
        raise ValueError(f"A linear code needs top units of one column each. Received: {unit.name!r} units")
    low, high = unit.mean(tf.constant([-1e-2, 1e-2])).numpy()
    middle, slope = 0.5 * (low + high), (high - low) / 2e-2
    encode.activation = keras.activations.linear
    kernel, bias = decode.get_weights()
    decode.set_weights([slope * kernel, bias + middle * kernel.sum(axis=0)])


def upward(rbm: RBMLayer) -> keras.layers.Dense:
    """E[h | x] of an RBM as an ordinary dense layer with a copy of its weights; labels are left out."""
    kernel = rbm.kernel.numpy()[: rbm.num_visible - rbm.visible_unit.classes]
    return _dense(kernel, rbm.hidden_bias.numpy(), rbm.machine().hidden, f"{rbm.name}_up", rbm)


def downward(rbm: RBMLayer, kernel: np.ndarray) -> keras.layers.Dense:
    """E[x | h] of an RBM as an ordinary dense layer with a copy of its weights."""
    return _dense(kernel.T, rbm.visible_bias.numpy(), rbm.machine().visible, f"{rbm.name}_down", rbm)


def _dense(kernel: np.ndarray, bias: np.ndarray, unit: Unit, name: str, rbm: RBMLayer) -> keras.layers.Dense:
    activation, factors = unit.activation()
    layer = keras.layers.Dense(kernel.shape[1], activation=activation, name=name, dtype=rbm.dtype_policy)
    layer.build((None, kernel.shape[0]))
    layer.set_weights([kernel * factors, bias * factors])
    return layer


@keras.saving.register_keras_serializable(package="tf_wcd")
class TiedAutoencoder(keras.Model):
    """An autoencoder over the RBMs themselves: the decoder is the encoder transposed.

    Args:
        layers: the `RBMLayer`s, from the bottom, built.
    """

    def __init__(self, layers: Sequence[RBMLayer], **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.rbms = list(layers)

    def build(self, input_shape: Any) -> None:
        self.built = True

    def call(self, inputs: tf.Tensor) -> tf.Tensor:
        machines, shape = [rbm.machine() for rbm in self.rbms], self.rbms[0].visible_shape
        rows = reconstruction(machines, machines[:-1], as_rows(inputs, shape))
        return as_images(rows, shape) if are_images(inputs, shape) else rows

    def compute_output_shape(self, input_shape: Any) -> tuple[Any, ...]:
        return tuple(input_shape)

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "layers": [keras.saving.serialize_keras_object(rbm) for rbm in self.rbms]}

    @classmethod
    def from_config(cls, config: dict[str, Any], custom_objects: Any = None) -> TiedAutoencoder:
        return cls(**{**config, "layers": deserialised(config["layers"], custom_objects)})


@keras.saving.register_keras_serializable(package="tf_wcd")
class LabelLogits(keras.layers.Layer):
    """Logits of the labels of an RBM given its other visible units: -F with each label.

    Args:
        rbm: a built `RBMLayer` with labelled visible units.
    """

    def __init__(self, rbm: RBMLayer, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.rbm = rbm
        self.built = True

    def call(self, inputs: tf.Tensor) -> tf.Tensor:
        return label_log_weights(self.rbm.machine(), tf.cast(inputs, self.rbm.variable_dtype))

    def compute_output_shape(self, input_shape: Any) -> tuple[Any, ...]:
        return (*input_shape[:-1], self.rbm.visible_unit.classes)

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "rbm": keras.saving.serialize_keras_object(self.rbm)}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> LabelLogits:
        return cls(**{**config, "rbm": keras.saving.deserialize_keras_object(config["rbm"])})
