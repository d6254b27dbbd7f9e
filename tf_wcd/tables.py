"""What users pass as data, as arrays: frames, sparse matrices, tensors, lists. Data enter the library here."""

from __future__ import annotations

import sys
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf


class Table(NamedTuple):
    """Data as an array.

    Attributes:
        values: the array, in its own type.
        names: a name for each column of a frame; ``None`` of other data.
    """

    values: np.ndarray
    names: tuple[str, ...] | None


def is_table(x: Any) -> bool:
    """Whether data are a frame or a sparse matrix, which TensorFlow does not take as they are."""
    return _is_frame(x) or is_sparse(x) or isinstance(x, tf.SparseTensor)


def table_of(x: Any, what: str = "x") -> Table:
    """Data of any kind as an array, with the names of its columns where they have some.

    A categorical column of a frame becomes one column for each category, one of which is 1: the columns of a
    `tf_wcd.units.Potts` unit. Missing entries, and masked ones of an array, are NaN.

    Args:
        x: what the user passed.
        what: name of the argument, for messages.

    Raises:
        ValueError: for a column that does not hold numbers, with its name.

    Example:

    >>> table_of([[0, 1], [1, 1]]).values.shape
    (2, 2)
    """
    if isinstance(x, Table):
        return x
    if _is_frame(x):
        return _of_frame(x, what)
    if is_sparse(x):
        return Table(x.toarray(), None)
    if isinstance(x, np.ma.MaskedArray):
        return Table(_with_nan(x), None)
    try:
        return Table(np.asarray(tf.sparse.to_dense(x) if isinstance(x, tf.SparseTensor) else x), None)
    except ValueError as error:  # of lists, which NumPy cannot make an array of
        raise ValueError(f"`{what}` must be an array of numbers. Received: {type(x).__name__}; {error}") from None


def _with_nan(x: np.ma.MaskedArray) -> np.ndarray:
    """The values of a masked array, with NaN for those that are masked."""
    if not np.ma.getmaskarray(x).any():
        return np.asarray(x)
    return np.ma.filled(x.astype(np.result_type(x.dtype, "float32")), np.nan)


def array_of(x: Any, what: str = "x", names: Any = None) -> np.ndarray:
    """The values of `table_of`; where ``names`` are given, a frame must have its columns in this order."""
    table = table_of(x, what)
    check_names(table.names, names, what)
    return table.values


def check_names(names: Any, expected: Any, what: str = "x") -> None:
    """Raises ValueError where columns have other names than those of the training data, or another order."""
    if names is None or expected is None or list(names) == list(expected):
        return
    if len(names) != len(expected):
        missing = [name for name in expected if name not in names]
        extra = [name for name in names if name not in expected]
        raise ValueError(
            f"`{what}` must have the {len(expected)} columns of the training data. "
            f"Received: {len(names)} columns, without {missing}, and with {extra}"
        )
    place = next(i for i, (own, other) in enumerate(zip(names, expected, strict=True)) if own != other)
    raise ValueError(
        f"`{what}` must have the columns of the training data, in the same order. "
        f"Received: {names[place]!r} in the place of {expected[place]!r}, column {place}"
    )


def is_sparse(x: Any) -> bool:
    """Whether data are a matrix or an array of `scipy.sparse`, which need not be installed."""
    sparse = sys.modules.get("scipy.sparse")  # whoever has made one has imported it
    return sparse is not None and sparse.issparse(x)


def _is_frame(x: Any) -> bool:
    return all(hasattr(x, name) for name in ("columns", "dtypes", "iloc", "to_numpy"))


def _of_frame(frame: Any, what: str) -> Table:
    parts, names = [], []
    for number, name in enumerate(frame.columns):
        column = frame.iloc[:, number]
        categories = getattr(column.dtype, "categories", None)
        if categories is None:
            parts.append(_numbers(column, name, what)[:, None])
            names.append(str(name))
        else:
            codes = column.cat.codes.to_numpy()
            one_hot = (codes[:, None] == np.arange(len(categories))).astype("float32")
            parts.append(np.where(codes[:, None] < 0, np.float32(np.nan), one_hot))
            names.extend(f"{name}={category}" for category in categories)
    if not parts:
        return Table(np.zeros(frame.shape), ())
    return Table(np.concatenate(parts, axis=1), tuple(names))


def _numbers(column: Any, name: Any, what: str) -> np.ndarray:
    kind = getattr(column.dtype, "kind", "O")
    if kind not in "biuf":
        numbers = ", or numbers and truth values numeric, by .convert_dtypes()" if column.dtype == object else ""
        raise ValueError(
            f"`{what}` must hold numbers; make a column of words or labels categorical, by .astype('category'){numbers}"
            f". Received: column {name!r} of the type {column.dtype}"
        )
    if isinstance(column.dtype, np.dtype):
        return column.to_numpy()
    return column.to_numpy(dtype="float64", na_value=np.nan)  # a type of pandas that may have missing entries
