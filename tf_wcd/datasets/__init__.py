"""Data sets: the paper's small problems, whose distributions are known exactly."""

import numpy as np

from tf_wcd.datasets.small import SMALL, load_small

__all__ = ["SMALL", "load"]


def load(name: str) -> tuple[np.ndarray, np.ndarray]:
    """Loads a data set.

    Args:
        name: ``"BS09"``, ``"BS16"``, ``"LSE11"``, ``"LSE15"``, ``"P08"``, ``"P10"``, ``"Int12"``, ``"Mult3G"`` or
            ``"Mult3D"``.

    Returns:
        ``(states, probabilities)``: the states with non-zero probability, 0/1 float32 ``[N, units]``, and their
        probabilities, float64 ``[N]``. For spin units use ``2 * states - 1``.

    Example:

    >>> states, probabilities = load("BS09")
    >>> states.shape, round(float(probabilities.sum()), 12)
    ((14, 9), 1.0)
    """
    if name not in SMALL:
        raise ValueError(f"`name` must be one of {sorted(SMALL)}. Received: {name!r}")
    return load_small(name)
