"""Parzen windows: the likelihood of data under a mixture of Gaussians around samples.

The quality measure of the paper on large data sets. Squared distances come from matrix products in float32, chunk by
chunk; a running maximum and a running sum of exponentials take each chunk in as it is made, so the full matrix of
distances never exists.
"""

from __future__ import annotations

import functools
import math
import warnings
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from tf_wcd.arguments import check_integer
from tf_wcd.data_checks import check_visible
from tf_wcd.tables import array_of
from tf_wcd.xla import compiled

# Chunks of samples have one of two sizes, so that few shapes have to be compiled.
LARGE, SMALL = 1024, 128
# Largest error, in nats, that the rounding of float32 may make in the logarithm of one window.
TOLERANCE = 0.01


def parzen_log_likelihood(
    samples: Any,
    test: Any,
    sigma: float | Sequence[float] | np.ndarray,
    *,
    counts: Sequence[int] | np.ndarray | None = None,
    per_point: bool = False,
    dtype: str | None = None,
    memory_limit: int = 2**25,
) -> Any:
    """Mean over test points of log 1/n sum_j Normal(test; sample_j, sigma^2 I), in nats.

    For samples of a model this measures how well they cover the test data. It is a density in the space of pixels, not
    a probability of binary states, so its value depends on ``sigma`` and compares only with others of the same sigma
    and number of samples. With few samples it is far too low for a good model: look at the whole curve (``counts``).

    Args:
        samples: ``[n, dimensions]``.
        test: ``[m, dimensions]``.
        sigma: standard deviation of the windows, or several of them, which together cost little more than one.
        counts: numbers of samples, increasing: the likelihood under the first so many samples, for each, in one pass.
        per_point: return the values of all test points, not their mean.
        dtype: type of the matrix products, ``"float32"`` or ``"float64"``. In float32, which takes half the time, a
            squared distance has an error of about 1e-7 times the squared norm of the centred data, and the logarithm of
            a window that error over sigma^2. If not given: float32 where this is below 0.01 nats.
        memory_limit: bytes for chunks, besides ``samples`` and ``test`` and one copy of ``test``.

    Returns:
        A float. With several sigmas, with ``counts`` and with ``per_point``, an array that has the axes
        ``[sigmas, counts, points]``, as far as asked for.

    Example:

    >>> samples, test = np.zeros((1, 2)), np.array([[1.0, 1.0]])
    >>> round(parzen_log_likelihood(samples, test, 1.0), 4)  # -1 - log(2 pi)
    -2.8379
    """
    samples, test = _check_points(samples, test)
    sigmas = _check_sigmas(sigma)
    stops = _check_counts(counts, len(samples))
    if dtype not in (None, "float32", "float64"):
        raise ValueError(f"`dtype` must be None, 'float32' or 'float64'. Received: dtype={dtype!r}")
    memory_limit = check_integer("memory_limit", memory_limit)
    centre = _centre(test)
    dtype = dtype or _sufficient_dtype(samples, test, centre, sigmas)
    values = _log_densities(samples, test, centre, sigmas, stops, dtype, memory_limit)
    if not per_point:
        values = values.mean(axis=-1)
    if counts is None:
        values = values[:, 0]
    if np.ndim(sigma) == 0:
        values = values[0]
    return float(values) if np.ndim(values) == 0 else values


def parzen_bandwidth(
    samples: Any, validation: Any, sigmas: Sequence[float] | np.ndarray | None = None, **options: Any
) -> float:
    """The sigma with the largest Parzen likelihood of validation data.

    Args:
        samples: ``[n, dimensions]``, a part of the samples to be used, or others like them.
        validation: ``[m, dimensions]``, data other than the test data.
        sigmas: the values to choose from. If not given, a logarithmic mesh about the spread of the data, which moves
            on while the best value is at its edge, and is then refined to about one percent.
        **options: ``dtype`` and ``memory_limit`` of `parzen_log_likelihood`.

    Returns:
        The chosen sigma.

    Example:

    >>> rng = np.random.default_rng(0)
    >>> 0.2 < parzen_bandwidth(rng.normal(size=(2000, 1)), rng.normal(size=(500, 1))) < 0.5
    True
    """
    samples, validation = _check_points(samples, validation, "validation")

    def best(mesh: np.ndarray) -> int:
        return int(np.argmax(parzen_log_likelihood(samples, validation, mesh, **options)))

    if sigmas is not None:
        mesh = _check_sigmas(sigmas)
        return float(mesh[best(mesh)])
    spread = math.sqrt(float(np.mean(np.var(validation, axis=0, dtype="float64")))) or 1.0
    step = math.sqrt(2.0)
    mesh = spread * step ** np.arange(-8.0, 3.0)
    for _ in range(4):
        chosen = best(mesh)
        if 0 < chosen < len(mesh) - 1:
            break
        mesh = mesh[chosen] * step ** (np.arange(-10.0, 1.0) if chosen == 0 else np.arange(11.0))
    else:
        warnings.warn(
            f"The likelihood of the validation data still grows at sigma = {mesh[chosen]:.3g}. "
            "Are they among the samples?",
            stacklevel=2,
        )
        return float(mesh[chosen])
    for _ in range(2):
        centre, step = mesh[chosen], step**0.2
        mesh = centre * step ** np.arange(-5.0, 6.0)
        chosen = best(mesh)
    return float(mesh[chosen])


