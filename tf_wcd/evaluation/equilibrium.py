"""Have the chains mixed? Diagnostics of Gibbs sampling, from several chains and from several starts."""

from __future__ import annotations

import contextlib
import dataclasses
import logging
import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import tensorflow as tf

from tf_wcd.arguments import check_integer
from tf_wcd.evaluation.exact import machine_of
from tf_wcd.machine import Machine
from tf_wcd.programs import call_compiled
from tf_wcd.random import batch_source, subkey
from tf_wcd.sampling import random_visible, run_chains

if TYPE_CHECKING:
    from tf_wcd.layer import RBMLayer

MOST_RECORDS = 1000  # of each chain: longer chains are looked at every few steps
RECORDS_PER_CALL = 101  # of the compiled function, which then need not be called often
LEAST_STEPS = 16
R_HAT_LIMIT = 1.05  # half of a chain's second half is then some ten autocorrelation times long
ERRORS_LIMIT = 5.0  # of drifts and differences, in standard errors: the largest of some ten is looked at
# Purposes of random numbers, each with another key.
_RANDOM, _CHAINS, _CHOICE = range(3)


@dataclasses.dataclass(frozen=True)
class Mixing:
    """Whether chains of Gibbs sampling had become samples of the model, as far as they themselves can tell.

    All figures are of the second half of the chains, and are the worst of several statistics: the free energy, and
    projections of the states.

    Attributes:
        mixed: whether all figures are within their limits.
        reason: why, or why not, in words.
        r_hat: split R-hat over all chains, of all starts: 1 for chains that agree. The limit is 1.05.
        autocorrelation_time: integrated autocorrelation time, in Gibbs steps: a chain gives one independent sample in
            so many steps. Of chains that disagree it is of the order of their length, and too small.
        effective_samples: how many independent samples the chains' second halves are worth together.
        drift: change of the mean free energy between the third and the last quarter of the chains, in standard errors;
            that of the start where it is the largest.
        difference: largest difference of a mean between the chains from random states and those from ``x``, in
            standard errors; NaN without ``x``.
        gibbs_steps: length of the chains.
        steps: int ``[records]``, the steps at which the chains were looked at.
        free_energy: for each start, ``"random"`` and ``"data"``, the free energies ``[records, chains]``.
    """

    mixed: bool
    reason: str
    r_hat: float
    autocorrelation_time: float
    effective_samples: float
    drift: float
    difference: float
    gibbs_steps: int
    steps: np.ndarray = dataclasses.field(repr=False)
    free_energy: dict[str, np.ndarray] = dataclasses.field(repr=False)

    def too_few(self, gibbs_steps: int) -> bool:
        """Whether chains of so many steps, from random states, are known to be too short."""
        return gibbs_steps < self.autocorrelation_time or (not self.mixed and gibbs_steps <= self.gibbs_steps)


