"""Random numbers as a pure function of a key and counters.

A draw (one array of random numbers) has a key of 64 bits, from a seed generator, and a number. Both are scrambled into
two words, and an element's bits are its index scrambled by these two words, each time with two rounds of a permutation
of the 32-bit words in which every bit depends on every other. It is some twenty operations for each element, which fuse
with the sampling that uses them, and plain integer arithmetic: the same bits on every device, compiled or not.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import tensorflow as tf

# Shifts and factors of `mix`, from the public search for such permutations by the project hash-prospector.
ROUNDS = ((16, 0x21F0AAAD), (15, 0xD35A2D97))
_GOLDEN, _SILVER = 0x9E3779B9, 0x6A09E667  # odd, without a pattern in their bits: fractions of the golden ratio, sqrt 2


def mix(word: tf.Tensor) -> tf.Tensor:
    """A permutation of the 32-bit words in which every bit of the result depends on every bit of the argument."""
    for shift, factor in ROUNDS:
        word = (word ^ tf.bitwise.right_shift(word, tf.constant(shift, tf.uint32))) * tf.constant(factor, tf.uint32)
    return word ^ tf.bitwise.right_shift(word, tf.constant(15, tf.uint32))


def key_of(seed_state: tf.Tensor, purpose: int = 0) -> tf.Tensor:
    """The key, uint32 [2], of the state of a Keras `SeedGenerator`: [seed, number of draws so far].

    Args:
        seed_state: int64 [2].
        purpose: keys for different purposes differ, without advancing the generator.
    """
    words = tf.bitcast(tf.cast(seed_state, tf.int64), tf.uint32)  # [2, 2]: the low word comes first
    mixed = words[:, 0] + words[:, 1] * tf.constant(_GOLDEN, tf.uint32)
    return mixed ^ tf.constant([purpose, 0], tf.uint32)


def subkey(key: tf.Tensor, *numbers: tf.Tensor | int) -> tf.Tensor:
    """A separate key for each sequence of numbers (purpose, group of chains, and so on) under a key.

    Args:
        key: uint32 [2], or that of `key_of_members`.
        *numbers: integers in [0, 2**32).

    Returns:
        A key of the same kind.

    Example:

    >>> key = tf.constant([1, 2], tf.uint32)
    >>> bool(tf.reduce_any(subkey(key, 0) != subkey(key, 1)))
    True
    """
    for number in numbers:
        key = tf.concat([words_of(key, tf.cast(number, tf.uint32)), key[2:]], axis=0)
    return key


def key_of_members(key: tf.Tensor, first: tf.Tensor) -> tf.Tensor:
    """The key of a part of several machines, which draws what these machines draw under the key of them all.

    Args:
        key: uint32 [2].
        first: number of the part's first machine, uint32; machines are the first axis of every draw.

    Returns:
        uint32 [3].

    Example:

    >>> key = tf.constant([1, 2], tf.uint32)
    >>> part = uniform(key_of_members(key, tf.constant(3, tf.uint32)), 0, [2, 4])
    >>> bool(tf.reduce_all(part == uniform(key, 0, [5, 4])[3:]))
    True
    """
    return tf.concat([key, first[None]], axis=0)


def words_of(key: tf.Tensor, number: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Two words, uint32 scalars, in which every bit of the key and of the number is mixed.

    Several keys at once, ``[2, keys]``, give two words for each, ``[keys]``.
    """
    first = mix(mix(key[0] ^ number * tf.constant(_GOLDEN, tf.uint32)) + key[1])
    second = mix(mix(key[1] ^ number * tf.constant(_SILVER, tf.uint32)) + key[0])
    return first, second


def uniform(
    key: tf.Tensor, draw: tf.Tensor | int, shape: Sequence[int | tf.Tensor], dtype: str = "float32"
) -> tf.Tensor:
    """Independent uniform numbers in the open interval (0, 1), symmetric about one half.

    The numbers are (m + 1/2) / 2**23 for m in 0 .. 2**23 - 1, so neither 0 nor 1 occurs: an event of probability zero
    (one) never (always) happens, whatever the field that it comes from.

    Args:
        key: uint32 [2]: from `key_of`, say, which makes it of the state of a `keras.random.SeedGenerator`. Or that of
            `key_of_members`.
        draw: number of the draw, below 2**32: each draw under one key has another number.
        shape: shape of the result; its entries may be scalar tensors. At most 2**31 elements.
        dtype: floating type of the result; the resolution is that of float32.

    Example:

    >>> key = tf.constant([1, 2], tf.uint32)
    >>> bool(tf.reduce_all(uniform(key, 0, [3, 4]) == uniform(key, 0, [3, 4])))
    True
    """
    draw = tf.cast(draw, tf.uint32)
    if all(isinstance(n, int) for n in shape) and not tf.executing_eagerly():
        return tf.cast(_traced_uniform(key, draw, tuple(shape)), dtype)
    return tf.cast(_uniform(key, draw, shape), dtype)


def _uniform(key: tf.Tensor, draw: tf.Tensor, shape: Sequence[int | tf.Tensor]) -> tf.Tensor:
    count = math.prod(shape) if all(isinstance(n, int) for n in shape) else tf.reduce_prod(tf.stack(shape))
    index = tf.bitcast(tf.reshape(tf.range(count, dtype=tf.int32), shape), tf.uint32)
    if key.shape[0] == 3:  # a part of the machines
        size = tf.cast(tf.reduce_prod(tf.stack(shape)[1:]), tf.uint32)
        index += key[2] * size
    first, second = words_of(key, draw)
    return unit_interval(mix(mix(index ^ first) + second))


# Some hundred operations, which are a good part of an update's graph: traced once for each shape, not at each draw.
# Outside of graphs nothing is traced: TensorFlow would warn whoever asks for samples of many shapes.
_traced_uniform = tf.function(_uniform, autograph=False)


def unit_interval(bits: tf.Tensor) -> tf.Tensor:
    """float32 numbers in the open interval (0, 1) from random words, uint32."""
    # Put 23 bits into the mantissa of a float in [1, 2), and shift it to (0, 1).
    mantissa = tf.bitwise.right_shift(bits, tf.constant(9, tf.uint32)) | tf.constant(0x3F800000, tf.uint32)
    return tf.bitcast(mantissa, tf.float32) - (1.0 - 2.0**-24)
