"""The sum over all states of one side, without an exponential for each of its terms.

A state of the enumerated side is a pair of halves, and the field that it puts on a unit of the other side is the sum of
what the halves put there. So the unit's factor of exp(-F), a sum of exp(value * field) over its two values, is a sum of
products of numbers from two small tables: one multiplication and one addition for each value. A logarithm is taken of a
whole group of factors, as large as cannot overflow.
"""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np
import tensorflow as tf

from tf_wcd.enumeration import Side, all_states
from tf_wcd.units import Unit
from tf_wcd.xla import compiled

LARGEST_EXPONENT = 600.0  # exp overflows float64 at 709
LOW_UNITS = 10


def factors_per_logarithm(side: Side) -> int:
    """How many factors can be multiplied before their logarithm is taken: a power of two; 0 if not even one.

    It is 0, too, for units that have more than two values, or a base energy.
    """
    unit, other, kernel, _, bias = _sides(side)
    if unit.values is None or other.values is None or len(unit.values) != 2 or len(other.values) != 2:
        return 0
    if any(kind.base_energy(tf.zeros([1, kind.columns], tf.float64)) is not None for kind in (unit, other)):
        return 0
    largest = np.abs(unit.values).max() * np.abs(kernel).sum(axis=-2) + np.abs(bias)
    # Members of an ensemble that are not a number have no part in it: their sums come out as NaN in any group.
    bound = np.abs(other.values).max() * np.nanmax(largest, initial=0.0) + math.log(2)
    return 0 if bound > LARGEST_EXPONENT else 2 ** min(6, int(math.log2(LARGEST_EXPONENT / bound)))


def bytes_of_tables(side: Side) -> int:
    """Memory that `log_sum` needs: two tables for each half of the states, and a product of the lower ones."""
    _, _, kernel, _, _ = _sides(side)
    count, others = kernel.shape[-2:]
    low = min(count, LOW_UNITS)
    return 8 * others * (2 * 2 ** (count - low) + 3 * 2**low)


def log_sum(side: Side, group: int) -> tf.Tensor:
    """log Z in float64, for every machine along the leading axes."""
    unit, other, *parameters = _sides(side)
    run = _compiled(unit, other.values, group)
    shape = parameters[0].shape[:-2]
    members = zip(*(np.reshape(p, [-1, *p.shape[len(shape) :]]) for p in parameters), strict=True)
    return tf.reshape(tf.stack([run(*member) for member in members]), shape)


def _sides(side: Side) -> tuple[Unit, Unit, np.ndarray, np.ndarray, np.ndarray]:
    """The enumerated unit type and the other, the kernel from the one to the other, and the biases of both."""
    machine = side.machine
    kernel, visible_bias, hidden_bias = (
        np.asarray(v) for v in (machine.kernel, machine.visible_bias, machine.hidden_bias)
    )
    if side.visible:
        return machine.visible, machine.hidden, kernel, visible_bias, hidden_bias
    return machine.hidden, machine.visible, np.swapaxes(kernel, -1, -2), hidden_bias, visible_bias


@functools.lru_cache
def _compiled(unit: Unit, other_values: tuple[float, float], group: int) -> Any:
    """The compiled sum for one machine: ``run(kernel, bias, other_bias)``."""

    def run(kernel: tf.Tensor, bias: tf.Tensor, other_bias: tf.Tensor) -> tf.Tensor:
        count, others = kernel.shape
        low_count = min(count, LOW_UNITS)
        groups = -(-others // group)
        # The last group is padded with units without a field. Each has the factor 2.
        padding = groups * group - others

        def half(units: slice, width: int, extra: tf.Tensor) -> tuple[list[tf.Tensor], tf.Tensor]:
            """For all states of half of the units: exp(value * field), [others, states], for each value; and b.x."""
            states = all_states(unit, width, "float64")
            field = tf.pad(
                tf.matmul(kernel[units], states, transpose_a=True, transpose_b=True) + extra, [[0, padding], [0, 0]]
            )
            return [tf.exp(value * field) for value in other_values], tf.linalg.matvec(states, bias[units])

        zero = tf.zeros([others, 1], tf.float64)
        high_tables, high_bias = half(slice(0, count - low_count), count - low_count, other_bias[:, None])
        low_tables, low_bias = half(slice(count - low_count, count), low_count, zero)
        first, second = (tf.reshape(table, [groups, group, 2**low_count]) for table in low_tables)

        def body(i: tf.Tensor, total: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
            a, b = (tf.reshape(table[:, i], [groups, group, 1]) for table in high_tables)
            products = tf.reduce_prod(a * first + b * second, axis=1)
            terms = tf.reduce_sum(tf.math.log(products), axis=0) + low_bias + high_bias[i]
            return i + 1, tf.reduce_logsumexp(tf.stack([total, tf.reduce_logsumexp(terms)]))

        start = [tf.constant(0), tf.constant(-np.inf, tf.float64)]
        _, total = tf.while_loop(lambda i, _: i < 2 ** (count - low_count), body, start, parallel_iterations=1)
        return total - padding * math.log(2)

    return compiled(run, jit_compile=True)
