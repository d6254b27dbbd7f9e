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
