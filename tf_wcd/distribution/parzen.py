"""Parzen windows as a distribution of TensorFlow Probability."""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow_probability as tfp

from tf_wcd.arguments import check_positive
from tf_wcd.data_checks import check_visible
from tf_wcd.distribution.vector import VectorDistribution
from tf_wcd.evaluation.parzen import parzen_log_likelihood
from tf_wcd.shapes import static_shape

CHUNK = 1024  # samples at a time


class ParzenDistribution(VectorDistribution):
    """A mixture of equal Gaussians, one around each sample: 1/n sum_j Normal(x; sample_j, sigma^2 I).

    It is `tfp.distributions.MixtureSameFamily` of as many components, in memory that does not grow with samples times
    points. Outside of a `tf.function`, `log_prob` is computed by `tf_wcd.evaluation.parzen_log_likelihood`; inside, by
    a sum in float64, chunk of samples by chunk. Both have gradients.

    Args:
        samples: ``[n, dimensions]``.
        sigma: standard deviation of the windows; `tf_wcd.evaluation.parzen_bandwidth` chooses one.
        dtype: type of the points.
        name: name of the operations.

    Example:

    >>> windows = ParzenDistribution(np.zeros((1, 2)), sigma=1.0)
    >>> round(float(windows.log_prob([1.0, 1.0])), 4)  # -1 - log(2 pi)
    -2.8379
    """

    def __init__(
        self,
        samples: Any,
        sigma: float,
        dtype: Any = "float32",
        name: str = "Parzen",
    ) -> None:
        parameters = dict(locals())
        self._samples = check_visible(samples, None, None, "samples", dtype=dtype)
        self._sigma = check_positive("sigma", sigma)
        super().__init__(dtype, parameters, name)

    @property
    def sigma(self) -> float:
        """Standard deviation of the windows."""
        return self._sigma

    @property
    def width(self) -> int:
        return self._samples.shape[1]

    def _log_prob(self, x: tf.Tensor) -> tf.Tensor:
        rows = tf.reshape(x, [-1, self._samples.shape[1]])
        values = self._fast(rows) if tf.executing_eagerly() else self._chunk_by_chunk(rows)
        return tf.reshape(values, static_shape(x)[:-1])

    def _fast(self, rows: tf.Tensor) -> tf.Tensor:
        """By the compiled sums of `parzen_log_likelihood`, with the gradient of the other form."""

        @tf.custom_gradient
        def log_densities(rows: tf.Tensor) -> Any:
            wide = "float64" if self.dtype == tf.float64 else None
            values = parzen_log_likelihood(self._samples, rows.numpy(), self._sigma, per_point=True, dtype=wide)

            def gradient(upstream: tf.Tensor) -> tf.Tensor:
                with tf.GradientTape() as tape:
                    tape.watch(rows)
                    same = self._chunk_by_chunk(rows)
                return tape.gradient(same, rows, output_gradients=upstream)

            return tf.constant(values, self.dtype), gradient

        return log_densities(rows)

    def _chunk_by_chunk(self, rows: tf.Tensor) -> tf.Tensor:
        count, dimensions = self._samples.shape
        centre = self._samples.mean(axis=0, dtype="float64")
        points = tf.cast(rows, tf.float64) - centre
        padding = -count % CHUNK
        samples = np.pad(self._samples.astype("float64") - centre, ((0, padding), (0, 0)))
        chunks = tf.constant(samples.reshape(-1, min(CHUNK, len(samples)), dimensions))
        bias = np.pad(-0.5 * np.square(samples[:count]).sum(1), (0, padding), constant_values=-np.inf)
        biases = tf.constant(bias.reshape(chunks.shape[:2]))

        def add(total: tf.Tensor, chunk: tuple[tf.Tensor, tf.Tensor]) -> tf.Tensor:
            scores = tf.matmul(points, chunk[0], transpose_b=True) + chunk[1]
            return tfp.math.log_add_exp(total, tf.reduce_logsumexp(scores / self._sigma**2, axis=-1))

        nothing = tf.fill(tf.shape(points)[:1], tf.constant(-np.inf, tf.float64))
        total = tf.foldl(add, (chunks, biases), initializer=nothing)
        norm = np.log(count) + 0.5 * dimensions * np.log(2.0 * np.pi * self._sigma**2)
        return tf.cast(total - 0.5 * tf.reduce_sum(points**2, axis=-1) / self._sigma**2 - norm, self.dtype)

    def _sample_n(self, n: int | tf.Tensor, seed: Any = None) -> tf.Tensor:
        which, noise = tfp.random.split_seed(seed)
        numbers = tfp.distributions.Categorical(logits=np.zeros(len(self._samples), "float32")).sample(n, seed=which)
        centres = tf.gather(tf.constant(self._samples), numbers)
        return tfp.distributions.Normal(centres, tf.constant(self._sigma, self.dtype)).sample(seed=noise)

    def _mean(self) -> tf.Tensor:
        return tf.constant(self._samples.mean(axis=0, dtype="float64"), self.dtype)

    def _variance(self) -> tf.Tensor:
        return tf.constant(self._samples.var(axis=0, dtype="float64") + self._sigma**2, self.dtype)

    def _default_event_space_bijector(self) -> tfp.bijectors.Bijector:
        return tfp.bijectors.Identity()
