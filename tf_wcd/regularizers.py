"""Penalties on weights and biases beyond those of Keras, for the arguments ``*_regularizer`` of the models.

A Keras regularizer, `keras.regularizers.L2` say, is a function of a variable whose gradient is added to the update. The
*proximal* ones here act after the step instead: they shrink what the optimizer has left, and put small weights to
exactly zero, where the gradient of an absolute value would only make them jump about zero.
"""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf

SIDES = {"hidden": -2, "visible": -1}  # of a kernel: the axis along which the weights of one such unit lie
TINY = 1e-30


def _checked(strength: Any) -> float:
    if not 0 <= strength < float("inf"):
        raise ValueError(f"`strength` must be a number of at least 0. Received: strength={strength!r}")
    return float(strength)


@keras.saving.register_keras_serializable(package="tf_wcd")
class L2L1(keras.regularizers.Regularizer):
    """Half the strength times the sum over the hidden units of (sum of their weights' magnitudes) squared.

    It is the penalty of Tubiana, Cocco and Monasson (2019): sparse, as L1 is, and stronger on hidden units of many
    weights, which it keeps equally sparse. For kernels.

    Args:
        strength: factor of the penalty.

    Example:

    >>> float(L2L1(1.0)(tf.constant([[1.0, 0.0], [-2.0, 1.0]])))
    5.0
    """

    def __init__(self, strength: float = 0.01) -> None:
        self.strength = _checked(strength)

    def __call__(self, x: Any) -> tf.Tensor:
        sums = tf.reduce_sum(tf.abs(tf.convert_to_tensor(x)), axis=-2)
        return 0.5 * self.strength * tf.reduce_sum(tf.square(sums))

    def get_config(self) -> dict[str, Any]:
        return {"strength": self.strength}


class Proximal(keras.regularizers.Regularizer):
    """A penalty that acts after the step: a subclass says what `proximal` makes of the variable."""

    def proximal(self, x: tf.Tensor, rate: tf.Tensor) -> tf.Tensor:
        """The values z that minimise ``penalty(z) * rate + (z - x)**2 / 2``.

        Args:
            x: values of the variable.
            rate: the learning rate, a number or of a shape that goes with the values.
        """
        raise NotImplementedError(f"{type(self).__name__} must implement `proximal`.")


@keras.saving.register_keras_serializable(package="tf_wcd")
class ProximalL1(Proximal):
    """The strength times the sum of magnitudes, with weights of exactly zero.

    Args:
        strength: factor of the penalty.

    Example:

    >>> ProximalL1(0.5).proximal(tf.constant([-2.0, 0.25, 1.0]), 1.0).numpy().tolist()
    [-1.5, 0.0, 0.5]
    """

    def __init__(self, strength: float = 0.001) -> None:
        self.strength = _checked(strength)

    def __call__(self, x: Any) -> tf.Tensor:
        return self.strength * tf.reduce_sum(tf.abs(tf.convert_to_tensor(x)))

    def proximal(self, x: tf.Tensor, rate: tf.Tensor) -> tf.Tensor:
        return tf.sign(x) * tf.nn.relu(tf.abs(x) - self.strength * rate)

    def get_config(self) -> dict[str, Any]:
        return {"strength": self.strength}


@keras.saving.register_keras_serializable(package="tf_wcd")
class GroupLasso(Proximal):
    """The strength times the sum of the norms of all weights of a unit: units that are not needed lose all of theirs.

    Args:
        strength: factor of the penalty.
        side: a group is the weights of one ``"hidden"`` or of one ``"visible"`` unit. For kernels.

    Example:

    >>> kernel = tf.constant([[3.0, 0.1], [4.0, 0.2]])  # the first hidden unit has the norm 5
    >>> GroupLasso(1.0).proximal(kernel, 1.0).numpy().astype("float64").round(2).tolist()
    [[2.4, 0.0], [3.2, 0.0]]
    """

    def __init__(self, strength: float = 0.001, side: str = "hidden") -> None:
        if side not in SIDES:
            raise ValueError(f"`side` must be one of {list(SIDES)}. Received: side={side!r}")
        self.strength, self.side = _checked(strength), side

    def _norms(self, x: tf.Tensor) -> tf.Tensor:
        return tf.sqrt(tf.reduce_sum(tf.square(x), axis=SIDES[self.side], keepdims=True))

    def __call__(self, x: Any) -> tf.Tensor:
        return self.strength * tf.reduce_sum(self._norms(tf.convert_to_tensor(x)))

    def proximal(self, x: tf.Tensor, rate: tf.Tensor) -> tf.Tensor:
        norms = self._norms(x)
        return x * tf.nn.relu(norms - self.strength * rate) / tf.maximum(norms, TINY)

    def get_config(self) -> dict[str, Any]:
        return {"strength": self.strength, "side": self.side}


def gradient(regularizer: Any, value: tf.Tensor) -> tf.Tensor | None:
    """What a regularizer adds to the gradient of a variable; ``None`` where it adds nothing."""
    if regularizer is None or isinstance(regularizer, Proximal):
        return None
    with tf.GradientTape() as tape:
        tape.watch(value)
        penalty = regularizer(value)
    return tape.gradient(penalty, value)
