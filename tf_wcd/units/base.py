"""What a unit type must provide.

A unit with external input ("field") ``f`` has the density ``exp(f * x - base_energy(x)) / exp(cumulant(f))``.
Energies, conditionals, samplers and exact sums are written on these few primitives, so a new unit type is one small
file.
"""

from __future__ import annotations

import abc
from typing import Any, ClassVar

import numpy as np
import tensorflow as tf

FACTORS_PER_LOG = 100
CLIP = 0.01  # how near to the ends of their range the means may come, as a part of it, for a finite bias


class Unit(abc.ABC):
    """A kind of unit: its states and the statistics of its conditional distribution.

    All primitives are pure, act element by element, and keep the shape of their argument.

    Attributes:
        name: what users write as ``visible_type=`` or ``hidden_type=``.
        values: the states of a unit that has finitely many, else ``None``.
        data_range: the closed interval of values accepted as data. For binary units the inside of the interval is
            read as an expectation (grey pixels, probabilities of the layer below).
        midpoint: where the offsets of the centred gradient start.
    """

    name: ClassVar[str]
    values: ClassVar[tuple[float, float] | None] = None
    data_range: ClassVar[tuple[float, float]] = (-np.inf, np.inf)
    midpoint: ClassVar[float] = 0.0

    @abc.abstractmethod
    def cumulant(self, field: tf.Tensor) -> tf.Tensor:
        """Log of the sum (integral) of ``exp(field * x - base_energy(x))`` over the states of one unit."""

    @abc.abstractmethod
    def mean(self, field: tf.Tensor) -> tf.Tensor:
        """Expected state: the derivative of `cumulant`."""

    @abc.abstractmethod
    def field_of(self, mean: tf.Tensor) -> tf.Tensor:
        """The field at which the expected state is ``mean``: the inverse of `mean`."""

    @abc.abstractmethod
    def sample(self, field: tf.Tensor, uniform: tf.Tensor) -> tf.Tensor:
        """A state drawn by means of ``uniform``, random numbers in the open interval (0, 1)."""

    def total_cumulant(self, field: tf.Tensor) -> tf.Tensor:
        """Sum of `cumulant` over the units, along the last axis."""
        return tf.reduce_sum(self.cumulant(field), axis=-1)

    def base_energy(self, states: tf.Tensor) -> tf.Tensor | None:
        """Energy of a state without any field; ``None`` stands for zero everywhere."""
        return None

    def domain(self) -> str:
        """The accepted data in words, for error messages."""
        low, high = self.data_range
        return f"in [{low:g}, {high:g}]" if np.isfinite(high) else "finite"

    def no_states(self, x: np.ndarray) -> np.ndarray:
        """Where the entries of ``x`` are not those of a state, though they may be data."""
        return np.zeros(x.shape, bool) if self.values is None else ~np.isin(x, self.values)

    # A unit type with parameters of its own (a variance, say) names them here; the layer makes the variables and binds
    # their present values before each computation.

    def parameter_initial_values(self) -> dict[str, float]:
        """Initial value, the same for every unit, of each trainable parameter."""
        return {}

    def bind(self, parameters: dict[str, tf.Tensor]) -> Unit:
        """The unit type with the given values of its parameters."""
        return self

    def parameter_gradients(self, states: tf.Tensor, weights: tf.Tensor) -> dict[str, tf.Tensor]:
        """Sum over the rows of ``weights * d base_energy / d parameter``, for each parameter."""
        return {}

    def get_config(self) -> dict[str, Any]:
        return {}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Unit:
        return cls(**config)


def bias_of_means(unit: Unit, means: np.ndarray) -> tf.Tensor:
    """The bias at which units without weights have these means, or means a little inside of their range."""
    low, high = unit.data_range
    if np.isfinite(high - low):
        margin = CLIP * (high - low)
        means = np.clip(means, low + margin, high - margin)
    return unit.field_of(tf.constant(means))


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
