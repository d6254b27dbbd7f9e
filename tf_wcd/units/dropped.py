"""Units some of which are absent, row by row: dropout."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Self

import numpy as np
import tensorflow as tf

from tf_wcd.units.base import Unit


class Dropped(Unit):
    """Units of one kind, each of them present or absent in each row.

    An absent unit has no states to sum over, and nothing of it reaches the other side: its state and its mean are 0,
    and so is its cumulant.

    Args:
        base: the kind of units.
        mask: ``[..., rows, columns]``, 1 where a unit is present and 0 where it is absent, the same in all columns of a
            unit. It goes with fields of so many rows.

    Example:

    >>> unit = Dropped(tf_wcd.units.get("spin"), tf.constant([[1.0, 0.0]]))
    >>> unit.mean(tf.constant([[9.0, 9.0]])).numpy().tolist()
    [[1.0, 0.0]]
    """

    name = "dropped"
    rows_differ = True

    def __init__(self, base: Unit, mask: tf.Tensor) -> None:
        self.base, self.mask = base, mask
        self.columns, self.parameters = base.columns, base.parameters

    @property
    def states(self) -> np.ndarray | None:
        return self.base.states

    def cumulant(self, field: tf.Tensor) -> tf.Tensor:
        first = np.unique(self.base.describe_columns(self.mask.shape[-1]).first)
        present = self.mask if len(first) == self.mask.shape[-1] else tf.gather(self.mask, first, axis=-1)
        return present * self.base.cumulant(field)

    def mean(self, field: tf.Tensor) -> tf.Tensor:
        return self.mask * self.base.mean(field)

    def variances(self, field: tf.Tensor) -> tf.Tensor:
        return self.mask * self.base.variances(field)

    def field_of(self, mean: tf.Tensor) -> tf.Tensor:
        return self.base.field_of(mean)

    def sample(self, field: tf.Tensor, uniform: tf.Tensor) -> tf.Tensor:
        return self.mask * self.base.sample(field, uniform)

    def base_energy(self, states: tf.Tensor) -> tf.Tensor | None:
        return self.base.base_energy(states)

    def bind(self, parameters: Mapping[str, tf.Tensor]) -> Self:
        return type(self)(self.base.bind(parameters), self.mask)


def unit_mask(unit: Unit, uniform: tf.Tensor, rate: float) -> tf.Tensor:
    """1 where a unit stays and 0 where it is dropped, the same in all columns of a unit.

    Args:
        unit: the kind of units.
        uniform: random numbers in (0, 1), ``[..., rows, columns]``.
        rate: probability of each unit to be dropped.
    """
    first = unit.describe_columns(uniform.shape[-1]).first
    if (first != np.arange(len(first))).any():
        uniform = tf.gather(uniform, first, axis=-1)
    return tf.cast(uniform >= rate, uniform.dtype)
