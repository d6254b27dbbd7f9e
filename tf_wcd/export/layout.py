"""How one side of an RBM is laid out in a served model: padded to whole vectors, with known ranges.

Functions of single elements have a trap: vectorised code computes the last few elements of an array, which do not make
up a whole vector, in another way. So every array that such a function is computed of has a multiple of `LANES`
elements, whatever the number of rows: layers are padded, with units that have no weights.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import tensorflow as tf

from tf_wcd.export.steps import rounded, snap
from tf_wcd.units import Unit

LANES = 16
# Steps of states that need not be integers, in the products that take them, and the largest magnitude of real values.
FINITE_STEP, REAL_STEP, REAL_LIMIT = -24, -16, 1024.0
# Smaller magnitudes are answered as 0: numbers that single precision has no full mantissa for are not treated alike
# by all threads.
SMALLEST = 2.0**-100


class Layout:
    """One side of an RBM.

    "Compact" states have the columns of the model, "padded" ones those of the layout, which are zero elsewhere.

    Args:
        unit: type of the units, bound to its parameters.
        columns: columns of the model.

    Attributes:
        compact_unit: type of the compact layer.
        unit: type of the padded layer.
        width: number of padded columns.
        positions: int ``[columns]``, where the compact columns are among the padded ones.
        limits: ``[width]``, the largest magnitude of a state.
        any_real: whether there are units that do not have finitely many states.
        whole: whether all states are integers, so that a sum of parameters over states has the parameters' steps.
        step: exponent of the steps that states are rounded to where they may be anything in their range.

    Example:

    >>> side = Layout(tf_wcd.units.Mixed([("spin", 2), ("gaussian", 1)]), 3)
    >>> side.width, side.positions.tolist(), side.limits[side.positions].tolist()
    (32, [0, 1, 16], [1.0, 1.0, 1024.0])
    """

    def __init__(self, unit: Unit, columns: int) -> None:
        self.compact_unit, self.columns = unit, columns
        self.unit, self.width, self.positions = unit.padded(columns, LANES)
        known = self.unit.describe_columns(self.width)
        self._real = ~known.finite
        self.limits = np.minimum(
            np.maximum(np.abs(known.low), np.abs(known.high)), np.where(self._real, REAL_LIMIT, np.inf)
        )
        self.any_real, self.whole = bool(self._real.any()), bool(known.whole.all())
        self.step = REAL_STEP if self.any_real else FINITE_STEP
        self._low, self._high = np.maximum(known.low, -self.limits), np.minimum(known.high, self.limits)
        self._in_order = bool((self.positions == np.arange(columns)).all())
        # Units of several columns: functions of them have fewer results than columns.
        self._grouped = self.unit.cumulant(tf.zeros([1, self.width])).shape[-1] != self.width

    # Compact and padded

    def padded_array(self, values: np.ndarray, filler: np.ndarray | float = 0.0) -> np.ndarray:
        """What belongs to the compact columns, along the last axis, with the padding."""
        result = np.array(np.broadcast_to(np.asarray(filler, values.dtype), [*values.shape[:-1], self.width]))
        result[..., self.positions] = values
        return result

    def pad(self, compact: tf.Tensor) -> tf.Tensor:
        """Padded rows ``[rows, width]`` of compact ones. Columns that are left out at the end (labels) are zero."""
        given = compact.shape[-1]
        if self._in_order:
            return tf.pad(compact, [[0, 0], [0, self.width - given]])
        source = np.full(self.width, given)
        source[self.positions[:given]] = np.arange(given)
        return tf.gather(tf.pad(compact, [[0, 0], [0, 1]]), source, axis=1)

    def compact(self, padded: tf.Tensor) -> tf.Tensor:
        """The columns of the model of padded rows."""
        return padded[:, : self.columns] if self._in_order else tf.gather(padded, self.positions, axis=1)

    # States

    def in_steps(self, states: tf.Tensor) -> tf.Tensor:
        """States as the products take them."""
        return states if self.whole else snap(states, self.step)

    def rounded_states(self, values: np.ndarray) -> np.ndarray:
        """Padded states to start from, in whole steps and within the limits."""
        return rounded(np.clip(values, -self.limits, self.limits), self.step)

    def sample(self, field: tf.Tensor, uniform: tf.Tensor) -> tf.Tensor:
        """Padded rows of states drawn in a field; real values are in steps and within the limits."""
        return self._bounded(self.unit.sample(field, uniform), field, self._real)

    def sample_columns(self, field: tf.Tensor, uniform: tf.Tensor) -> tf.Tensor:
        """`sample` of transposed states, ``[width, rows]``."""
        return self._bounded(self.unit.sample_columns(field, uniform), field, self._real[:, None])

    def _bounded(self, drawn: tf.Tensor, field: tf.Tensor, real: np.ndarray) -> tf.Tensor:
        if self.any_real:
            bounded = tf.clip_by_value(snap(drawn, REAL_STEP), -REAL_LIMIT, REAL_LIMIT)
            drawn = bounded if self._real.all() else tf.where(real, bounded, drawn)
        drawn.set_shape(field.shape)
        return drawn

    def accepts(self, compact: tf.Tensor) -> tf.Tensor:
        """Whether data, compact rows without labels, are in the units' range and within the limits; NaN is not."""
        unit = self.compact_unit.without_labels()
        own = self.positions[: compact.shape[-1]]
        low, high = (tf.constant(end[own], compact.dtype) for end in (self._low, self._high))
        return tf.reduce_all(unit.accepts(compact) & (compact >= low) & (compact <= high))

    def domain(self) -> str:
        """What `accepts` accepts, in words."""
        if self._real.all() and np.ptp(self._low) == np.ptp(self._high) == 0:
            return f"in [{self._low[0]:g}, {self._high[0]:g}]"
        limit = f" (real values in [{-REAL_LIMIT:g}, {REAL_LIMIT:g}])" if self.any_real else ""
        return self.compact_unit.without_labels().domain() + limit

    # Functions of the units, in double precision

    def mean(self, field: tf.Tensor) -> tf.Tensor:
        """Expected states, ``[..., width]``."""
        return self._unitwise(self.unit.mean, field)

    def cumulant(self, field: tf.Tensor) -> tf.Tensor:
        """The cumulant of each unit, padding included."""
        return self._unitwise(self.unit.cumulant, field)

    def base_energy(self, states: tf.Tensor) -> tf.Tensor | None:
        """The base energy of each unit that has one, padding included; ``None`` if none has."""
        if self.unit.base_energy(tf.zeros([1, self.width], states.dtype)) is None:
            return None
        return self._unitwise(self._base_energy, states)

    def _base_energy(self, states: tf.Tensor) -> tf.Tensor:
        energy = self.unit.base_energy(states)
        assert energy is not None
        return energy

    def _unitwise(self, function: Callable[[tf.Tensor], tf.Tensor], values: tf.Tensor) -> tf.Tensor:
        """A function of the units of the last axis.

        Units of several columns have arrays of one entry for each unit, whose number need not be a multiple of
        `LANES`: there the number of rows is.
        """
        if not self._grouped:
            return function(values)
        leading = tf.shape(values)[:-1]
        flat = tf.reshape(values, [-1, self.width])
        rows = tf.shape(flat)[0]
        result = function(tf.pad(flat, [[0, -rows % LANES], [0, 0]]))[:rows]
        return tf.reshape(result, tf.concat([leading, [result.shape[-1]]], axis=0))

    # Bounds, for the steps of sums

    def cumulant_bound(self, fields: np.ndarray) -> float:
        """A bound on the sum of the magnitudes of the cumulants in fields up to the given ones, ``[width]``.

        A cumulant is convex: it is largest at the ends of a range, and above its tangent at 0.
        """
        ends = tf.constant(np.stack([fields, -fields, np.zeros_like(fields)]))
        largest = np.abs(self.unit.cumulant(ends)).max(0).sum()
        slopes = np.abs(self.unit.mean(ends[2:])[0]) + np.where(self._real, 0.0, self.limits)
        return float(largest + slopes @ fields)

    def base_energy_bound(self) -> float:
        """A bound on the sum of the magnitudes of the base energies."""
        ends = tf.constant(np.stack([self._low, self._high, np.zeros_like(self._low)]))
        energies = self.unit.base_energy(ends)
        return 0.0 if energies is None else float(2.0 * np.abs(energies).max(0).sum())


def single(values: tf.Tensor) -> tf.Tensor:
    """Answers in single precision, without numbers too small for a full mantissa."""
    return tf.cast(tf.where(tf.abs(values) < SMALLEST, tf.zeros_like(values), values), tf.float32)
