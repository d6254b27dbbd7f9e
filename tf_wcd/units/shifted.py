"""Units each row of which has a bias of its own: conditional RBMs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

import numpy as np
import tensorflow as tf

from tf_wcd.shapes import static_shape
from tf_wcd.units.base import Unit


class Shifted(Unit):
    """Units of one kind, each row of which feels a field of its own besides the one that it is given.

    The shift is a part of the base energy: a state x has ``- shift . x`` more of it. So free energies, conditionals and
    gradients of a machine with such units are those of a machine with other biases in each row.

    Args:
        base: the kind of units.
        shift: ``[rows, columns]``, or one row for all. It goes with fields and states of so many rows, or of several
            such sets of rows, one under the other.

    Example:

    >>> unit = Shifted(tf_wcd.units.get("spin"), tf.constant([[9.0], [-9.0]]))
    >>> unit.mean(tf.zeros([2, 1])).numpy().round(3).tolist()
    [[1.0], [-1.0]]
    """

    name = "shifted"
    rows_differ = True

    def __init__(self, base: Unit, shift: tf.Tensor) -> None:
        self.base, self.shift = base, shift
        self.columns, self.parameters = base.columns, base.parameters

    def _beside(self, values: tf.Tensor) -> tf.Tensor:
        """The shift of each row of fields or states."""
        rows, own = static_shape(values)[-2], static_shape(self.shift)[-2]
        one_set = isinstance(own, int) and (own == 1 or (isinstance(rows, int) and own == rows))
        return self.shift if one_set else tf.tile(self.shift, [rows // own, 1])

    def _shifted(self, field: tf.Tensor) -> tf.Tensor:
        return field + self._beside(field)

    @property
    def states(self) -> np.ndarray | None:
        return self.base.states

    @property
    def finite(self) -> bool:
        return self.base.finite

    def bits(self, columns: int) -> float:
        return self.base.bits(columns)

    def num_states(self, columns: int) -> int:
        return self.base.num_states(columns)

    def states_at(self, indices: tf.Tensor, columns: int, dtype: Any = "float32") -> tf.Tensor:
        return self.base.states_at(indices, columns, dtype)

    def cumulant(self, field: tf.Tensor) -> tf.Tensor:
        return self.base.cumulant(self._shifted(field))

    def total_cumulant(self, field: tf.Tensor) -> tf.Tensor:
        return self.base.total_cumulant(self._shifted(field))

    def mean(self, field: tf.Tensor) -> tf.Tensor:
        return self.base.mean(self._shifted(field))

    def variances(self, field: tf.Tensor) -> tf.Tensor:
        return self.base.variances(self._shifted(field))

    def field_of(self, mean: tf.Tensor) -> tf.Tensor:
        return self.base.field_of(mean) - self._beside(mean)

    def sample(self, field: tf.Tensor, uniform: tf.Tensor) -> tf.Tensor:
        return self.base.sample(self._shifted(field), uniform)

    def base_energy(self, states: tf.Tensor) -> tf.Tensor:
        """The parts of the energy side by side: those of the kind of units, and the shift's, column by column."""
        own, base = -self._beside(states) * states, self.base.base_energy(states)
        return own if base is None else tf.concat([base, own], axis=-1)

    def bind(self, parameters: Mapping[str, tf.Tensor]) -> Self:
        return type(self)(self.base.bind(parameters), self.shift)
