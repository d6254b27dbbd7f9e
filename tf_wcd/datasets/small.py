"""The nine small problems of the paper, each a list of states and their probabilities.

Integers are written as bits with the most significant first.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

Problem = tuple[np.ndarray, np.ndarray]

# The ratio of the largest to the smallest probability of the Gaussian problems. The paper does not give it. With this
# one, the best model of independent bits has KL 0.5453 on Mult3G, the paper's value for CD_1.
PROBABILITY_RATIO = 1000.0


def bits_of(integers: np.ndarray, width: int) -> np.ndarray:
    """Bits of integers, 0/1 float32 ``[N, width]``, the most significant one first."""
    return ((np.asarray(integers)[:, None] >> np.arange(width - 1, -1, -1)) & 1).astype("float32")


def _uniform(states: np.ndarray) -> Problem:
    return states, np.full(len(states), 1 / len(states))


def bars_and_stripes(side: int) -> Problem:
    """Square pictures whose rows are each all on or all off (bars), or whose columns are (stripes)."""
    lines = bits_of(np.arange(2**side), side)
    bars = np.repeat(lines, side, axis=1)
    stripes = np.tile(lines, (1, side))
    # The empty and the full picture are both bars and stripes: they count once.
    return _uniform(np.unique(np.concatenate([bars, stripes]), axis=0))


def labeled_shifter(bits: int) -> Problem:
    """A pattern, the same pattern shifted cyclically by -1, 0 or 1, and a one-hot label of the shift."""
    patterns = bits_of(np.arange(2**bits), bits)
    parts = []
    for shift, label in ((-1, (1, 0, 0)), (0, (0, 1, 0)), (1, (0, 0, 1))):
        labels = np.tile(np.array(label, "float32"), (len(patterns), 1))
        parts.append(np.concatenate([patterns, np.roll(patterns, shift, axis=1), labels], axis=1))
    return _uniform(np.concatenate(parts))


def parity(bits: int) -> Problem:
    """All states with an even number of ones."""
    states = bits_of(np.arange(2**bits), bits)
    return _uniform(states[states.sum(axis=1) % 2 == 0])


def _gaussian(count: int) -> np.ndarray:
    """q(n) proportional to exp(-lambda n^2), n = 0 .. count - 1, with q(0) / q(count - 1) = `PROBABILITY_RATIO`."""
    rate = np.log(PROBABILITY_RATIO) / (count - 1) ** 2
    weights = np.exp(-rate * np.arange(count) ** 2.0)
    return weights / weights.sum()


def integers(bits: int) -> Problem:
    """The integers; the smaller, the more probable."""
    count = 2**bits
    return bits_of(np.arange(count), bits), _gaussian(count)


def multiples_of_three_gaussian(bits: int) -> Problem:
    """The integers by their remainder modulo 3, 0 first, then 1, then 2; the earlier, the more probable."""
    count = 2**bits
    order = np.concatenate([np.arange(remainder, count, 3) for remainder in range(3)])
    probabilities = np.empty(count)
    probabilities[order] = _gaussian(count)
    return bits_of(np.arange(count), bits), probabilities


def multiples_of_three_discrete(bits: int) -> Problem:
    """The integers by their remainder modulo 3: groups of probability 0.6, 0.3 and 0.1, uniform inside."""
    integers = np.arange(2**bits)
    remainder = integers % 3
    probabilities = np.array([0.6, 0.3, 0.1])[remainder] / np.bincount(remainder)[remainder]
    return bits_of(integers, bits), probabilities


PROBLEMS: dict[str, Callable[[], Problem]] = {
    "BS09": lambda: bars_and_stripes(3),
    "BS16": lambda: bars_and_stripes(4),
    "LSE11": lambda: labeled_shifter(4),
    "LSE15": lambda: labeled_shifter(6),
    "P08": lambda: parity(8),
    "P10": lambda: parity(10),
    "Int12": lambda: integers(12),
    "Mult3G": lambda: multiples_of_three_gaussian(12),
    "Mult3D": lambda: multiples_of_three_discrete(12),
}
