"""Several kinds of units side by side."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tf_wcd.arguments import check_integer
from tf_wcd.units.base import Unit
from tf_wcd.units.columns import Columns, Padded, Places
from tf_wcd.units.names import get, serialize

Part = tuple[str | Unit, int | None]


@keras.saving.register_keras_serializable(package="tf_wcd")
class Mixed(Unit):
    """Units of several kinds side by side, each with a number of columns.

    Args:
        parts: pairs of a unit type (or its name) and its number of columns. One of the numbers may be ``None``: that
            part takes the columns that the others leave.

    Example:

    >>> unit = Mixed([("bernoulli", 2), ("spin", 1)])
    >>> unit.mean(tf.zeros([1, 3])).numpy().tolist()
    [[0.5, 0.5, 0.0]]
    """

    name = "mixed"

    def __init__(self, parts: Sequence[Part]) -> None:
        if isinstance(parts, str) or not isinstance(parts, Sequence) or not parts:
            raise ValueError(f"`parts` must be a list of pairs (unit, columns). Received: parts={parts!r}")
        self.units = tuple(get(_unit_of(unit)) for unit, _ in parts)
        self.widths = tuple(None if width is None else check_integer("columns", width) for _, width in parts)
        if self.widths.count(None) > 1:
            raise ValueError(f"At most one part may leave its number of columns open. Received: {self.widths}")
        for unit, width in zip(self.units, self.widths, strict=True):
            if width is not None:
                unit.check_columns(width)

    # Splitting and joining

    def sizes(self, columns: int) -> list[int]:
        """Columns of each part of a layer."""
        left = columns - sum(width for width in self.widths if width is not None)
        return [left if width is None else width for width in self.widths]

    def _split(self, values: Any, axis: int = -1) -> list[Any]:
        sizes = self.sizes(values.shape[axis])
        if isinstance(values, np.ndarray):
            return np.split(values, np.cumsum(sizes)[:-1], axis=axis)
        return tf.split(values, sizes, axis=axis)

    def _map(self, method: str, *arguments: tf.Tensor) -> list[Any]:
        """The results of a method of each part, with its columns of the arguments."""
        pieces = zip(*(self._split(argument) for argument in arguments), strict=True)
        return [getattr(unit, method)(*own) for unit, own in zip(self.units, pieces, strict=True)]

    @property
    def elementwise(self) -> bool:
        return False

    def check_columns(self, columns: int) -> None:
        known = sum(1 if width is None else width for width in self.widths)
        if columns < known or (None not in self.widths and columns != known):
            least = "at least " if None in self.widths else ""
            raise ValueError(f"The parts of {self!r} take {least}{known} columns. Received: {columns} columns")
        for unit, size in zip(self.units, self.sizes(columns), strict=True):
            unit.check_columns(size)

    # States

    @property
    def finite(self) -> bool:
        return all(unit.finite for unit in self.units)

    @property
    def data_range(self) -> tuple[float, float]:
        ranges = [unit.data_range for unit in self.units]
        return min(low for low, _ in ranges), max(high for _, high in ranges)

    def midpoints(self, columns: int) -> np.ndarray:
        parts = zip(self.units, self.sizes(columns), strict=True)
        return np.concatenate([unit.midpoints(size) for unit, size in parts])

    def describe_columns(self, columns: int) -> Columns:
        sizes = self.sizes(columns)
        parts = [unit.describe_columns(size) for unit, size in zip(self.units, sizes, strict=True)]
        starts = itertools.accumulate([0, *sizes[:-1]])
        parts = [part._replace(first=part.first + start) for part, start in zip(parts, starts, strict=True)]
        return Columns(*(np.concatenate(values) for values in zip(*parts, strict=True)))

    def bits(self, columns: int) -> float:
        return math.fsum(unit.bits(size) for unit, size in zip(self.units, self.sizes(columns), strict=True))

    def num_states(self, columns: int) -> int:
        return math.prod(unit.num_states(size) for unit, size in zip(self.units, self.sizes(columns), strict=True))

    def states_at(self, indices: tf.Tensor, columns: int, dtype: Any = "float32") -> tf.Tensor:
        parts = []
        for unit, size in zip(reversed(self.units), reversed(self.sizes(columns)), strict=True):
            count = unit.num_states(size)
            parts.append(unit.states_at(indices % count, size, dtype))
            indices = indices // count
        return tf.concat(parts[::-1], axis=-1)

    def state_counts(self, columns: int) -> np.ndarray:
        sizes = self.sizes(columns)
        return np.concatenate([unit.state_counts(size) for unit, size in zip(self.units, sizes, strict=True)])

    def state_numbers(self, x: tf.Tensor) -> tf.Tensor:
        return tf.concat(self._map("state_numbers", x), axis=-1)

    def numbered_states(self, numbers: tf.Tensor, columns: int, dtype: Any = "float32") -> tf.Tensor:
        sizes = self.sizes(columns)
        counts = [len(unit.state_counts(size)) for unit, size in zip(self.units, sizes, strict=True)]
        parts = zip(self.units, tf.split(numbers, counts, axis=-1), sizes, strict=True)
        return tf.concat([unit.numbered_states(own, size, dtype) for unit, own, size in parts], axis=-1)

    def places(self, columns: int) -> Places:
        sizes = self.sizes(columns)
        starts = list(itertools.accumulate([0, *sizes[:-1]]))
        return Places.joined([unit.places(size) for unit, size in zip(self.units, sizes, strict=True)], starts)

    # The conditional distribution

    def cumulant(self, field: tf.Tensor) -> tf.Tensor:
        return _joined(self._map("cumulant", field))

    def total_cumulant(self, field: tf.Tensor) -> tf.Tensor:
        return tf.add_n(self._map("total_cumulant", field))

    def mean(self, field: tf.Tensor) -> tf.Tensor:
        return _joined(self._map("mean", field))

    def variances(self, field: tf.Tensor) -> tf.Tensor:
        return _joined(self._map("variances", field))

    def field_of(self, mean: tf.Tensor) -> tf.Tensor:
        return _joined(self._map("field_of", mean))

    def bias_of_means(self, means: np.ndarray) -> tf.Tensor:
        return _joined(self._map("bias_of_means", means))

    def sample(self, field: tf.Tensor, uniform: tf.Tensor) -> tf.Tensor:
        return _joined(self._map("sample", field, uniform))

    def sample_columns(self, field: tf.Tensor, uniform: tf.Tensor) -> tf.Tensor:
        parts = zip(self.units, self._split(field, 0), self._split(uniform, 0), strict=True)
        return tf.concat([unit.sample_columns(own, numbers) for unit, own, numbers in parts], axis=0)

    def base_energy(self, states: tf.Tensor) -> tf.Tensor | None:
        energies = self._map("base_energy", states)
        known = [energy for energy in energies if energy is not None]
        return tf.concat(known, axis=-1) if known else None

    def entropy(self, field: tf.Tensor) -> tf.Tensor:
        return tf.add_n(self._map("entropy", field))

    def tails(self, columns: int) -> tuple[np.ndarray, np.ndarray]:
        parts = [unit.tails(size) for unit, size in zip(self.units, self.sizes(columns), strict=True)]
        leading = np.broadcast_shapes(*(end.shape[:-1] for ends in parts for end in ends))
        lower, upper = (
            np.concatenate([np.broadcast_to(end, [*leading, end.shape[-1]]) for end in ends], axis=-1)
            for ends in zip(*parts, strict=True)
        )
        return lower, upper

    # Learned parameters: those of part i are called "i_name"

    def initial_parameters(self, columns: int) -> dict[str, np.ndarray]:
        return {
            f"{number}_{name}": value
            for number, (unit, size) in enumerate(zip(self.units, self.sizes(columns), strict=True))
            for name, value in unit.initial_parameters(size).items()
        }

    def bind(self, parameters: Any) -> Mixed:
        bound = super().bind(parameters)
        if parameters:
            own: list[dict[str, tf.Tensor]] = [{} for _ in self.units]
            for name, value in parameters.items():
                number, _, plain = name.partition("_")
                own[int(number)][plain] = value
            bound.units = tuple(unit.bind(values) for unit, values in zip(self.units, own, strict=True))
        return bound

    # Data

    def accepts(self, x: tf.Tensor) -> tf.Tensor:
        return tf.concat(self._map("accepts", x), axis=-1)

    def are_states(self, x: tf.Tensor) -> tf.Tensor:
        return tf.concat(self._map("are_states", x), axis=-1)

    def part_of(self, column: int, columns: int) -> tuple[Unit, slice]:
        ends = list(itertools.accumulate(self.sizes(columns)))
        number = next(i for i, end in enumerate(ends) if column < end)
        return self.units[number], slice(ends[number - 1] if number else 0, ends[number])

    def _in_words(self, describe: Callable[[Unit], str]) -> str:
        words = []
        ends = list(itertools.accumulate(width or 0 for width in self.widths))
        for unit, width, end in zip(self.units, self.widths, ends, strict=True):
            if None not in self.widths:
                where = f"in columns {end - width} to {end - 1}" if width and width > 1 else f"in column {end - 1}"
            else:
                where = "in the other columns" if width is None else f"in the {width} columns of {unit.name!r} units"
            words.append(f"{describe(unit)} {where}")
        return ", ".join(words)

    def domain(self) -> str:
        return self._in_words(lambda unit: unit.domain())

    def state_domain(self) -> str:
        return self._in_words(lambda unit: unit.state_domain())

    # Networks and exports

    def doubt(self, x: np.ndarray) -> str:
        return " ".join(text for unit, own in zip(self.units, self._split(x), strict=True) if (text := unit.doubt(own)))

    def upper_share(self, mean: tf.Tensor) -> tf.Tensor:
        return tf.concat(self._map("upper_share", mean), axis=-1)

    def padded(self, columns: int, lanes: int) -> Padded:
        parts = [unit.padded(size, lanes) for unit, size in zip(self.units, self.sizes(columns), strict=True)]
        starts = itertools.accumulate([0, *(part.width for part in parts[:-1])])
        positions = np.concatenate([start + part.positions for start, part in zip(starts, parts, strict=True)])
        return Padded(Mixed([(part.unit, part.width) for part in parts]), sum(part.width for part in parts), positions)

    def __repr__(self) -> str:
        parts = ", ".join(f"({unit!r}, {width})" for unit, width in zip(self.units, self.widths, strict=True))
        return f"{type(self).__name__}([{parts}])"

    def get_config(self) -> dict[str, Any]:
        return {"parts": [[serialize(unit), width] for unit, width in zip(self.units, self.widths, strict=True)]}


def _joined(parts: list[tf.Tensor]) -> tf.Tensor:
    """Parts side by side; one with learned parameters may have the leading axes of an ensemble that others have not."""
    rank = max(part.shape.rank for part in parts)
    if any(part.shape.rank < rank for part in parts):
        largest = next(part for part in parts if part.shape.rank == rank)
        leading = tf.shape(largest)[:-1]
        parts = [tf.broadcast_to(part, tf.concat([leading, tf.shape(part)[-1:]], axis=0)) for part in parts]
    return tf.concat(parts, axis=-1)


def _unit_of(unit: Any) -> Any:
    return keras.saving.deserialize_keras_object(unit) if isinstance(unit, dict) else unit
