"""What distributions over vectors have in common."""

from __future__ import annotations

from typing import Any

import tensorflow as tf
import tensorflow_probability as tfp


class VectorDistribution(tfp.distributions.Distribution):
    """One distribution over vectors: no batch of them, and draws that are no smooth function of parameters.

    Args:
        dtype: type of the vectors.
        parameters: arguments of the subclass, for `copy`.
        name: name of the operations.
        validate_args: as in every distribution of TFP.
        allow_nan_stats: as in every distribution of TFP.
    """

    def __init__(
        self,
        dtype: Any,
        parameters: dict[str, Any],
        name: str,
        validate_args: bool = False,
        allow_nan_stats: bool = True,
    ) -> None:
        super().__init__(
            dtype=tf.as_dtype(dtype),
            reparameterization_type=tfp.distributions.NOT_REPARAMETERIZED,
            validate_args=validate_args,
            allow_nan_stats=allow_nan_stats,
            parameters=parameters,
            name=name,
        )

    @property
    def width(self) -> int:
        """Length of the vectors."""
        raise NotImplementedError(f"{type(self).__name__} must implement `width`.")

    def _batch_shape(self) -> tf.TensorShape:
        return tf.TensorShape([])

    def _batch_shape_tensor(self) -> tf.Tensor:
        return tf.constant([], tf.int32)

    def _event_shape(self) -> tf.TensorShape:
        return tf.TensorShape([self.width])

    def _event_shape_tensor(self) -> tf.Tensor:
        return tf.constant([self.width])
