"""Conditions that come with the data of a conditional RBM."""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf

from tf_wcd.data_checks import check_visible
from tf_wcd.tables import table_of


def pair_of(x: Any, conditions: int) -> tuple[Any, Any]:
    """The data and their condition, of what was passed as ``[x, condition]``."""
    if isinstance(x, list | tuple) and len(x) == 2:
        return x[0], x[1]
    what = f"{type(x).__name__} of length {len(x)}" if isinstance(x, list | tuple) else type(x).__name__
    raise ValueError(
        f"The layer has {conditions} condition{'s' * (conditions > 1)}: pass `[x, condition]`, two arrays of as many "
        f"rows. Received: {what}"
    )


def check_condition(
    condition: Any,
    conditions: int,
    dtype: str,
    rows: int | None = None,
    what: str = "condition",
    names: Any = None,
    one_for_all: bool = False,
) -> np.ndarray:
    """Conditions as an array ``[rows, conditions]``.

    Args:
        condition: what the user passed; where there is one condition, ``[rows]``, too.
        conditions: number of columns.
        dtype: type of the result.
        rows: number of rows; ``None`` for any.
        what: name of the argument, for messages.
        names: names of the columns that a frame must have; ``None`` for any.
        one_for_all: whether one row, or ``[conditions]`` numbers, may stand for all rows.

    Example:

    >>> check_condition([3, 5], conditions=1, dtype="float32").tolist()
    [[3.0], [5.0]]
    """
    if condition is None:
        raise ValueError(f"The layer has {conditions} condition{'s' * (conditions > 1)}: pass `{what}`. Received: None")
    table = table_of(condition, what)
    values = table.values
    if values.ndim == 1 and one_for_all and len(values) == conditions:
        values = values[None]
    elif values.ndim == 1 and conditions == 1:
        values = values[:, None]
    if values.ndim != 2 or values.shape[1] != conditions:
        one = f", or [{conditions}] for all rows" if one_for_all else ""
        raise ValueError(
            f"`{what}` must have the shape [examples, {conditions}], a column for each condition{one}. "
            f"Received: shape {table.values.shape}"
        )
    values = check_visible(table._replace(values=values), None, conditions, what, dtype, names=names)
    if rows is not None and len(values) != rows and not (one_for_all and len(values) == 1):
        one = "one row, or " if one_for_all else ""
        raise ValueError(
            f"`{what}` must have {one}one row for each of the {rows} examples. Received: shape {values.shape}"
        )
    return values


def condition_tensor(condition: Any, conditions: int, dtype: str, one_for_all: bool = False) -> tf.Tensor:
    """`check_condition` of a batch of a data set, or of a tensor in a graph: the shape alone."""
    condition = tf.cast(tf.convert_to_tensor(condition), dtype)
    if condition.shape.rank == 1:
        condition = condition[None] if one_for_all and condition.shape[0] == conditions else condition[:, None]
    if condition.shape.rank != 2 or condition.shape[1] not in (None, conditions):
        raise ValueError(
            f"`condition` must have the shape [examples, {conditions}], a column for each condition. "
            f"Received: shape {condition.shape}"
        )
    return tf.ensure_shape(condition, [None, conditions])
