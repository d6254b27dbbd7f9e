"""Unit types as activations of Keras."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import keras
import numpy as np
import tensorflow as tf

if TYPE_CHECKING:
    from tf_wcd.units.base import Unit


@keras.saving.register_keras_serializable(package="tf_wcd")
class UnitMean:
    """The mean of units as a function of their field, which is saved with the network that it is in.

    Args:
        unit: the unit type, bound to its parameters.
    """

    def __init__(self, unit: Unit) -> None:
        self.unit = unit

    def __call__(self, field: tf.Tensor) -> tf.Tensor:
        return self.unit.mean(field)

    def get_config(self) -> dict[str, Any]:
        parameters = {name: np.asarray(value).tolist() for name, value in self.unit.parameters.items()}
        return {"unit": keras.saving.serialize_keras_object(self.unit), "parameters": parameters}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> UnitMean:
        unit = keras.saving.deserialize_keras_object(config["unit"])
        return cls(unit.bind({name: tf.constant(value) for name, value in config["parameters"].items()}))
