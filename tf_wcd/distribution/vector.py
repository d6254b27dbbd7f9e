"""What distributions over vectors have in common."""

from __future__ import annotations

import tensorflow as tf
import tensorflow_probability as tfp


class VectorDistribution(tfp.distributions.Distribution):
    """One distribution over vectors: no batch of them, and draws that are no smooth function of parameters."""

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
