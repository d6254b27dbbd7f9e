"""An RBM whose sums are exact, so that a row's answer cannot depend on the rows beside it.

Floating-point sums depend on the order of their terms, and matrix products take them in an order that depends on the
number of rows, of threads, and on the library. A client would get other samples from a batch than alone. Here every
term of a sum is a multiple of a power of two, coarse enough for all partial sums to fit into the mantissa: no sum is
ever rounded, and any order gives the same bits. The parameters are rounded to such multiples once, when exported.

Functions of single elements have another trap: vectorised code computes the last few elements of an array in another
way. So the units are filled up to a multiple of `LANES`, with units that have no weights.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np
import tensorflow as tf

from tf_wcd.export.filled_labels import FilledLabels
from tf_wcd.machine import Machine
from tf_wcd.random import column_uniform, row_uniform
from tf_wcd.units import Labelled, Unit
from tf_wcd.units.labelled import number_of_labels

LANES = 16
# The coarsest steps of the parameters that single precision may have; chains of models with larger weights run in
# double.
COARSEST = -14
# Steps of the visible states in the products that take real values, and their largest magnitude.
BINARY_STEP, BINARY_LIMIT = -24, 1.0
REAL_STEP, REAL_LIMIT = -16, 1024.0
BASE_ENERGY_STEP = -24
# Steps of the weights of labels, and of expectations weighted with them.
LABEL_STEP = -40


@dataclasses.dataclass(frozen=True)
class Parameters:
    """Kernel and biases of one type, all multiples of ``2**step``.

    The kernel is kept both ways round: products with few rows spend most of their time on a kernel that has to be
    turned. For the same reason the states of chains are columns, ``[units, rows]``.
    """

    kernel: tf.Variable
    turned_kernel: tf.Variable
    visible_bias: tf.Variable
    hidden_bias: tf.Variable
    step: int

    def hidden_field(self, visible: tf.Tensor) -> tf.Tensor:
        """c + W x of rows of states."""
        return tf.matmul(visible, self.kernel) + self.hidden_bias

    def visible_field(self, hidden: tf.Tensor) -> tf.Tensor:
        """b + h W of rows of states."""
        return tf.matmul(hidden, self.turned_kernel) + self.visible_bias

    def hidden_columns(self, visible: tf.Tensor) -> tf.Tensor:
        """W x of columns of states."""
        return tf.matmul(self.turned_kernel, visible)

    def visible_columns(self, hidden: tf.Tensor) -> tf.Tensor:
        """b + h W of columns of states."""
        return tf.matmul(self.kernel, hidden) + self.visible_bias[:, None]


class ExactSumMachine(tf.Module):
    """One RBM, as a part of a SavedModel.

    Attributes:
        num_visible, num_hidden: numbers of units, without those that fill up and without labels.
        labels: number of labels beside the visible units. They are columns of their own behind them, filled up too.
        unit_name: kind of the visible units.
        real: whether the visible units are real-valued.
        limit: largest magnitude of a visible state.
        wide: the parameters in double precision, for visible states that may be anything in the units' range.
        chain: the parameters that chains run with: in single precision where that is fine enough.
    """

    def __init__(self, machine: Machine) -> None:
        super().__init__()
        self.labels = number_of_labels(machine.visible)
        self.num_visible, self.num_hidden = machine.num_visible - self.labels, machine.num_hidden
        self.visible, self.hidden = self._filled_up(machine.visible), machine.hidden
        self.unit_name = machine.visible.base if isinstance(machine.visible, Labelled) else machine.visible.name
        self.real = self.visible.values is None
        self.limit = REAL_LIMIT if self.real else BINARY_LIMIT
        self._state_step = REAL_STEP if self.real else BINARY_STEP
        kernel, visible_bias, hidden_bias = (
            np.asarray(value, "float64") for value in (machine.kernel, machine.visible_bias, machine.hidden_bias)
        )
        arrays = (kernel, visible_bias, hidden_bias)
        if kernel.ndim != 2:
            raise ValueError(f"One RBM can be exported at a time. Received: a kernel of the shape {kernel.shape}")
        if not all(np.isfinite(array).all() for array in arrays):
            raise ValueError("The parameters of a model to export must be finite. Received: NaN or infinite values")
        magnitudes = np.abs(kernel)
        hidden_bound = (np.abs(hidden_bias) + self.limit * magnitudes.sum(0)).max()
        visible_bound = (np.abs(visible_bias) + magnitudes.sum(1)).max()
        largest = max(hidden_bound, visible_bound, self.limit * np.abs(visible_bias).sum())
        self.wide = self._parameters(arrays, _step(largest, 53 + self._state_step), "float64")
        narrow = _step(max(hidden_bound, visible_bound), 24)
        fits = not self.real and narrow <= COARSEST and machine.kernel.dtype != tf.float64
        self.chain = self._parameters(arrays, narrow, "float32") if fits else self.wide
        self._cumulant_step = _step(self.num_hidden * (hidden_bound + 1), 53)

    def _parameters(self, arrays: tuple[np.ndarray, ...], step: int, dtype: str) -> Parameters:
        columns = _fill(self.num_hidden)
        rounded = [_whole_steps(array, step).astype(dtype) for array in arrays]
        kernel = self.laid_out(np.pad(rounded[0], [[0, 0], [0, columns]]))
        values = kernel, kernel.T, self.laid_out(rounded[1]), np.pad(rounded[2], [0, columns])
        variables = [tf.Variable(value, trainable=False) for value in values]
        self._keep = [*getattr(self, "_keep", []), *variables]  # a SavedModel holds what attributes lead to
        return Parameters(variables[0], variables[1], variables[2], variables[3], step)

    @property
    def dtype(self) -> tf.DType:
        """The type that chains run in."""
        return self.chain.kernel.dtype

    @property
    def own_width(self) -> int:
        """Columns of the visible units with those that fill them up, labels aside."""
        return self.num_visible + _fill(self.num_visible)

    def laid_out(self, values: np.ndarray, filler: float = 0.0) -> np.ndarray:
        """What belongs to the visible units and labels, along the first axis, with the units that fill up."""
        parts = [values[: self.num_visible], values[self.num_visible :]] if self.labels else [values]
        rest = [[0, 0]] * (values.ndim - 1)
        return np.concatenate([np.pad(p, [[0, _fill(len(p))], *rest], constant_values=filler) for p in parts])

    def _filled_up(self, unit: Unit) -> Any:
        """The unit type with its parameters for the units that fill up."""
        if isinstance(unit, Labelled):
            return FilledLabels(unit, self.own_width, self.labels + _fill(self.labels))
        log_variance = getattr(unit, "_log_variance", None)
        return unit if log_variance is None else unit.bind({"log_variance": self.laid_out(np.asarray(log_variance))})

    # States and fields of chains, filled up with units without weights

    def states(self, visible: tf.Tensor) -> tf.Tensor:
        """Visible states of requests without labels, filled up, in double precision and in whole steps."""
        wide = tf.pad(tf.cast(visible, tf.float64), [[0, 0], [0, _fill(self.num_visible)]])
        return _snap(wide, self._state_step)

    def in_steps(self, values: np.ndarray) -> np.ndarray:
        """States to start from, in whole steps and within the limit."""
        return _whole_steps(np.clip(values, -self.limit, self.limit), self._state_step)

    def start_field(self, visible: tf.Tensor) -> tf.Tensor:
        """c + W x, for `states` that need not be those of units, as the chain's type."""
        return self.chain_field(self.wide.hidden_field(visible))

    def chain_field(self, field: tf.Tensor) -> tf.Tensor:
        """A field in the chain's type and steps, so that the terms of a chain can still be added without rounding."""
        return field if self.chain is self.wide else tf.cast(_snap(field, self.chain.step), self.dtype)

    def sample_hidden(self, field: tf.Tensor, keys: tf.Tensor, draw: tf.Tensor | int) -> tf.Tensor:
        return self.hidden.sample(field, self._uniform(keys, draw, field))

    def sample_visible(self, field: tf.Tensor, keys: tf.Tensor, draw: tf.Tensor | int) -> tf.Tensor:
        drawn = self.visible.sample(field, self._uniform(keys, draw, field))
        return tf.clip_by_value(_snap(drawn, REAL_STEP), -REAL_LIMIT, REAL_LIMIT) if self.real else drawn

    def sample_hidden_columns(self, field: tf.Tensor, keys: tf.Tensor, draw: tf.Tensor) -> tf.Tensor:
        return self.hidden.sample(field, self._uniform_columns(keys, draw, field))

    def sample_visible_columns(self, field: tf.Tensor, keys: tf.Tensor, draw: tf.Tensor) -> tf.Tensor:
        if self.real:  # these units have parameters of their own, along rows
            return tf.transpose(self.sample_visible(tf.transpose(field), keys, draw))
        uniform = self._uniform_columns(keys, draw, field)
        return self.visible.sample(field, uniform, axis=0) if self.labels else self.visible.sample(field, uniform)

    def _uniform_columns(self, keys: tf.Tensor, draw: tf.Tensor, field: tf.Tensor) -> tf.Tensor:
        return tf.cast(column_uniform(keys, draw, field.shape[0]), field.dtype)

    def _uniform(self, keys: tf.Tensor, draw: tf.Tensor | int, field: tf.Tensor) -> tf.Tensor:
        return tf.cast(row_uniform(keys, draw, field.shape[-1]), field.dtype)

    # What is answered: float32, without the units that fill up

    def probability(self, visible_field: tf.Tensor) -> tf.Tensor:
        """P(a unit is in its upper state), or the mean of a real-valued unit."""
        if self.real:
            return self.trimmed(self.visible.mean(visible_field))
        # Beyond 80 the answer is 0 or 1 in single precision, but for numbers too small to be treated alike everywhere.
        return self.upper_share(self.trimmed(self.visible.mean(tf.clip_by_value(visible_field, -80.0, 80.0))))

    def upper_share(self, mean: tf.Tensor) -> tf.Tensor:
        """P(a unit is in its upper state) from its mean; the mean itself for a real-valued unit."""
        if self.visible.values is None:
            return mean
        low, high = self.visible.values
        return (mean - low) * (1.0 / (high - low))

    def trimmed(self, visible: tf.Tensor) -> tf.Tensor:
        return tf.cast(visible, tf.float32)[:, : self.num_visible]

    def expected_hidden(self, visible: tf.Tensor) -> tf.Tensor:
        """E[h | x] for `states`, filled up, in double precision. Labels are summed over: sum_y P(y | x) E[h | x, y]."""
        if not self.labels:
            return self.hidden.mean(self.wide.hidden_field(visible))
        rows = slice(self.own_width, self.own_width + self.labels)
        without = tf.matmul(visible, self.wide.kernel[: self.own_width]) + self.wide.hidden_bias
        fields = without[:, None, :] + self.wide.kernel[rows]
        cumulants = _snap(self.hidden.cumulant(fields)[:, :, : self.num_hidden], self._cumulant_step)
        logits = tf.reduce_sum(cumulants, axis=-1) + self.wide.visible_bias[rows]
        shifted = logits - tf.reduce_max(logits, axis=-1, keepdims=True)
        filled = tf.pad(shifted, [[0, 0], [0, _fill(self.labels)]], constant_values=-np.inf)
        weights = _snap(tf.exp(filled), LABEL_STEP)
        weights /= tf.reduce_sum(weights, axis=-1, keepdims=True)
        expected = weights[:, : self.labels, None] * self.hidden.mean(fields)
        return tf.reduce_sum(_snap(expected, LABEL_STEP), axis=1)

    def free_energy(self, visible: tf.Tensor) -> tf.Tensor:
        """F(x) for `states`, float64 ``[rows]``."""
        cumulants = self.hidden.cumulant(self.wide.hidden_field(visible))[:, : self.num_hidden]
        energy = -tf.matmul(visible, self.wide.visible_bias[:, None])[:, 0]
        base = self.visible.base_energy(visible)
        if base is not None:
            energy += tf.reduce_sum(_snap(base, BASE_ENERGY_STEP), axis=-1)
        return energy - tf.reduce_sum(_snap(cumulants, self._cumulant_step), axis=-1)


def _step(bound: float, bits: int) -> int:
    """The smallest exponent e such that sums up to ``bound`` of multiples of ``2**e`` have at most so many bits."""
    # A half more for what the rounding of the terms themselves, and of fields that are added, may contribute.
    return math.ceil(math.log2(max(1.5 * bound, 1e-3))) - bits


def _whole_steps(values: np.ndarray, step: int) -> np.ndarray:
    """`_snap` of an array."""
    return np.ldexp(np.rint(np.ldexp(values, -step)), step)


def _snap(values: tf.Tensor, step: int) -> tf.Tensor:
    """The nearest multiples of ``2**step``."""
    return tf.round(values * 2.0**-step) * 2.0**step


def _fill(units: int) -> int:
    return -units % LANES
