"""Sums that unit types share."""

import tensorflow as tf

FACTORS_PER_LOG = 100


def sum_log1p(x: tf.Tensor) -> tf.Tensor:
    """Sum of log(1 + x) along the last axis, for x in [0, 1].

    A logarithm costs several times as much as a product, so that of 100 factors is taken at once: they are between 1
    and 2 each, and 2**100 is far from overflow. A term is off by at most half a unit in the last place of 1 + x.

    Example:

    >>> round(float(sum_log1p(tf.ones([250]))), 3)  # 250 log 2
    173.287
    """
    width = x.shape[-1]
    if width > FACTORS_PER_LOG:
        x = tf.pad(x, [[0, 0]] * (x.shape.rank - 1) + [[0, -width % FACTORS_PER_LOG]])
        x = tf.reshape(x, tf.concat([tf.shape(x)[:-1], [-(-width // FACTORS_PER_LOG), FACTORS_PER_LOG]], axis=0))
        return tf.reduce_sum(tf.math.log(tf.reduce_prod(1.0 + x, axis=-1)), axis=-1)
    return tf.math.log(tf.reduce_prod(1.0 + x, axis=-1))
