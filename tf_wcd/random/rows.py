"""Random numbers that belong to rows: each row's numbers are a pure function of that row's seed.

A server puts the rows of many clients into one batch, in any order and padded with further rows. With a key for each
row, a row draws the same numbers whatever the others are. The generator is built of the same permutations as that of
`tf_wcd.random.batch`.
"""

from __future__ import annotations

import tensorflow as tf

from tf_wcd.random.batch import ROUNDS, mix, words_of


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
    """Independent uniform numbers in the open interval (0, 1), as those of `tf_wcd.random.uniform`.

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

    An element's bits are its place, scrambled by two rounds like those of `mix`, with one of the row's two words before
    and the other between them. It is written in the operations that are quick where nothing is compiled: TensorFlow's
    shift takes ten times as long as a product, so all shifts are by 16 bits, which is taking one half of each word.
    """
    draw = tf.cast(draw, tf.uint32)
    return (_column_uniform if tf.executing_eagerly() else _traced_column_uniform)(keys, draw, width)


def _column_uniform(keys: tf.Tensor, draw: tf.Tensor, width: int) -> tf.Tensor:
    first, second = words_of(tf.transpose(keys), draw)
    place = mix(tf.bitcast(tf.range(width, dtype=tf.int32), tf.uint32))
    word = _uint(_int(place)[:, None] ^ _int(first)[None, :])  # signed words are quicker to combine row by row
    word = (word ^ _upper_half(word)) * tf.constant(ROUNDS[0][1], tf.uint32)
    word = _uint(_int(word) + _int(second)[None, :])
    word = (word ^ _upper_half(word)) * tf.constant(ROUNDS[1][1], tf.uint32)
    # The upper 23 bits m of the word, as (2 m + 1) * 2**8 read as a signed number: single precision holds it exactly.
    word = (word ^ _upper_half(word)) & tf.constant(0xFFFFFE00, tf.uint32) | tf.constant(0x100, tf.uint32)
    return tf.cast(_int(word), tf.float32) * 2.0**-32 + 0.5


# Traced once for each width, not at each draw of each signature: an export takes a quarter less time.
_traced_column_uniform = tf.function(_column_uniform, autograph=False)


def _upper_half(word: tf.Tensor) -> tf.Tensor:
    """A word shifted right by 16 bits."""
    return _uint(tf.cast(tf.bitcast(word, tf.uint16)[..., 1], tf.int32))


def _int(word: tf.Tensor) -> tf.Tensor:
    return tf.bitcast(word, tf.int32)


def _uint(word: tf.Tensor) -> tf.Tensor:
    return tf.bitcast(word, tf.uint32)
