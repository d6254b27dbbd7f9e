"""From grey levels to what binary units can be."""

from __future__ import annotations

import numpy as np

METHODS = ("probabilities", "threshold", "stochastic", None)


def binarize(x: np.ndarray, method: str | None, white: int = 255, rng: np.random.Generator | None = None) -> np.ndarray:
    """Grey levels made ready for an RBM.

    Args:
        x: uint8, 0 to ``white``.
        method: ``"probabilities"`` for the share of white, in [0, 1]; ``"threshold"`` for 1 from half of white on and
            0 below; ``"stochastic"`` for 1 with the share of white as its chance; ``None`` for ``x`` as it is.
        white: the largest grey level.
        rng: where the chances come from.

    Returns:
        float32, or ``x`` itself.

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
        # A whole number below white is smaller than x with the chance x / white, exactly.
        rng = np.random.default_rng() if rng is None else rng
        return (rng.integers(white, size=x.shape, dtype="uint8") < x).astype("float32")
    raise ValueError(f"`binarize` must be one of {list(METHODS)}. Received: binarize={method!r}")