def mixing(
    rbm: RBMLayer,
    x: Any = None,
    *,
    gibbs_steps: int = 1000,
    chains: int = 50,
    projections: int = 8,
    seed: int | None = None,
) -> Mixing:
    """Whether chains of so many Gibbs steps end as samples of the model, wherever they start.

    Chains start from random states and, if given, from ``x``. Where they have mixed, all of them have the same
    distribution, which does not change any more. No diagnosis can see a mode that no chain has reached: pass states
    of all kinds that the model should know, the training data or samples by replica exchange, say. The layer
    remembers what was found: `RBMLayer.sample` warns where its chains are known to be too short.

    Args:
        rbm: a built `RBMLayer`.
        x: ``[n, visible units]``, states to start from besides random ones.
        gibbs_steps: length of the chains, at least 16.
        chains: number of chains from each start, at least 2.
        projections: number of projections of the states that are looked at, besides the free energy: half of them on
            the leading singular vectors of the kernel, along which a trained model is slow, half of them random.
        seed: an integer for reproducible figures; if not given, each call draws new chains.

    Returns:
        A `Mixing`, with ``mixed`` and the ``reason`` in words.

    Example:

    >>> rbm = tf_wcd.RBMLayer(5, seed=0)
    >>> rbm.build((None, 6))
    >>> result = mixing(rbm, gibbs_steps=200, seed=0)
    >>> result.mixed, result.r_hat < 1.05, result.autocorrelation_time < 2
    (True, True, True)
    """
    machine = machine_of(rbm)
    steps = check_integer("gibbs_steps", gibbs_steps, least=LEAST_STEPS)
    chains = check_integer("chains", chains, least=2)
    check_integer("projections", projections, least=0)
    key = rbm.sampling_key(seed)
    generator = np.random.default_rng(subkey(key, _CHOICE).numpy())
    starts = {"random": random_visible(machine, chains, batch_source(subkey(key, _RANDOM)), draw=0)}
    if x is not None:
        x = rbm.checked_visible(x)
        starts["data"] = tf.constant(x[generator.choice(len(x), chains, replace=chains > len(x))])
    every = -(-steps // MOST_RECORDS)
    records = steps // every
    directions = tf.constant(_directions(machine, projections, generator), machine.kernel.dtype)
    values = _traces(rbm, tf.concat(list(starts.values()), axis=0), directions, every, records, subkey(key, _CHAINS))
    by_start = {name: values[:, i * chains : (i + 1) * chains] for i, name in enumerate(starts)}
    result = diagnose(by_start, every)
    rbm.remember_mixing(result)
    return result


def diagnose(values: dict[str, np.ndarray], every: int = 1) -> Mixing:
    """What traces of chains tell.

    Args:
        values: for each start ``[1 + records, chains, statistics]``: at the start, and then after every few steps. The
            first statistic is the free energy.
        every: steps between two records.
    """
    records = len(next(iter(values.values()))) - 1
    kept = {name: trace[1 + records // 2 :].astype("float64") for name, trace in values.items()}
    together = np.concatenate(list(kept.values()), axis=1)
    r_hat, effective = _between_chains(together)
    figures = {
        "r_hat": r_hat,
        "autocorrelation_time": every * together[..., 0].size / effective,
        "effective_samples": effective,
        "drift": max((_drift(trace[..., 0]) for trace in kept.values()), key=abs),
        "difference": _difference(*kept.values()) if len(kept) > 1 else math.nan,
    }
    problems = _problems(**figures)
    return Mixing(
        mixed=not problems,
        reason=_reason(problems, len(kept) > 1, records * every, **figures),
        **figures,
        gibbs_steps=records * every,
        steps=every * np.arange(records + 1),
        free_energy={name: trace[..., 0] for name, trace in values.items()},
    )


def _directions(machine: Machine, count: int, generator: np.random.Generator) -> np.ndarray:
    """``[n_v, count]`` directions to project states on: singular vectors of the kernel, and random ones."""
    leading = min(count // 2, *machine.kernel.shape)
    slow = np.linalg.svd(machine.kernel.numpy(), full_matrices=False)[0][:, :leading]
    random = generator.normal(size=(machine.num_visible, count - leading)) / math.sqrt(machine.num_visible)
    return np.concatenate([slow, random], axis=1)


def _traces(
    rbm: RBMLayer, visible: tf.Tensor, directions: tf.Tensor, every: int, records: int, key: tf.Tensor
) -> np.ndarray:
    """Statistics of chains at their start and after every few steps, ``[1 + records, chains, statistics]``."""
    traces = []
    for first in range(0, records + 1, RECORDS_PER_CALL):
        arguments = visible, directions, tf.constant(every), key, tf.constant(first)
        visible, values = call_compiled(_recorded, rbm, *arguments)
        traces.append(values.numpy())
    return np.concatenate(traces)[: records + 1]


def _recorded(
    machine: Machine, visible: tf.Tensor, directions: tf.Tensor, every: tf.Tensor, key: tf.Tensor, first: tf.Tensor
) -> tuple[tf.Tensor, tf.Tensor]:
    """Statistics of chains, again and again after some steps, ``[records, chains, 1 + projections]``."""

    def record(i: tf.Tensor, x: tf.Tensor, values: tf.TensorArray) -> tuple[tf.Tensor, tf.Tensor, tf.TensorArray]:
        now = tf.concat([machine.free_energy(x)[:, None], tf.matmul(x, directions)], axis=-1)
        x = run_chains(machine, x, None, every, batch_source(subkey(key, first + i))).visible
        return i + 1, x, values.write(i, now)

    values = tf.TensorArray(visible.dtype, RECORDS_PER_CALL)
    start = tf.constant(0), visible, values
    _, visible, values = tf.while_loop(lambda i, *_: i < RECORDS_PER_CALL, record, start, parallel_iterations=1)
    return visible, values.stack()


def _between_chains(values: np.ndarray) -> tuple[float, float]:
    """The largest split R-hat and the smallest effective sample size, of ``[records, chains, statistics]``."""
    from tensorflow_probability import mcmc  # it takes seconds to import

    spread = values.std(axis=(0, 1))
    # What never changes anywhere has nothing to mix; single units of a sharp model are often so.
    alive = spread > 1e-6 * np.abs(values).max(axis=(0, 1))
    if not alive.any():
        return 1.0, float(values[..., 0].size)
    scaled = ((values - values.mean(axis=(0, 1))) / np.where(alive, spread, 1.0))[..., alive]
    states = tf.constant(scaled)
    r_hat = mcmc.potential_scale_reduction(states, independent_chain_ndims=1, split_chains=True).numpy()
    with _without_cast_warnings():
        effective = mcmc.effective_sample_size(states, filter_beyond_positive_pairs=True, cross_chain_dims=1).numpy()
    # Chains that stand still in different places have no variance within; TFP then divides by zero.
    r_hat = np.where(r_hat < 1e6, r_hat, np.inf)
    return float(r_hat.max()), float(np.nanmin(np.maximum(effective, 1.0)))


@contextlib.contextmanager
def _without_cast_warnings() -> Iterator[None]:
    """TFP takes the real part of a Fourier transform by a cast, of which TensorFlow warns at each call."""

    def other(record: logging.LogRecord) -> bool:
        return "discard the imaginary part" not in record.getMessage()

    logger = tf.get_logger()
    logger.addFilter(other)
    try:
        yield
    finally:
        logger.removeFilter(other)


def _drift(free_energy: np.ndarray) -> float:
    """Change of the mean from the first to the second half, ``[records, chains]``, in standard errors."""
    half = len(free_energy) // 2
    change = free_energy[half:].mean(0) - free_energy[:half].mean(0)
    return float(_in_errors(change.mean(), change.var(ddof=1) / len(change)))


def _difference(first: np.ndarray, second: np.ndarray) -> float:
    """Largest difference between the means of two sets of chains, in standard errors."""
    means, others = first.mean(0), second.mean(0)  # of each chain: chains are independent, their records are not
    variance = means.var(0, ddof=1) / len(means) + others.var(0, ddof=1) / len(others)
    return float(np.abs(_in_errors(means.mean(0) - others.mean(0), variance)).max())


def _in_errors(value: Any, variance: Any) -> Any:
    """A value in standard errors; rounding is no deviation."""
    error = np.sqrt(np.maximum(variance, 1e-12 * np.square(value)))
    return value / np.where(error > 0, error, 1.0)


def _problems(
    r_hat: float, autocorrelation_time: float, effective_samples: float, drift: float, difference: float
) -> list[str]:
    found = []
    if not r_hat <= R_HAT_LIMIT:
        found.append(
            f"the chains disagree with each other (R-hat {r_hat:.3g}, limit {R_HAT_LIMIT}): each stays in a part of "
            "the states, or they are too short"
        )
    if not abs(drift) <= ERRORS_LIMIT:
        found.append(f"their mean free energy still drifts, by {drift:.3g} standard errors in a quarter of the steps")
    if abs(difference) > ERRORS_LIMIT:
        found.append(f"those from random states and those from `x` differ by {difference:.3g} standard errors")
    return found


def _reason(problems: list[str], two_starts: bool, steps: int, **figures: float) -> str:
    time = figures["autocorrelation_time"]
    if not problems:
        hidden = "" if two_starts else " From random states alone a mode that none of them reaches is not seen."
        return (
            f"Mixed in {steps} steps: R-hat {figures['r_hat']:.3g}, autocorrelation time {time:.3g} steps, no drift."
            + hidden
        )
    # A chain's quarter should be ten autocorrelation times long; of chains that hardly move the time is not known.
    enough = math.ceil(50 * time / 100) * 100
    advice = (
        f"Chains of about {max(enough, 2 * steps)} steps may do."
        if time < steps / 4
        else 'They hardly move: exchange between temperatures (`method="pt"`) or moments of the training may help.'
    )
    return f"Not mixed in {steps} steps: {'; '.join(problems)}. {advice}"
