"""Estimates from importance weights, each a small pure function of their logarithms.

A weight w has the expectation Z_1 / Z_0 over paths that start in model 0. Paths that run backwards from model 1 have
weights w' with the expectation Z_0 / Z_1. Everything here is in NumPy and float64: there are only as many numbers as
chains.
"""

from __future__ import annotations

import numpy as np


def log_mean_exp(log_weights: np.ndarray) -> float:
    """log of the mean weight: by Jensen's inequality, at most the log of its expectation on average.

    Example:

    >>> round(log_mean_exp(np.log([1.0, 3.0])), 4)  # log 2
    0.6931
    """
    top = log_weights.max()
    return float(top + np.log(np.mean(np.exp(log_weights - top))))


def log_mean_error(log_weights: np.ndarray) -> float:
    """Standard error of `log_mean_exp`: the relative standard error of the mean weight.

    It is never above 1. Near 1 a single chain has nearly all the weight, and the true error can be far larger.
    """
    weights = np.exp(log_weights - log_weights.max())
    return float(weights.std(ddof=1) / (weights.mean() * np.sqrt(len(weights))))


def effective_number(log_weights: np.ndarray) -> float:
    """(sum w)^2 / sum w^2: between 1 and the number of weights.

    Example:

    >>> round(effective_number(np.log([0.5, 0.25, 0.25])), 4)
    2.6667
    """
    weights = np.exp(log_weights - log_weights.max())
    return float(weights.sum() ** 2 / np.square(weights).sum())


def bennett(forward: np.ndarray, reverse: np.ndarray) -> tuple[float, float]:
    """Bennett's acceptance ratio: log(Z_1 / Z_0) from weights of both directions.

    Of all estimates that average functions of the two sets of weights, this one has the least variance when the paths
    are independent. Where each direction alone errs on its own side, it lies between the two.

    Args:
        forward: log weights ``[n]`` of paths from model 0 to model 1.
        reverse: log weights ``[m]`` of paths from model 1 to model 0.

    Returns:
        The estimate and its standard error (the asymptotic one, for independent paths).
    """
    offset = np.log(len(forward) / len(reverse))

    def log_shares(ratio: float) -> tuple[np.ndarray, np.ndarray]:
        """Log of the acceptance of each forward and each reverse path."""
        return -np.logaddexp(0.0, ratio + offset - forward), -np.logaddexp(0.0, -ratio - offset - reverse)

    low, high = min(forward.min(), -reverse.max()), max(forward.max(), -reverse.min())
    low, high = low - abs(offset) - 1.0, high + abs(offset) + 1.0
    # The forward share falls and the reverse share grows with the ratio: halve until no number lies in between.
    while low < (middle := 0.5 * (low + high)) < high:
        ahead, back = log_shares(middle)
        if log_mean_exp(ahead) + offset > log_mean_exp(back):
            low = middle
        else:
            high = middle
    ratio = 0.5 * (low + high)
    variance = sum(1.0 / effective_number(a) - 1.0 / len(a) for a in log_shares(ratio))
    return float(ratio), float(np.sqrt(max(variance, 0.0)))
