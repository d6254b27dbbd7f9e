"""Random numbers as a pure function of a key and a counter.

The generator is Threefry-2x32 with 13 rounds, the number from which its authors found it to pass BigCrush (Salmon,
Moraes, Dror and Shaw, "Parallel random numbers: as easy as 1, 2, 3", 2011). It is written in TensorFlow's integer
operations, so that it gives the same bits on every device, compiled or not, and fuses with its surroundings under XLA.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import tensorflow as tf

_ROTATIONS = (13, 15, 26, 6, 17, 29, 16, 24)
_PARITY = 0x1BD11BDA


def threefry(
    key: tuple[tf.Tensor, tf.Tensor], counter: tuple[tf.Tensor, tf.Tensor], rounds: int = 13
) -> tuple[tf.Tensor, tf.Tensor]:
    """Two random words for every counter: a bijection of the 64-bit counter, chosen by the 64-bit key.

    Args:
        key: two uint32 tensors that broadcast with the counter.
        counter: two uint32 tensors.
        rounds: rounds of mixing; 13 is the least that is called good, 20 the authors' choice with a margin.

    Returns:
        Two uint32 tensors of the counter's shape.

    Example:

    >>> zero = tf.zeros([], tf.uint32)
    >>> [hex(int(word)) for word in threefry((zero, zero), (zero, zero), rounds=20)]
    ['0x6b200159', '0x99ba4efe']
    """
    schedule = (key[0], key[1], key[0] ^ key[1] ^ tf.constant(_PARITY, tf.uint32))
    first, second = counter[0] + schedule[0], counter[1] + schedule[1]
    for i in range(rounds):
        rotation = _ROTATIONS[i % 8]
        first = first + second
        left = tf.bitwise.left_shift(second, tf.constant(rotation, tf.uint32))
        right = tf.bitwise.right_shift(second, tf.constant(32 - rotation, tf.uint32))
        second = (left | right) ^ first
        if i % 4 == 3:
            injection = i // 4 + 1
            first = first + schedule[injection % 3]
            second = second + schedule[(injection + 1) % 3] + tf.constant(injection, tf.uint32)
    return first, second


def key_of(seed_state: tf.Tensor, purpose: int = 0) -> tf.Tensor:
    """The key, uint32 [2], of the state of a Keras `SeedGenerator`: [seed, number of draws so far].

    Args:
        seed_state: int64 [2].
        purpose: keys for different purposes differ, without advancing the generator.
    """
    low = tf.bitcast(tf.cast(seed_state, tf.int64), tf.uint32)  # [2, 2]: the low word comes first
    mixed = low[:, 0] + low[:, 1] * tf.constant(0x9E3779B9, tf.uint32)
    return mixed ^ tf.constant([purpose, 0], tf.uint32)


def subkey(key: tf.Tensor, *numbers: tf.Tensor | int) -> tf.Tensor:
    """A key of its own for each sequence of numbers (purpose, group of chains, and so on) under a key.

    Args:
        key: uint32 [2].
        *numbers: integers in [0, 2**32).

    Returns:
        uint32 [2].

    Example:

    >>> key = tf.constant([1, 2], tf.uint32)
    >>> bool(tf.reduce_any(subkey(key, 0) != subkey(key, 1)))
    True
    """
    zero = tf.zeros([], tf.uint32)
    for number in numbers:
        key = tf.stack(threefry((key[0], key[1]), (tf.cast(number, tf.uint32), zero), rounds=20))
    return key


def uniform(
    key: tf.Tensor, draw: tf.Tensor | int, shape: Sequence[int | tf.Tensor], dtype: str = "float32"
) -> tf.Tensor:
    """Independent uniform numbers in the open interval (0, 1), symmetric about one half.

    The numbers are (m + 1/2) / 2**23 for m in 0 .. 2**23 - 1, so neither 0 nor 1 occurs: an event of probability zero
    (one) never (always) happens, whatever the field that it comes from.

    Args:
        key: uint32 [2]: the state of a `keras.random.SeedGenerator`, say.
        draw: number of the draw, below 2**32: each draw under one key has a number of its own.
        shape: shape of the result; its entries may be scalar tensors. At most 2**33 elements.
        dtype: floating type of the result; the resolution is that of float32.

    Example:

    >>> key = tf.constant([1, 2], tf.uint32)
    >>> bool(tf.reduce_all(uniform(key, 0, [3, 4]) == uniform(key, 0, [3, 4])))
    True
    """
    *rows, width = shape
    half = (width + 1) // 2
    # Each counter gives two words: one for the left half of a row and one for the right half.
    half_shape = [*rows, half]
    count = (
        math.prod(half_shape) if all(isinstance(n, int) for n in half_shape) else tf.reduce_prod(tf.stack(half_shape))
    )
    index = tf.bitcast(tf.reshape(tf.range(count, dtype=tf.int32), half_shape), tf.uint32)
    draws = tf.fill(tf.shape(index), tf.cast(draw, tf.uint32))
    bits = tf.concat(threefry((key[0], key[1]), (index, draws)), axis=-1)[..., :width]
    # Put 23 bits into the mantissa of a float in [1, 2), and shift it to (0, 1).
    mantissa = tf.bitwise.right_shift(bits, tf.constant(9, tf.uint32)) | tf.constant(0x3F800000, tf.uint32)
    return tf.cast(tf.bitcast(mantissa, tf.float32) - (1.0 - 2.0**-24), dtype)
