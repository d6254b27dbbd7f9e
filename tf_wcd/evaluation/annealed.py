"""log Z of models of any size, by annealed importance sampling in both directions."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import numpy as np
import tensorflow as tf

from tf_wcd.arguments import check_integer, check_positive
from tf_wcd.evaluation.annealing_runs import Annealing
from tf_wcd.evaluation.directions import AnnealedLogPartition, Problem
from tf_wcd.evaluation.exact import machine_of
from tf_wcd.evaluation.model_samples import RUNGS, model_samples
from tf_wcd.images import as_rows
from tf_wcd.programs import call_compiled
from tf_wcd.random import batch_source, subkey
from tf_wcd.sampling import random_visible
from tf_wcd.sampling.annealing import check_temperatures
from tf_wcd.sampling.samplers import by_gibbs
from tf_wcd.tables import array_of

if TYPE_CHECKING:
    from tf_wcd.layer import RBMLayer

PILOT_STEPS = 50
SHORTEST = 100  # temperatures to begin with where their number is not given
_PILOT = 1  # purpose of random numbers, with a key of its own; others are in `annealing_runs` and `model_samples`


def annealed_log_partition(
    rbm: RBMLayer,
    *,
    chains: int = 100,
    temperatures: Any = "auto",
    budget: int = 10_000,
    tolerance: float = 0.2,
    data: Any = None,
    base: Any = None,
    reverse: bool = True,
    initial: Any = None,
    burn_in: int = 1000,
    seed: int | None = None,
    memory_limit: int = 2**28,
) -> AnnealedLogPartition:
    """log Z by annealed importance sampling, forward and in reverse.

    Forward chains start from independent units and end at the model: their estimate of log Z is too low on average.
    Reverse chains start from samples of the model and end at independent units: their estimate is too high on average,
    if those samples are good. More temperatures bring the two together. By default there are 100 at first, and twice
    as many again and again until the two agree, each time closer together where the two differed most the time before;
    ``agrees`` and ``reason`` say whether they agree, and a warning if not.

    Args:
        rbm: a built `RBMLayer`.
        chains: chains in each direction.
        temperatures: ``"auto"``; or their number (they lie closer together near the model); or the inverse temperatures
            themselves, increasing from 0 to 1.
        budget: for ``"auto"``, the largest number of temperatures. All runs together cost less than three times the
            last one.
        tolerance: nats that the reverse estimate may lie above the forward one by, beyond two standard errors.
        data: ``[n, visible units]``, training data. Their means make the base model, and the chains that sample the
            model start from them.
        base: ``[visible units]``, means of the visible units in the base model, if not those of ``data``. Without
            either they are those of short Gibbs chains. A base near the means of the model helps; any is valid.
        reverse: also run the reverse chains, which doubles the cost. Without them ``"auto"`` looks at the effective
            sample size alone, and only it warns.
        initial: ``[chains, visible units]``, samples of the model for the reverse chains to start from. If not given
            they are drawn independently where one side can be enumerated; else from the ladder of a model that was
            trained with ``"ptt"``; else by replica exchange between ten temperatures. Where the estimates show that
            the exchange did not give samples of the model, a population that is resampled along the path does.
        burn_in: steps of this exchange or, after ``initial`` and the population, of Gibbs sampling, before the reverse
            run.
        seed: an integer for reproducible estimates; if not given, each call draws new ones.
        memory_limit: bytes for the chains; they are run in groups that fit.

    Returns:
        An `AnnealedLogPartition`. Its interval from ``lower`` to ``upper`` covers both directions and their errors.

    Example:

    >>> rbm = tf_wcd.RBMLayer(5, kernel_initializer=keras.initializers.RandomNormal(stddev=0.5, seed=1))
    >>> rbm.build((None, 6))
    >>> result = annealed_log_partition(rbm, seed=0)
    >>> exact = tf_wcd.evaluation.log_partition(rbm)
    >>> abs(result.estimate - exact) < 4 * result.standard_error
    True
    >>> result.agrees, result.temperatures
    (True, 100)
    """
    machine_of(rbm)  # or an error, of an ensemble
    data, initial = _check_arguments(rbm, chains, burn_in, memory_limit, data, initial)
    tolerance, lengths = check_positive("tolerance", tolerance), _lengths(temperatures, budget)
    key = rbm.sampling_key(seed)
    base_bias = _base_bias(rbm, data, base, chains, subkey(key, _PILOT))
    run = Annealing(rbm, base_bias, chains, burn_in, tolerance, memory_limit)
    starts = None
    if reverse:
        ladders = run.group(memory_limit // RUNGS)
        starts = model_samples(rbm, base_bias, chains, data, initial, burn_in, ladders, key)
    result, problems = run.until_both_agree(lengths, starts, key)
    if reverse or isinstance(temperatures, str):
        _warn(result, problems)
    return result


def _lengths(temperatures: Any, budget: Any) -> list[np.ndarray]:
    """Paths of inverse temperatures, each to be tried if the one before was too short."""
    budget = check_integer("budget", budget, least=2)
    if not isinstance(temperatures, str):
        return [check_temperatures(temperatures)]
    if temperatures != "auto":
        raise ValueError(f'`temperatures` must be "auto", an integer or a vector. Received: {temperatures!r}')
    counts = [min(SHORTEST, budget)]
    while counts[-1] < budget:
        counts.append(min(2 * counts[-1], budget))
    return [check_temperatures(count) for count in counts]


def _warn(result: AnnealedLogPartition, problems: list[Problem]) -> None:
    if problems:
        words = result.reason if result.reverse_start != "none" else "; ".join(each.words for each in problems)
        warnings.warn(
            f"Annealed importance sampling with {result.temperatures} temperatures leaves log Z open. {words}",
            stacklevel=3,
        )


def _check_arguments(
    rbm: RBMLayer, chains: Any, burn_in: Any, memory_limit: Any, data: Any, initial: Any
) -> tuple[Any, Any]:
    """Training data and samples of the model as arrays, where they are given; checks of the numbers."""
    for name, value, least in (("chains", chains, 2), ("burn_in", burn_in, 0), ("memory_limit", memory_limit, 1)):
        check_integer(name, value, least)
    if data is not None:
        data = rbm.checked_visible(data, "data")
    if initial is not None:
        initial = rbm.checked_visible(initial, "initial")
        if len(initial) != chains:
            raise ValueError(
                f"`initial` must have one row for each of {chains} chains. Received: shape {initial.shape}"
            )
    return data, initial


def _base_bias(rbm: RBMLayer, data: Any, base: Any, chains: int, key: tf.Tensor) -> tf.Tensor:
    """The visible bias of the base model, ``[n_v]``."""
    machine = rbm.machine()
    if base is not None:
        rows = np.atleast_2d(as_rows(array_of(base, "base"), rbm.visible_shape, one=True))
        means = rbm.checked_visible(rows, "base")
        if len(means) != 1:
            raise ValueError(f"`base` must be one row of means. Received: shape {np.shape(base)}")
    elif data is not None:
        means = data.mean(axis=0, keepdims=True, dtype="float64")
    else:
        start = random_visible(machine, chains, batch_source(key), draw=2**32 - 1)
        pilot = call_compiled(by_gibbs, rbm, start, None, tf.constant(PILOT_STEPS), key)
        means = np.mean(pilot, axis=0, keepdims=True, dtype="float64")
    return machine.visible.bias_of_means(means.astype(rbm.variable_dtype))[0]
