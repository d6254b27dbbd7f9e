"""Conversion of grey levels to values of binary units."""

from __future__ import annotations

import numpy as np

METHODS = ("probabilities", "threshold", "stochastic", None)


def binarize(x: np.ndarray, method: str | None, white: int = 255, rng: np.random.Generator | None = None) -> np.ndarray:
    """Converts grey levels to values of binary units.

    Args:
        x: uint8, 0 to ``white``.
        method: ``"probabilities"`` for x / white, in [0, 1]; ``"threshold"`` for 1 if x is above half of white, else 0;
            ``"stochastic"`` for 1 with the probability x / white, else 0; ``None`` for ``x`` itself.
        white: the largest grey level.
        rng: generator of the random numbers; a new one if not given.

    Returns:
        A float32 array, or ``x`` itself.

    Example:

    >>> binarize(np.array([0, 127, 128, 255], "uint8"), "threshold").tolist()
    [0.0, 0.0, 1.0, 1.0]
    """
    if method is None:
        return x
    if method == "probabilities":
        return x.astype("float32") / np.float32(white)
    if method == "threshold":
        return (x > white // 2).astype("float32")
    if method == "stochastic":
        # A random integer below white is smaller than x with the probability x / white, exactly.
        rng = np.random.default_rng() if rng is None else rng
        return (rng.integers(white, size=x.shape, dtype="uint8") < x).astype("float32")
    raise ValueError(f"`binarize` must be one of {list(METHODS)}. Received: binarize={method!r}")
