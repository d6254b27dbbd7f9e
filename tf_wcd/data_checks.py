"""Checks of the data that users pass. Each error says what was received and what to do."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

from tf_wcd.images import Shape, as_rows
from tf_wcd.tables import check_names, table_of
from tf_wcd.units import Unit

ROWS_AT_A_TIME = 2**14


def check_visible(
    x: Any,
    unit: Unit | None,
    width: int | None,
    what: str = "x",
    dtype: Any = "float32",
    strict: bool = False,
    names: Any = None,
    missing: bool = False,
    shape: Shape = None,
) -> np.ndarray:
    """Visible states as an array ``[rows, width]``.

    Args:
        x: what the user passed.
        unit: type of the visible units; ``None`` for any finite numbers.
        width: number of columns, if known.
        what: name of the argument, for messages.
        dtype: type of the result; ``None`` leaves it.
        strict: accept only states of the unit, not expectations.
        names: names of the columns that a frame must have; ``None`` for any.
        missing: accept NaN, for unknown units, in all columns of a unit or in none.
        shape: shape of an example, where images are accepted besides rows.

    Raises:
        ValueError: for anything but a non-empty matrix of the right width with values that the unit accepts.
    """
    x, own_names = table_of(x, what)
    check_names(own_names, names, what)
    x = as_rows(x, shape)
    check_matrix(x, width, what, shape)
    if unit is not None:
        _check_columns(unit, x.shape[1], own_names)
    if dtype is not None:
        x = x.astype(dtype, copy=False)
    given, unknown = x, None
    # A sum is finite only if all its terms are, and passes over the data without a copy.
    if not np.isfinite(x.sum(dtype="float64")):
        unknown = np.isnan(x) & missing
        if not (np.isfinite(x) | unknown).all():
            raise ValueError(
                f"`{what}` contains {'' if missing else 'NaN or '}infinite values. "
                f"Received: {_first(x, ~(np.isfinite(x) | unknown), own_names)}"
            )
        if unit is not None:
            x = _with_middle(x, unknown, unit, what, own_names)
    if unit is None:
        return given
    if _any_chunk(x, unit.accepts):
        bad = ~_of_array(unit.accepts, x)
        own, columns = unit.part_of(int(np.argwhere(bad)[0, 1]), x.shape[1])
        hint = own.hint(float(x[:, columns].min()), float(x[:, columns].max()))
        raise ValueError(
            f"`{what}` must be {own.domain()} for {own.name!r} visible units{hint}. "
            f"Received: {_first_unit(x, bad, unit, own_names)}"
        )
    if strict and _any_chunk(x, unit.are_states):
        bad = ~_of_array(unit.are_states, x)
        bad = bad if unknown is None else bad & ~unknown
        if bad.any():
            own, _ = unit.part_of(int(np.argwhere(bad)[0, 1]), x.shape[1])
            raise ValueError(
                f"`{what}` must hold states of {own.name!r} units, {own.state_domain()}. "
                f"Received: {_first_unit(x, bad, unit, own_names)}"
            )
    return given


def check_matrix(x: np.ndarray, width: int | None, what: str = "x", shape: Shape = None) -> None:
    """Raises ValueError for anything but a non-empty matrix of numbers with the right width.

    Args:
        x: the data as an array, images as rows.
        width: number of columns, if known.
        what: name of the argument, for messages.
        shape: shape of an example, where images are accepted besides rows.
    """
    if x.dtype.kind not in "biuf":
        raise ValueError(f"`{what}` must be an array of real numbers. Received: dtype {x.dtype}")
    if x.ndim != 2:
        raise ValueError(
            f"`{what}` must have the shape [examples, visible units]{_of_images(x, shape)}. Received: shape {x.shape}"
        )
    if not x.shape[0] or not x.shape[1]:
        raise ValueError(f"`{what}` is empty: at least one example is needed. Received: shape {x.shape}")
    if width is not None and x.shape[1] != width:
        raise ValueError(f"`{what}` must have {width} columns, one for each visible unit. Received: shape {x.shape}")


def check_start(initial: Any, shape: Shape, check: Callable[..., np.ndarray]) -> np.ndarray:
    """Data that chains start from, ``[n, columns]``: one example or several, as rows or in their shape.

    Args:
        initial: what the user passed.
        shape: shape of an example, where the model takes images.
        check: the model's check of its data, ``check(x, name of the argument)``.
    """
    table = table_of(initial, "initial")
    return check(table._replace(values=np.atleast_2d(as_rows(table.values, shape, one=True))), "initial")


def _check_columns(unit: Unit, columns: int, names: Any) -> None:
    """Raises ValueError where units cannot have so many columns; says what these are, where they have names."""
    try:
        unit.check_columns(columns)
    except ValueError as error:
        if names is None:
            raise
        raise ValueError(f"{error}: {', '.join(names)}") from None


def _of_images(x: np.ndarray, shape: Shape) -> str:
    """What to do with data of several axes, for messages."""
    if shape is not None:
        return f" or [examples, {', '.join(map(str, shape))}]"
    if x.ndim < 3:
        return ""
    return f"; reshape images to rows, by x.reshape(len(x), -1), or make the layer with visible_shape={x.shape[1:]}"


def _with_middle(x: np.ndarray, unknown: np.ndarray, unit: Unit, what: str, names: Any) -> np.ndarray:
    """The data with unknown units in the middle of their range, which every check lets pass."""
    first = unit.describe_columns(x.shape[1]).first
    in_part = unknown != unknown[:, first]
    if in_part.any():
        raise ValueError(
            f"`{what}` must be unknown (NaN) in all columns of a unit or in none. "
            f"Received: a unit that is unknown in part, {_first(x, in_part, names)}"
        )
    return np.where(unknown, unit.midpoints(x.shape[1]).astype(x.dtype), x)


def known_means(x: np.ndarray, unit: Unit, weights: np.ndarray | None = None) -> np.ndarray:
    """Means of the columns over their known entries, float64; of a column without any, the middle of its range.

    Args:
        x: ``[rows, columns]``, with NaN for unknown entries.
        unit: type of the visible units.
        weights: ``[rows]``; equal if not given.
    """
    if weights is None and not np.isnan(x).any():
        return x.mean(axis=0, dtype="float64")
    known = ~np.isnan(x)
    weights = np.ones(len(x)) if weights is None else weights
    total, of_known = weights @ known, weights @ np.where(known, x, 0.0)
    return np.where(total > 0, of_known / np.where(total > 0, total, 1.0), unit.midpoints(x.shape[1]))


def warn_of_doubt(x: np.ndarray, unit: Unit) -> None:
    """Warns of data that the unit accepts but that are hardly meant. Infinite ones, which get an error, it leaves."""
    total = x.sum(dtype="float64") if x.dtype.kind == "f" else 0.0
    if not np.isfinite(total) and np.isinf(x).any():
        return
    if np.isnan(total):
        x = x[:: -(-len(x) // ROWS_AT_A_TIME)]
        some = ~np.isnan(x).all(axis=0)
        medians = unit.midpoints(x.shape[1])
        medians[some] = np.nanquantile(x[:, some], 0.5, axis=0, method="lower")  # values that occur
        x = np.where(np.isnan(x), medians.astype(x.dtype), x)
    if text := unit.doubt(x):
        warnings.warn(text, stacklevel=3)


def check_sample_weight(weights: Any, rows: int, what: str = "sample_weight") -> np.ndarray:
    """Non-negative weights, float64 ``[rows]``, with a positive sum; ``what`` is their name, for messages."""
    weights = np.asarray(weights, "float64")
    if weights.shape == (rows, 1):
        weights = weights[:, 0]
    if weights.shape != (rows,):
        raise ValueError(
            f"`{what}` must have one entry for each of the {rows} examples. Received: shape {weights.shape}"
        )
    if not np.isfinite(weights).all():
        bad = ~np.isfinite(weights)
        raise ValueError(f"`{what}` contains NaN or infinite values. Received: {_first(weights, bad)}")
    if (weights < 0).any():
        raise ValueError(f"`{what}` must not be negative. Received: {_first(weights, weights < 0)}")
    if not weights.sum() > 0:
        raise ValueError(f"`{what}` is zero for every example: at least one must be positive. Received: {rows} zeros")
    return weights


def _of_array(check: Callable[[tf.Tensor], tf.Tensor], x: np.ndarray) -> np.ndarray:
    return check(tf.constant(x if np.issubdtype(x.dtype, np.floating) else x.astype("float32"))).numpy()


def _any_chunk(x: np.ndarray, check: Callable[[tf.Tensor], tf.Tensor]) -> bool:
    """Whether the check fails anywhere, chunk by chunk: no array of the size of the data is made."""
    starts = range(0, len(x), ROWS_AT_A_TIME)
    return not all(_of_array(check, x[start : start + ROWS_AT_A_TIME]).all() for start in starts)


def _first_unit(values: np.ndarray, bad: np.ndarray, unit: Unit, names: Any = None) -> str:
    """The first bad entry and where it is; of a unit of several columns, all of them."""
    first = unit.describe_columns(values.shape[1]).first
    rows, columns = np.nonzero(bad)
    own = np.flatnonzero(first == first[columns[0]])
    if len(own) == 1:
        return _first(values, bad, names)
    low, high = int(own[0]), int(own[-1])
    where = "" if names is None else f", columns {names[low]!r} to {names[high]!r}"
    count = np.unique(rows * values.shape[1] + first[columns]).size
    return f"{values[rows[0], own].tolist()} at [{rows[0]}, {low}:{high + 1}]{where} ({count} such units)"


def _first(values: np.ndarray, bad: np.ndarray, names: Any = None) -> str:
    """The first bad entry and where it is."""
    where = tuple(int(i) for i in np.argwhere(bad)[0])
    column = "" if names is None else f", column {names[where[1]]!r}"
    return f"{values[where]} at {list(where)}{column} ({int(bad.sum())} such values)"
