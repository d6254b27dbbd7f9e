"""A stack of RBMs that learns as one generative model."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tf_wcd import data_checks
from tf_wcd.dbn.compatibility import check_layers, widths_of
from tf_wcd.dbn.progress import PretrainingCount
from tf_wcd.dbn.up_down import GenerativeKernels, UpDown, up_down, up_down_measures
from tf_wcd.images import Shape, shape_of_rows, width_of
from tf_wcd.layer import RBMLayer
from tf_wcd.machine import Machine
from tf_wcd.negative_phases import State
from tf_wcd.training.inputs import DataSpec, Input
from tf_wcd.training.model import TrainingModel
from tf_wcd.training.step import gradient_of
from tf_wcd.units import Unit


class Stack(TrainingModel):
    """RBMs on each other, the generative weights that up-down training gives them, and its update.

    Metrics: ``loss``, the mean free energy of what arrives at the top RBM minus that of its negative points (it need
    not fall); ``reconstruction_error``, the mean square of x minus its prediction from the first hidden layer's
    states; ``ess`` of the top RBM's negative phase.
    """

    num_visible: int

    def __init__(self, layers: Sequence[RBMLayer], **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.generative = GenerativeKernels(name="generative", dtype=self.dtype_policy)
        self.rbms = check_layers(layers)
        self.classes = self.rbms[-1].visible_unit.classes
        self.progress = PretrainingCount(len(self.rbms), name="pretraining", dtype="float32")

    @property
    def top(self) -> RBMLayer:
        """The top RBM."""
        return self.rbms[-1]

    @property
    def seed_generator(self) -> Any:
        """The generator of the top RBM's random numbers, which the whole stack trains with."""
        return self.top.seed_generator

    @property
    def data_unit(self) -> Unit:
        """The kind of units of the data, labels aside."""
        return self.rbms[0].visible_unit.without_labels()

    @property
    def visible_shape(self) -> Shape:
        """Shape of an example that is no row, that of the first layer; see `RBMLayer`."""
        return self.rbms[0].visible_shape

    # Structure

    def build(self, input_shape: Any) -> None:
        """Builds every layer, for data of the shape ``[batch, visible units]``."""
        input_shape = shape_of_rows(input_shape, self.visible_shape)
        if len(input_shape) != 2 or not input_shape[-1]:
            raise ValueError(
                f"The input of a DBN must have the shape [batch, visible units]. Received: {tuple(input_shape)}"
            )
        check_layers(self.rbms)
        for rbm, width in zip(self.rbms, widths_of(self.rbms, int(input_shape[-1])), strict=True):
            if not rbm.built:
                rbm.build((None, width - rbm.classes))
            elif rbm.num_visible != width:
                raise ValueError(f"Layer {rbm.name!r} has {rbm.num_visible} visible units. Received: {width} columns")
        self.num_visible = int(input_shape[-1])
        if not self.progress.built:
            self.progress.build(None)
        if self.visible_shape is None:
            self.input_spec = keras.layers.InputSpec(ndim=2, axes={-1: self.num_visible})
        self.built = True

    def require_built(self) -> None:
        """Raises ValueError if the number of visible units is not known yet."""
        if not self.built:
            raise ValueError(
                "The DBN does not know its number of visible units yet: "
                "pre-train it, call it, or use `build((None, visible units))`."
            )

    def machines(self) -> list[Machine]:
        """The RBMs as they read data upwards: the recognition weights, and the top RBM."""
        self.require_built()
        return [rbm.machine() for rbm in self.rbms]

    # Pre-training

    def epochs_done(self, layer: int) -> int:
        """Epochs of pre-training that a layer has done."""
        return int(self.progress.epochs.numpy()[layer]) if self.progress.built else 0

    def count_epochs(self, layer: int, epochs: int) -> None:
        """Notes that a layer has done so many epochs."""
        counts = self.progress.epochs.numpy()
        counts[layer] = epochs
        self.progress.epochs.assign(counts)

    # Generative weights

    @property
    def untied(self) -> bool:
        """Whether the layers have generative weights that differ from the recognition weights."""
        return self.generative.built

    def untie(self) -> None:
        """Gives every layer below the top one a separate generative kernel, equal to that of its RBM for now.

        The RBM's kernel and hidden bias then are the recognition weights; its visible bias, and this kernel, the
        generative ones.
        """
        if not self.untied:
            self.generative.build([tuple(rbm.kernel.shape) for rbm in self.rbms[:-1]])
            for kernel, rbm in zip(self.generative.kernels, self.rbms[:-1], strict=True):
                kernel.assign(rbm.kernel)
            self.test_function = None  # what was compiled reads the kernels of the RBMs

    def generative_machines(self) -> list[Machine]:
        """The layers below the top one as they predict the layer below: with the generative weights."""
        kernels = self.generative.kernels if self.untied else [rbm.kernel for rbm in self.rbms[:-1]]
        return [
            dataclasses.replace(rbm.machine(), kernel=tf.convert_to_tensor(kernel))
            for rbm, kernel in zip(self.rbms, kernels, strict=False)
        ]

    # The update

    @property
    def trained_variables(self) -> list[keras.Variable]:
        """What the up-down algorithm trains: recognition and generative weights, and the top RBM."""
        lower = [v for rbm in self.rbms[:-1] for v in (rbm.kernel, rbm.hidden_bias, rbm.visible_bias)]
        return [*lower, *self.generative.kernels, *self.top.trainable_variables]

    def data_spec(self) -> DataSpec:
        return DataSpec(
            unit=self.data_unit,
            width=self.num_visible if self.built else width_of(self.visible_shape),
            classes=self.classes,
            dtype=self.rbms[0].variable_dtype,
            names=self.rbms[0].feature_names_in_,
            shape=self.visible_shape,
        )

    def remember_data(self, data: Input) -> None:
        self.rbms[0].remember_names(data)

    def checked_data(self, x: Any, what: str = "x", dtype: Any = None, strict: bool = False) -> np.ndarray:
        """Data without labels as a checked array; builds the layers for them. See `RBMLayer.checked_data`."""
        spec = self.data_spec()
        x = data_checks.check_visible(
            x, spec.unit, spec.width, what, dtype or spec.dtype, strict, names=spec.names, shape=spec.shape
        )
        if not self.built:
            self.build((None, x.shape[1]))
        return x

    def validate(self) -> None:
        count = max(model.distribute_strategy.num_replicas_in_sync for model in (self, *self.rbms))
        if count > 1:
            raise ValueError(
                "The up-down algorithm runs on one replica; `pretrain` and `RBMLayer.fit` train on several. "
                f"Received: a strategy of {count} replicas"
            )
        if self.top.objective != "generative":
            raise ValueError(
                "The up-down algorithm trains a generative model. "
                f"Received: objective={self.top.objective!r} of the top layer"
            )
        self.top.validate()

    def build_training(self, batch_size: int) -> None:
        self.top.build_training(batch_size)
        self.add_phase_measures(self.top.negative_phase.metrics(self.top.phase_state()))
        self.untie()

    def build_optimizer(self) -> None:
        if self.untied:
            super().build_optimizer()

    def has_phase_state(self) -> bool:
        return self.top.has_phase_state()

    def phase_state(self) -> State:
        return self.top.phase_state()

    def evaluation_state(self, batch_size: int) -> State:
        return self.top.evaluation_state(batch_size)

    def update(
        self, rows: tf.Tensor, sample_weight: tf.Tensor | None, state: State, key: tf.Tensor, training: bool = False
    ) -> UpDown:
        *recognition, top = self.machines()
        rows = tf.cast(rows, top.kernel.dtype)
        x, labels = rows[:, : self.num_visible], rows[:, self.num_visible :] if self.classes else None
        return up_down(
            recognition,
            self.generative_machines(),
            top,
            self.top.negative_phase,
            x,
            labels,
            sample_weight,
            state,
            key,
        )

    def measures(self, update: UpDown) -> dict[str, tf.Tensor]:
        return {**up_down_measures(update), **self.top.negative_phase.metrics(update.top.state)}

    def collapse_warning(self, ess: float, batch_size: int) -> str | None:
        return self.top.collapse_warning(ess, batch_size)

    def apply_update(self, update: UpDown) -> None:
        gradient = gradient_of(update.top, self.top.offsets())
        pairs = [*self.lower_pairs(update), *self.top.gradient_pairs(gradient)]
        self.optimizer.apply_gradients([(self.optimizer.scale_loss(g), v) for g, v in pairs if v.trainable])
        self.top.follow_data(gradient)
        self.top.assign_phase_state(update.top.state)

    def lower_pairs(self, update: UpDown) -> list[tuple[tf.Tensor, keras.Variable]]:
        """The gradients of all weights below the top RBM, each with its variable."""
        pairs = []
        for rbm, kernel, wake, sleep in zip(
            self.rbms, self.generative.kernels, update.generative, update.recognition, strict=False
        ):
            pairs += [(wake.kernel, kernel), (wake.bias, rbm.visible_bias)]
            pairs += [(sleep.kernel, rbm.kernel), (sleep.bias, rbm.hidden_bias)]
        return pairs

    def flops_of_update(self, batch_size: int) -> float:
        lower = sum(rbm.num_visible * rbm.units for rbm in self.rbms[:-1])
        return self.top.flops_of_update(batch_size) + 2.0 * batch_size * 6 * lower

    # Saving

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "layers": [keras.saving.serialize_keras_object(rbm) for rbm in self.rbms]}

    @classmethod
    def from_config(cls, config: dict[str, Any], custom_objects: Any = None) -> Any:
        return cls(**{**config, "layers": deserialised(config["layers"], custom_objects)})

    def get_build_config(self) -> dict[str, Any]:
        return {"input_shape": [None, self.num_visible], "untied": self.untied} if self.built else {}

    def build_from_config(self, config: dict[str, Any]) -> None:
        if config:
            self.build(tuple(config["input_shape"]))
            if config.get("untied"):
                self.untie()


def deserialised(layers: Sequence[Any], custom_objects: Any = None) -> list[RBMLayer]:
    """The layers of a configuration."""
    return [keras.saving.deserialize_keras_object(layer, custom_objects=custom_objects) for layer in layers]
