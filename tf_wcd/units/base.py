"""What a unit type must provide.

A unit in a field ``f`` has the density ``exp(f . x - base_energy(x)) / exp(cumulant(f))`` over its states x. Energies,
conditionals, samplers, gradients, exact sums and exports are written on the few primitives of `Unit`, so that a new
unit type is one small file.
"""

from __future__ import annotations

import abc
import copy
import math
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Self

import numpy as np
import tensorflow as tf

from tf_wcd.units.activations import UnitMean
from tf_wcd.units.columns import Columns, Padded, Places
from tf_wcd.units.numbering import NumberedStates

CLIP = 0.01  # how near to the ends of their range the means may come, as a part of it, for a finite bias


class Unit(NumberedStates, abc.ABC):
    """A kind of unit: its states, and the statistics of its conditional distribution.

    A unit takes ``columns`` columns of the data: one for most, one for each state of a categorical unit. Primitives are
    pure. They take fields and states of a whole layer, ``[..., columns of the layer]``, and act along the last axis.

    A subclass must implement `cumulant`, `mean`, `field_of` and `sample`, and `get_config` if it takes arguments. Units
    that have finitely many states say which (``values``, or ``states``): then they can be enumerated. Parameters that
    are learned (a variance, say) are named by `initial_parameters`, and found in ``self.parameters``.

    Attributes:
        name: what messages and metadata call it.
        columns: columns that one unit takes.
        values: the states of a unit of one column that has finitely many; ``None`` otherwise.
        classes: how many of the layer's last columns are a label; 0 without labels.
        parameters: present values of the learned parameters, bound by `bind`; empty before.
    """

    name: ClassVar[str]
    columns: int = 1
    values: tuple[float, ...] | None = None
    classes: int = 0
    rows_differ: bool = False  # whether each row has units of its own, as conditions and dropout make them
    parameters: Mapping[str, tf.Tensor] = {}

    # States

    @property
    def states(self) -> np.ndarray | None:
        """All states of one unit, ``[number of states, columns]``; ``None`` if there are not finitely many."""
        return None if self.values is None else np.array(self.values)[:, None]

    @property
    def finite(self) -> bool:
        """Whether a layer of these units has finitely many states."""
        return self.states is not None

    @property
    def data_range(self) -> tuple[float, float]:
        """The closed interval of values that data may have; inside it they may be expectations (grey pixels, say)."""
        states = self.states
        return (-np.inf, np.inf) if states is None else (float(states.min()), float(states.max()))

    @property
    def midpoint(self) -> float:
        """The mean of a unit without field, where the offsets of the centred gradient start."""
        states = self.states
        return 0.0 if states is None else float(states.mean())

    def midpoints(self, columns: int) -> np.ndarray:
        """`midpoint` of every column of a layer."""
        return np.full([columns], self.midpoint)

    def describe_columns(self, columns: int) -> Columns:
        """What each column of a layer may hold."""
        low, high = self.data_range
        states = self.states
        whole = np.zeros(self.columns, bool) if states is None else (states == np.rint(states)).all(0)
        return Columns(
            low=np.full(columns, low),
            high=np.full(columns, high),
            finite=np.full(columns, states is not None),
            whole=np.tile(whole, columns // self.columns),
            first=np.arange(columns) // self.columns * self.columns,
        )

    @property
    def elementwise(self) -> bool:
        """Whether the primitives treat every column alike, by itself, so that they work along any axis."""
        return self.columns == 1 and not self.parameters

    def check_columns(self, columns: int) -> None:
        """Raises ValueError if a layer cannot have so many columns."""
        if columns % self.columns:
            raise ValueError(
                f"A {self.name!r} unit takes {self.columns} columns: their number must be a multiple of it. "
                f"Received: {columns} columns"
            )

    def bits(self, columns: int) -> float:
        """log2 of the number of states of a layer; infinite if there are not finitely many."""
        states = self.states
        return math.inf if states is None else columns // self.columns * math.log2(len(states))

    def num_states(self, columns: int) -> int:
        """Number of states of a layer of units that have finitely many."""
        return len(self._finite_states()) ** (columns // self.columns)

    def states_at(self, indices: tf.Tensor, columns: int, dtype: Any = "float32") -> tf.Tensor:
        """The states of a layer that integers stand for, read as digits with the most significant first.

        Args:
            indices: int32 ``[N]``, below `num_states`.
            columns: columns of the layer.
            dtype: type of the result.

        Returns:
            ``[N, columns]``.
        """
        states = self._finite_states()
        count, places = len(states), columns // self.columns
        if count == 2:
            shifts = tf.range(places - 1, -1, -1)[None, :]
            digits = tf.bitwise.bitwise_and(tf.bitwise.right_shift(indices[:, None], shifts), 1)
        else:
            powers = tf.constant([count**place for place in range(places - 1, -1, -1)], tf.int32)
            digits = indices[:, None] // powers % count
        if count == 2 and self.columns == 1:
            low, high = states[:, 0]
            return float(low) + float(high - low) * tf.cast(digits, dtype)
        return tf.reshape(tf.gather(tf.constant(states, dtype), digits), [-1, columns])

    def places(self, columns: int) -> Places:
        """The units of a layer of units that have finitely many states, and the states of each."""
        states, units = self._finite_states(), columns // self.columns
        with tf.init_scope():  # values, where a graph is being made, too
            energies = self.base_energy(tf.constant(np.tile(states, units)))
        return Places(
            np.arange(columns).reshape(units, self.columns),
            np.ones([units, self.columns]),
            np.tile(states, [units, 1, 1]),
            np.zeros([units, len(states)]) if energies is None else np.transpose(energies),
        )

    def _finite_states(self) -> np.ndarray:
        if self.states is None:
            raise ValueError(f"The states of {self.name!r} units cannot be enumerated.")
        return self.states

    # The conditional distribution

    @abc.abstractmethod
    def cumulant(self, field: tf.Tensor) -> tf.Tensor:
        """Log of the sum (integral) of ``exp(field . x - base_energy(x))`` over the states: ``[..., units]``."""

    @abc.abstractmethod
    def mean(self, field: tf.Tensor) -> tf.Tensor:
        """Expected states, of the shape of the field: the derivative of `cumulant`."""

    def variances(self, field: tf.Tensor) -> tf.Tensor:
        """Variances of the states, of the shape of the field: for units of one column, the derivative of `mean`."""
        field = tf.convert_to_tensor(field)
        with tf.GradientTape() as tape:
            tape.watch(field)
            total = tf.reduce_sum(self.mean(field))
        return tape.gradient(total, field)

    @abc.abstractmethod
    def field_of(self, mean: tf.Tensor) -> tf.Tensor:
        """A field at which the expected states are ``mean``: an inverse of `mean`."""

    def bias_of_means(self, means: np.ndarray) -> tf.Tensor:
        """The bias at which units without weights have these means, or means a little inside of their range."""
        low, high = self.data_range
        if np.isfinite(high - low):
            margin = CLIP * (high - low)
            means = np.clip(means, low + margin, high - margin)
        return self.field_of(tf.constant(means))

    @abc.abstractmethod
    def sample(self, field: tf.Tensor, uniform: tf.Tensor) -> tf.Tensor:
        """States drawn by means of ``uniform``, random numbers in (0, 1) of the field's shape."""

    def base_energy(self, states: tf.Tensor) -> tf.Tensor | None:
        """Energy without any field, ``[..., units]``; ``None`` stands for zero everywhere."""
        return None

    def total_cumulant(self, field: tf.Tensor) -> tf.Tensor:
        """Sum of `cumulant` over the units."""
        return tf.reduce_sum(self.cumulant(field), axis=-1)

    def total_base_energy(self, states: tf.Tensor) -> tf.Tensor | None:
        """Sum of `base_energy` over the units; ``None`` stands for zero everywhere."""
        energy = self.base_energy(states)
        return None if energy is None else tf.reduce_sum(energy, axis=-1)

    def tails(self, columns: int) -> tuple[np.ndarray, np.ndarray]:
        """How fast the density falls off towards -infinity and +infinity, in every column, ``[..., columns]`` each.

        It is the variance of the normal density that it falls off as: 0 where there are no states so far out. A real
        unit type that does not say it goes with units of finitely many states only.
        """
        variance = np.full([columns], 0.0 if self.finite else np.inf)
        return variance, variance

    def normal_variances(self, columns: int) -> np.ndarray | None:
        """The variances of units that are normal in every field, ``[..., columns]``; ``None`` of other units."""
        return None

    def log_prob(self, states: tf.Tensor, field: tf.Tensor) -> tf.Tensor:
        """Log-probability (log-density) of the states of a layer in a field, ``[...]``."""
        log_prob = tf.reduce_sum(states * field, axis=-1) - self.total_cumulant(field)
        base = self.total_base_energy(states)
        return log_prob if base is None else log_prob - base

    def entropy(self, field: tf.Tensor) -> tf.Tensor:
        """Entropy of a layer of units without base energy in a field, ``[...]``."""
        return self.total_cumulant(field) - tf.reduce_sum(field * self.mean(field), axis=-1)

    # Learned parameters

    def initial_parameters(self, columns: int) -> dict[str, np.ndarray]:
        """Initial values of the learned parameters of a layer of so many columns, by name."""
        return {}

    def bind(self, parameters: Mapping[str, tf.Tensor]) -> Self:
        """The unit type with the given values of its parameters, ``[..., n]`` with the machine's leading axes."""
        if not parameters:
            return self
        bound = copy.copy(self)
        bound.parameters = dict(parameters)
        return bound

    def parameter_gradients(self, states: tf.Tensor, weights: tf.Tensor) -> dict[str, tf.Tensor]:
        """Sum over the rows of ``weights`` ``[..., rows]`` times the derivative of the base energy of their states."""
        return self._derivatives(lambda unit: unit.total_base_energy(states), weights)

    def expected_parameter_gradients(self, field: tf.Tensor, weights: tf.Tensor) -> dict[str, tf.Tensor]:
        """`parameter_gradients` in expectation over the states in the given field."""
        return self._derivatives(lambda unit: -unit.total_cumulant(field), weights)

    def _derivatives(self, energy: Callable[[Unit], Any], weights: tf.Tensor) -> dict[str, tf.Tensor]:
        if not self.parameters:
            return {}
        parameters = {name: tf.convert_to_tensor(value) for name, value in self.parameters.items()}
        with tf.GradientTape() as tape:
            tape.watch(parameters)
            total = tf.reduce_sum(weights * energy(self.bind(parameters)))
        return tape.gradient(total, parameters)

    # Data

    def accepts(self, x: tf.Tensor) -> tf.Tensor:
        """Where the entries of data ``[rows, columns]`` are states or expectations of the units."""
        low, high = self.data_range
        return (x >= low) & (x <= high)

    def are_states(self, x: tf.Tensor) -> tf.Tensor:
        """Where the entries of data ``[..., columns]`` are those of states, not of expectations."""
        states = self.states
        if states is None:
            return tf.ones(tf.shape(x), bool)
        if self.columns == 1:
            return tf.reduce_any(tf.stack([x == value for value in states[:, 0]]), axis=0)
        units = tf.reshape(x, tf.concat([tf.shape(x)[:-1], [x.shape[-1] // self.columns, self.columns]], axis=0))
        known = [tf.reduce_all(units == tf.constant(state, x.dtype), axis=-1, keepdims=True) for state in states]
        return tf.reshape(tf.broadcast_to(tf.reduce_any(tf.stack(known), axis=0), tf.shape(units)), tf.shape(x))

    def part_of(self, column: int, columns: int) -> tuple[Unit, slice]:
        """The kind of units that a column of a layer belongs to, and the columns of these, for error messages."""
        return self, slice(0, columns)

    def domain(self) -> str:
        """What `accepts` accepts, in words, for error messages."""
        low, high = self.data_range
        return f"in [{low:g}, {high:g}]" if np.isfinite(high) else "finite"

    def state_domain(self) -> str:
        """The states in words, for error messages."""
        return self.domain() if self.values is None else " or ".join(f"{value:g}" for value in self.values)

    def hint(self, low: float, high: float) -> str:
        """What to do with data from ``low`` to ``high``, which are out of range; empty if nothing is likely."""
        return ""

    def doubt(self, x: np.ndarray) -> str:
        """A warning of data that are in range but hardly meant; empty if there is none."""
        return ""

    def without_labels(self) -> Unit:
        """The type of the columns in front of the labels."""
        return self

    # Networks and exports

    def activation(self) -> tuple[str | Callable[..., Any], Any]:
        """An activation of Keras and factors of the field, a number or ``[columns]``, that together give the mean."""
        return UnitMean(self), 1.0

    def upper_share(self, mean: tf.Tensor) -> tf.Tensor:
        """P(a unit is in its upper state) of units with two values, from the mean; the mean itself of others."""
        if self.values is None or len(self.values) != 2:
            return mean
        low, high = self.values
        return (mean - low) * (1.0 / (high - low))

    def padded(self, columns: int, lanes: int) -> Padded:
        """The layer with units added, up to a multiple of ``lanes`` units."""
        quantum = self.columns * lanes
        width = -(-columns // quantum) * quantum
        padding = self.initial_parameters(width)
        for name, value in self.parameters.items():
            padding[name][: len(value)] = np.asarray(value)
        return Padded(self.bind(padding), width, np.arange(columns))

    def sample_columns(self, field: tf.Tensor, uniform: tf.Tensor) -> tf.Tensor:
        """`sample` with the layer along the first axis, ``[columns, rows]``."""
        if self.elementwise:
            return self.sample(field, uniform)
        return tf.transpose(self.sample(tf.transpose(field), tf.transpose(uniform)))

    # Configuration

    def get_config(self) -> dict[str, Any]:
        return {}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Unit:
        return cls(**config)

    def _settings(self) -> Any:
        """What tells two objects of one class apart: their configurations, or where these are missing, all else."""
        config = self.get_config()
        return repr(config) if config or not set(vars(self)) - {"parameters"} else id(self)

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self._settings() == other._settings()  # type: ignore[attr-defined]

    def __hash__(self) -> int:
        return hash((type(self), self._settings()))

    def __repr__(self) -> str:
        arguments = ", ".join(f"{name}={value!r}" for name, value in self.get_config().items())
        return f"{type(self).__name__}({arguments})"
