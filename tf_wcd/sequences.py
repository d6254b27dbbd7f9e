"""Sequences: a conditional RBM of each frame given the ones before it (Taylor, Hinton and Roweis 2007).

An `RBMLayer` with ``conditions = order * columns`` learns P(frame | the last ``order`` frames): `history` makes its
data of sequences, and `generate` goes on from given frames, one sample after the other.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from tf_wcd.arguments import check_integer, check_seed
from tf_wcd.layer import RBMLayer
from tf_wcd.tables import array_of, table_of

__all__ = ["generate", "history"]


def history(sequences: Iterable[Any], order: int) -> tuple[np.ndarray, np.ndarray]:
    """Every frame that has enough others before it, and these others as its condition.

    Args:
        sequences: arrays, or frames of the same columns, ``[time, columns]``, of any lengths above ``order``.
        order: number of frames before each one.

    Returns:
        ``x``, ``[n, columns]``, and ``condition``, ``[n, order * columns]``: the frames before, the oldest first.
        Frames of different sequences never meet.

    Example:

    >>> x, condition = history([[[1], [2], [3], [4]], [[7], [8], [9]]], order=2)
    >>> x.ravel().tolist(), condition.tolist()
    ([3, 4, 9], [[1, 2], [2, 3], [7, 8]])
    """
    order = check_integer("order", order)
    tables = [table_of(sequence, f"sequence {number}") for number, sequence in enumerate(sequences)]
    arrays = [table.values for table in tables]
    if not arrays:
        raise ValueError("`sequences` is empty: at least one sequence is needed. Received: 0 sequences")
    columns = arrays[0].shape[-1] if arrays[0].ndim == 2 else None
    for number, array in enumerate(arrays):
        if array.ndim != 2 or array.shape[1] != columns:
            width = "columns" if columns is None else columns
            raise ValueError(
                f"Each of the `sequences` must have the shape [time, {width}]; pass a single one as [sequence]. "
                f"Received: shape {array.shape} of sequence {number}"
            )
        if tables[number].names != tables[0].names:
            raise ValueError(
                f"All `sequences` must have the same columns, {tables[0].names or 'without names'}. "
                f"Received: {tables[number].names or 'no names'} in sequence {number}"
            )
        if len(array) <= order:
            raise ValueError(
                f"Each of the `sequences` must have more than {order} frames, the order. "
                f"Received: {len(array)} frames in sequence {number}"
            )
    x = np.concatenate([array[order:] for array in arrays])
    before = [np.concatenate([array[i : len(array) - order + i] for i in range(order)], axis=1) for array in arrays]
    return x, np.concatenate(before)


def generate(rbm: RBMLayer, past: Any, steps: int, gibbs_steps: int = 100, seed: int | None = None) -> np.ndarray:
    """Goes on from given frames: each new one is a sample given those before it.

    The chain of each frame starts from the frame before it.

    Args:
        rbm: a layer with ``conditions``, trained on the data of `history`.
        past: frames to go on from, ``[time, columns]``, or ``[sequences, time, columns]`` for several at once; at least
            as many as the order.
        steps: number of frames to add.
        gibbs_steps: Gibbs steps of each frame.
        seed: an integer for reproducible frames; if not given, each call draws new ones.

    Returns:
        ``[steps, columns]``, or ``[sequences, steps, columns]``: the new frames.

    Example:

    >>> rbm = RBMLayer(3, conditions=4, negative_phase="cd", seed=0)
    >>> rbm.build((None, 2))
    >>> generate(rbm, [[0, 1], [1, 1]], steps=5, seed=0).shape
    (5, 2)
    """
    rbm.require_built()
    steps, columns = check_integer("steps", steps), rbm.num_visible
    order, rest = divmod(rbm.conditions, columns)
    if rest or not order:
        raise ValueError(
            f"The conditions of a layer that goes on with sequences are frames of {columns} columns. "
            f"Received: a layer with conditions={rbm.conditions or None}"
        )
    frames = array_of(past, "past", names=rbm.feature_names_in_)
    if frames.ndim not in (2, 3) or frames.shape[-1] != columns or frames.shape[-2] < order:
        raise ValueError(
            f"`past` must have the shape [time, {columns}] or [sequences, time, {columns}], with at least {order} "
            f"frames. Received: shape {frames.shape}"
        )
    several = frames.reshape(-1, *frames.shape[-2:])[:, -order:].astype(rbm.variable_dtype)
    seeds: list[int | None] = [None] * steps
    if (seed := check_seed(seed)) is not None:
        seeds = np.random.default_rng(seed % 2**64).integers(2**62, size=steps).tolist()
    made = []
    for own in seeds:
        condition = several.reshape(len(several), -1)
        frame = rbm.sample(len(several), gibbs_steps, initial=several[:, -1], condition=condition, seed=own)
        made.append(np.asarray(frame).reshape(len(several), -1))
        several = np.concatenate([several[:, 1:], made[-1][:, None]], axis=1)
    result = np.stack(made, axis=1)
    return result if frames.ndim == 3 else result[0]