def _log_densities(
    samples: np.ndarray,
    test: np.ndarray,
    centre: np.ndarray,
    sigmas: np.ndarray,
    stops: np.ndarray,
    dtype: str,
    memory_limit: int,
) -> np.ndarray:
    """float64 ``[sigmas, stops, points]``."""
    size = np.dtype(dtype).itemsize
    dimensions = test.shape[1]
    # A chunk of samples is held in a few copies on its way, its products with a block of test points in two.
    large = LARGE if memory_limit >= 8 * size * dimensions * LARGE else SMALL
    width = max(1, memory_limit // (4 * size * large))
    width = -(-len(test) // -(-len(test) // width))
    precisions = tf.constant(1.0 / sigmas**2, dtype)
    blocks = [_Block(test[i : i + width], width, centre, len(sigmas), dtype) for i in range(0, len(test), width)]
    logs = np.empty([len(sigmas), len(stops), len(test)])
    for chunk, bias, stop in _chunks(samples, centre, large, stops, dtype):
        for block in blocks:
            block.take_in(chunk, bias, precisions)
        if stop is not None:
            done = [block.log_sums(sigmas) for block in blocks]
            logs[:, stop] = np.concatenate(done, axis=-1) - math.log(stops[stop])
    return logs - (0.5 * dimensions * np.log(2.0 * np.pi * sigmas**2))[:, None, None]


def _chunks(
    samples: np.ndarray, centre: np.ndarray, large: int, stops: np.ndarray, dtype: str
) -> Iterator[tuple[tf.Tensor, tf.Tensor, int | None]]:
    """Centred samples, -|sample|^2 / 2, and the index of the count that ends with this chunk.

    Rows that fill a chunk up have the bias -inf, and so no part in any sum.
    """
    start = 0
    for index, stop in enumerate(stops):
        while start < stop:
            rows = large if stop - start >= large else SMALL
            end = min(start + rows, int(stop))
            part = _shifted(samples[start:end], centre, dtype)
            padding = rows - len(part)
            bias = -0.5 * np.einsum("ij,ij->i", part, part, dtype="float64")
            yield (
                tf.constant(np.pad(part, ((0, padding), (0, 0)))),
                tf.constant(np.pad(bias, (0, padding), constant_values=-np.inf).astype(dtype)),
                index if end == stop else None,
            )
            start = end


class _Block:
    """A block of test points with the running maximum and the running sums of each."""

    def __init__(self, points: np.ndarray, width: int, centre: np.ndarray, sigmas: int, dtype: str) -> None:
        points = _shifted(points, centre, dtype)
        self.count = len(points)
        self.half_norms = 0.5 * np.einsum("ij,ij->i", points, points, dtype="float64")
        self.columns = tf.constant(np.pad(points.T, ((0, 0), (0, width - self.count))))
        self.top = tf.fill([width], tf.constant(-np.inf, dtype))
        self.sums = tf.zeros([sigmas, width], dtype)

    def take_in(self, chunk: tf.Tensor, bias: tf.Tensor, precisions: tf.Tensor) -> None:
        self.top, self.sums = _compiled_take_in()(chunk, bias, self.columns, precisions, self.top, self.sums)

    def log_sums(self, sigmas: np.ndarray) -> np.ndarray:
        """log of the sum of exp(-distance^2 / (2 sigma^2)), float64 ``[sigmas, points]``."""
        top, sums = (a.numpy()[..., : self.count].astype("float64") for a in (self.top, self.sums))
        return (top - self.half_norms) / sigmas[:, None] ** 2 + np.log(sums)


def _shifted(points: np.ndarray, centre: np.ndarray, dtype: str) -> np.ndarray:
    points = points.astype(dtype)
    points -= centre.astype(dtype)
    return points


@functools.cache
def _compiled_take_in() -> Any:
    return compiled(_take_in, jit_compile=True)


def _take_in(
    chunk: tf.Tensor, bias: tf.Tensor, columns: tf.Tensor, precisions: tf.Tensor, top: tf.Tensor, sums: tf.Tensor
) -> tuple[tf.Tensor, tf.Tensor]:
    """Adds a chunk of samples to the running sums.

    With s.t - |s|^2 / 2 as the score of sample s for point t, the sums are those of exp((score - top) / sigma^2), where
    ``top`` is the largest score so far: it is the same for all sigmas.
    """
    # Samples run along the first axis, so that the reductions work on whole rows of points at a time.
    scores = tf.matmul(chunk, columns) + bias[:, None]
    new_top = tf.maximum(top, tf.reduce_max(scores, axis=0))

    def of_sigma(pair: tuple[tf.Tensor, tf.Tensor]) -> tf.Tensor:
        precision, old = pair
        new = tf.reduce_sum(tf.exp(precision * (scores - new_top)), axis=0)
        return old * tf.exp(precision * (top - new_top)) + new

    return new_top, tf.map_fn(of_sigma, (precisions, sums), fn_output_signature=sums.dtype)


def _centre(test: np.ndarray) -> np.ndarray:
    """A point amid the data, on a grid of powers of two near their spread.

    Distances do not change when it is subtracted, but their rounding errors shrink. On the grid zeros and ones stay
    numbers whose products float32 holds exactly.
    """
    some = _some(test)
    spread = float(np.std(some, axis=0, dtype="float64").max())
    grid = 2.0 ** math.floor(math.log2(spread)) if spread > 0 else 2.0**-10
    return grid * np.round(some.mean(axis=0, dtype="float64") / grid)


def _sufficient_dtype(samples: np.ndarray, test: np.ndarray, centre: np.ndarray, sigmas: np.ndarray) -> str:
    """float32 if its rounding is harmless for data of this size and windows of this width."""
    largest = max(float(np.square(_some(a) - centre).sum(axis=1).max()) for a in (samples, test))
    return "float32" if np.finfo("float32").eps * largest <= TOLERANCE * sigmas.min() ** 2 else "float64"


def _some(points: np.ndarray) -> np.ndarray:
    """At most a thousand rows from all over."""
    return points[:: -(-len(points) // 1000)]


def _check_points(samples: Any, test: Any, name: str = "test") -> tuple[np.ndarray, np.ndarray]:
    """Both as matrices of numbers of the same width, in the types in which they came."""
    test = _as_matrix(test, None, name)
    return _as_matrix(samples, test.shape[1], "samples"), test


def _as_matrix(x: Any, width: int | None, what: str) -> np.ndarray:
    x = array_of(x, what)
    x = x.reshape(len(x), -1) if x.ndim > 2 else x  # images: a window knows no places
    keep = x.dtype if np.issubdtype(x.dtype, np.number) or x.dtype == bool else "float64"
    return check_visible(x, None, width, what, dtype=str(keep))


def _check_sigmas(sigma: Any) -> np.ndarray:
    sigmas = np.atleast_1d(np.asarray(sigma))
    if sigmas.ndim != 1 or not len(sigmas) or not np.issubdtype(sigmas.dtype, np.number):
        raise ValueError(f"`sigma` must be a number or a sequence of numbers. Received: {sigma!r}")
    if not (np.isfinite(sigmas).all() and (sigmas > 0).all()):
        raise ValueError(f"`sigma` must be positive and finite. Received: {sigma!r}")
    return sigmas.astype("float64")


def _check_counts(counts: Sequence[int] | np.ndarray | None, total: int) -> np.ndarray:
    stops = np.asarray([total] if counts is None else counts)
    if stops.ndim != 1 or not len(stops) or not np.issubdtype(stops.dtype, np.integer):
        raise ValueError(f"`counts` must be a sequence of integers. Received: {counts!r}")
    if stops[0] < 1 or stops[-1] > total or not np.all(np.diff(stops) > 0):
        raise ValueError(
            f"`counts` must increase, from at least 1 to at most the number of samples, {total}. Received: {counts!r}"
        )
    return stops
