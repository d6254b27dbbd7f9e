"""Random numbers that belong to rows: each row's numbers are a pure function of that row's own seed.

A server puts the rows of many clients into one batch, in any order and with rows that only fill it up. With a key for
each row, a row draws the same numbers whatever the others are. The generator is built of the same permutations as that
of `tf_wcd.random_bits`.
"""

from __future__ import annotations

import tensorflow as tf

from tf_wcd.random_bits import ROUNDS, mix, unit_interval, words_of


def row_keys(seeds: tf.Tensor, purpose: int = 0) -> tf.Tensor:
    """A key for each row.

    Args:
        seeds: int64 ``[rows]``; every bit counts.
        purpose: below 2**32; one seed has keys that have nothing in common for different purposes.

    Returns:
        uint32 ``[rows, 2]``.

    Example:

    >>> row_keys(tf.constant([7, 7, -1], tf.int64)).shape
    TensorShape([3, 2])
    """
    words = tf.reshape(tf.bitcast(tf.cast(seeds, tf.int64), tf.uint32), [-1, 2])  # the low word comes first
    return words ^ tf.stack([tf.zeros([], tf.uint32), mix(tf.constant(purpose, tf.uint32))])


def row_uniform(keys: tf.Tensor, draw: tf.Tensor | int, width: int) -> tf.Tensor:
    """Independent uniform numbers in the open interval (0, 1), as those of `tf_wcd.random_bits.uniform`.

    Args:
        keys: uint32 ``[rows, 2]``, from `row_keys`.
        draw: number of the draw, below 2**32: one for all rows, or ``[rows]``.
        width: numbers in a row. The first of a wider row are those of a narrower one.

    Returns:
        float32 ``[rows, width]``.

    Example:

    >>> keys = row_keys(tf.constant([3, 4], tf.int64))
    >>> bool(tf.reduce_all(row_uniform(keys, 0, 5)[1:] == row_uniform(keys[1:], 0, 5)))
    True
    """
    return tf.transpose(column_uniform(keys, draw, width))


def column_uniform(keys: tf.Tensor, draw: tf.Tensor | int, width: int) -> tf.Tensor:
    """The numbers of `row_uniform` with each row's numbers down a column, ``[width, rows]``.

    An element's bits are its place, scrambled by a permutation of the 32-bit words into which the row's two words are
    mixed at two places. Of each draw only these two words are computed for every row; the rest is a dozen operations
    for each element.
    """
    first, second = words_of(tf.transpose(keys), tf.cast(draw, tf.uint32))
    place = mix(tf.bitcast(tf.range(width, dtype=tf.int32), tf.uint32))[:, None]
    shift = lambda word, bits: tf.bitwise.right_shift(word, tf.constant(bits, tf.uint32))  # noqa: E731
    word = place ^ first[None, :]
    # The rounds of `mix`, with the second word between them.
    word = (word ^ shift(word, 16)) * tf.constant(ROUNDS[0][1], tf.uint32) + second[None, :]
    word = (word ^ shift(word, 15)) * tf.constant(ROUNDS[1][1], tf.uint32)
    return unit_interval(word ^ shift(word, 15))
