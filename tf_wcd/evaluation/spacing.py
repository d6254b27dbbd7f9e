"""Temperatures where they are needed: closer together where a run along others has dissipated more.

Along a path of K steps from independent units to the model, forward weights gain less on average, and reverse weights
lose more, than log Z changes. The difference of the two is what the step has dissipated, and its sum is the bias of the
two directions together. Where n temperatures of a part of the path dissipate d, other numbers of them dissipate about
d n / n'. So the sum is least, for as many temperatures in all, where each part has a number proportional to
sqrt(d n): the dissipation is then the same everywhere (Gelman and Meng 1998 derive it for paths in equilibrium).
"""

from __future__ import annotations

import numpy as np

PARTS = 20  # of the path, each with as many temperatures: more of them would follow the noise of the chains
LEAST = 0.02  # of the mean dissipation of a part: none may become empty


def respaced(temperatures: np.ndarray, dissipated: np.ndarray, count: int) -> np.ndarray:
    """Inverse temperatures from 0 to 1, closer together where steps have dissipated more.

    Args:
        temperatures: ``[K + 1]`` inverse temperatures of a run, increasing from 0 to 1.
        dissipated: ``[K]`` nats of each of its steps; some may be negative by chance.
        count: number of temperatures wanted.

    Example:

    >>> even = np.linspace(0.0, 1.0, 201)
    >>> respaced(even, np.where(even[1:] > 0.75, 3.0, 0.0), 5).round(2).tolist()
    [0.0, 0.76, 0.84, 0.92, 1.0]
    """
    steps = len(temperatures) - 1
    edges = np.unique(np.linspace(0, steps, min(PARTS, steps) + 1).round().astype(int))
    sums = np.add.reduceat(dissipated, edges[:-1])
    # What chance makes negative is shared with its neighbours before it is cut off.
    sums = np.convolve(np.pad(sums, 1, mode="edge"), [0.25, 0.5, 0.25], mode="valid")
    mean = max(float(sums.mean()), 0.0)
    share = np.sqrt(np.maximum(sums, LEAST * mean) * np.diff(edges)) if mean > 0 else np.diff(edges).astype(float)
    reached = np.concatenate([[0.0], np.cumsum(share)]) / share.sum()
    return np.interp(np.linspace(0.0, 1.0, count), reached, temperatures[edges])
