"""The columns of a layer: what each of them may hold, and how a layer is padded."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from tf_wcd.units.base import Unit


class Padded(NamedTuple):
    """A layer of units with further columns, whose units have no weights.

    Attributes:
        unit: type of the padded layer, bound to padded parameters.
        width: number of columns, padding included.
        positions: int ``[columns]``, where the layer's columns are among them.
    """

    unit: Unit
    width: int
    positions: np.ndarray


class Columns(NamedTuple):
    """What the columns of a layer may hold; arrays ``[columns]``.

    Attributes:
        low, high: the range of data.
        finite: whether the column belongs to a unit of finitely many states.
        whole: whether its states are integers.
        first: the first column of the unit that it belongs to.
    """

    low: np.ndarray
    high: np.ndarray
    finite: np.ndarray
    whole: np.ndarray
    first: np.ndarray


class Places(NamedTuple):
    """The units of a layer and the states of each; arrays are padded, since units may differ.

    Attributes:
        columns: int ``[units, most columns]``, the columns of each unit; padding repeats its first.
        own: float ``[units, most columns]``, 1 where a column is the unit's, and 0 in the padding.
        states: float ``[units, most states, most columns]``, zero in the padding.
        energies: float ``[units, most states]``, the base energy of each state, infinite in the padding.
    """

    columns: np.ndarray
    own: np.ndarray
    states: np.ndarray
    energies: np.ndarray

    @classmethod
    def joined(cls, parts: list[Places], starts: list[int]) -> Places:
        """The places of layers side by side, whose columns begin at ``starts``."""
        most_states, most_columns = (max(part.states.shape[axis] for part in parts) for axis in (1, 2))

        def padded(part: Places, start: int) -> Places:
            wider, longer = most_columns - part.states.shape[2], most_states - part.states.shape[1]
            return Places(
                np.pad(part.columns + start, [(0, 0), (0, wider)], mode="edge"),
                np.pad(part.own, [(0, 0), (0, wider)]),
                np.pad(part.states, [(0, 0), (0, longer), (0, wider)]),
                np.pad(part.energies, [(0, 0), (0, longer)], constant_values=np.inf),
            )

        return cls(*(np.concatenate(a) for a in zip(*map(padded, parts, starts), strict=True)))
