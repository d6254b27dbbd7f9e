"""The start of chains in which the label is held: a state of that class, where one is known."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

# Copies of other classes' states that a class without any of its own starts from.
MOST_COPIES = 1000


class ClassStates(NamedTuple):
    """States to start from, those of each class behind each other.

    Attributes:
        states: ``[n, units]``, the columns of the label last.
        cumulative: probabilities of the states, summed up to each one, ``[n]``.
        within_class: the same within each class, from 0 to 1, with the number of the class added.
    """

    states: np.ndarray
    cumulative: np.ndarray
    within_class: np.ndarray


def class_states(states: np.ndarray, cumulative: np.ndarray, classes: int) -> ClassStates:
    """Sorts states by their labels, and gives those to classes that have none.

    A class without any starts from states of the others, with its own label: they have no share in `cumulative`.

    Args:
        states: ``[n, units]``, the last ``classes`` columns one-hot.
        cumulative: probabilities of the states, summed up to each one.
        classes: number of labels.

    Example:

    >>> found = class_states(np.array([[7.0, 0, 1], [8.0, 1, 0], [9.0, 0, 1]]), np.array([0.5, 0.75, 1.0]), 2)
    >>> found.states[:, 0].tolist()
    [8.0, 7.0, 9.0]
    >>> found.within_class.round(3).tolist()
    [1.0, 1.667, 2.0]
    """
    shares = np.diff(cumulative, prepend=0.0)
    labels = states[:, -classes:].argmax(1)
    parts, overall, within = [], [], []
    for label in range(classes):
        own, share = states[labels == label], shares[labels == label]
        if len(own) and share.sum() > 0:
            weights = share
        else:
            own, share, weights = _borrowed(states, shares, label, classes)
        parts.append(own)
        overall.append(share)
        sums = np.cumsum(weights / weights.sum())
        sums[np.flatnonzero(weights)[-1] :] = 1.0  # not a rounding error less, or another class would follow
        within.append(label + sums)
    total = np.cumsum(np.concatenate(overall))
    return ClassStates(np.concatenate(parts), total / total[-1], np.concatenate(within))


def _borrowed(
    states: np.ndarray, shares: np.ndarray, label: int, classes: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """States of other classes with another label, their share in the whole, which is none, and among each other."""
    chosen = np.linspace(0, len(states) - 1, min(len(states), MOST_COPIES)).astype(int)
    copies = states[chosen].copy()
    copies[:, -classes:] = np.eye(classes)[label]
    weights = shares[chosen] if shares[chosen].sum() > 0 else np.ones(len(chosen))
    return copies, np.zeros(len(chosen)), weights
