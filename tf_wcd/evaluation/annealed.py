"""log Z of models of any size, by annealed importance sampling in both directions."""

from __future__ import annotations

import dataclasses
import functools
import math
import warnings
from typing import TYPE_CHECKING, Any

import numpy as np
import tensorflow as tf

from tf_wcd.arguments import check_integer
from tf_wcd.data_checks import check_visible
from tf_wcd.evaluation.exact import machine_of
from tf_wcd.evaluation.importance import bennett, effective_number, log_mean_error, log_mean_exp
from tf_wcd.machine import Machine
from tf_wcd.programs import call_compiled
from tf_wcd.random import batch_source, subkey
from tf_wcd.sampling import can_sample_exactly, exact_sampler, random_visible, run_chains
from tf_wcd.sampling.annealing import anneal, base_log_partition, check_temperatures, sample_base
from tf_wcd.tables import array_of

if TYPE_CHECKING:
    from tf_wcd.layer import RBMLayer

PILOT_STEPS = 50
# Purposes of random numbers, each with another key.
_BASE, _PILOT, _FORWARD, _START, _BURN_IN, _REVERSE = range(6)


@dataclasses.dataclass(frozen=True)
class AnnealedLogPartition:
    """Estimates of log Z in nats.

    Attributes:
        estimate: annealed importance sampling (AIS), the mean weight of the forward chains. Z itself is estimated
            without bias, so log Z is too *low* on average, the more so the fewer temperatures and chains.
        standard_error: of ``estimate``. It knows only what the chains have seen: where all of them miss a part of the
            model, the error is larger than it says.
        lower: a lower bound on log Z in expectation: ``estimate`` under the name of its role.
        upper: reverse AIS, an upper bound on log Z in expectation *if* the reverse chains start from samples of the
            model (see ``reverse_start``); infinite if no reverse chains were run.
        upper_standard_error: of ``upper``.
        bridge: Bennett's acceptance ratio, from the weights of both directions. It lies between the bounds, and is the
            best of the three where they agree.
        bridge_standard_error: of ``bridge``.
        effective_sample_size: of the forward weights, between 1 and the number of chains.
        reverse_effective_sample_size: of the reverse weights.
        reverse_start: where the reverse chains started: ``"exact"`` (independent samples by enumeration),
            ``"initial"``, ``"data"`` or ``"random"`` (these three followed by Gibbs steps), or ``"none"``.
        log_weights: float64 ``[chains]``, forward, with the log Z of the base model added: each is by itself an
            estimate of log Z.
        reverse_log_weights: the same for the reverse chains, each negated so that it also estimates log Z.
    """

    estimate: float
    standard_error: float
    lower: float
    upper: float
    upper_standard_error: float
    bridge: float
    bridge_standard_error: float
    effective_sample_size: float
    reverse_effective_sample_size: float
    reverse_start: str
    log_weights: np.ndarray = dataclasses.field(repr=False)
    reverse_log_weights: np.ndarray = dataclasses.field(repr=False)


def annealed_log_partition(
    rbm: RBMLayer,
    *,
    chains: int = 100,
    temperatures: Any = 1000,
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
    if those samples are good. log Z is likely to lie between the two; where they are far apart neither is to be
    trusted, and a warning says so. More temperatures bring them together.

    Args:
        rbm: a built `RBMLayer`.
        chains: chains in each direction.
        temperatures: number of temperatures, which lie closer together near the model; or the inverse temperatures
            themselves, increasing from 0 to 1.
        data: ``[n, visible units]``, training data. Their means make the base model, and the reverse chains start from
            them.
        base: ``[visible units]``, means of the visible units in the base model, if not those of ``data``. Without
            either they are those of short Gibbs chains. A base near the means of the model helps; any is valid.
        reverse: also run the reverse chains, which doubles the cost.
        initial: ``[chains, visible units]``, samples of the model for the reverse chains to start from. If not given
            they are drawn independently where one side can be enumerated; else chains start from ``data`` or, without
            it, from random states.
        burn_in: Gibbs steps between that start (but for independent samples) and the reverse run.
        seed: an integer for reproducible estimates; if not given, each call draws new ones.
        memory_limit: bytes for the chains; they are run in groups that fit.

    Example:

    >>> rbm = tf_wcd.RBMLayer(5, kernel_initializer=keras.initializers.RandomNormal(stddev=0.5, seed=1))
    >>> rbm.build((None, 6))
    >>> result = annealed_log_partition(rbm, temperatures=200, seed=0)
    >>> exact = tf_wcd.evaluation.log_partition(rbm)
    >>> abs(result.estimate - exact) < 4 * result.standard_error
    True
    """
    machine = machine_of(rbm)
    data, initial = _check_arguments(machine, chains, burn_in, memory_limit, data, initial)
    betas = tf.constant(check_temperatures(temperatures), machine.kernel.dtype)
    key = rbm.sampling_key(seed)
    base_bias = _base_bias(rbm, data, base, chains, subkey(key, _PILOT))
    log_base = float(base_log_partition(machine, base_bias))
    weigh = functools.partial(_weights, rbm, base_bias, _group_size(machine, chains, memory_limit))
    forward = weigh(sample_base(machine, base_bias, chains, subkey(key, _BASE)), betas, subkey(key, _FORWARD))
    if not reverse:
        return _result(forward, None, log_base, "none", _rounding(machine))
    starts, origin = _reverse_starts(rbm, data, initial, chains, burn_in, key)
    back = weigh(starts, betas[::-1], subkey(key, _REVERSE))
    return _agreeing(_result(forward, back, log_base, origin, _rounding(machine)))


def _check_arguments(
    machine: Machine, chains: Any, burn_in: Any, memory_limit: Any, data: Any, initial: Any
) -> tuple[Any, Any]:
    """Training data and samples of the model as arrays, where they are given; checks of the numbers."""
    for name, value, least in (("chains", chains, 2), ("burn_in", burn_in, 0), ("memory_limit", memory_limit, 1)):
        check_integer(name, value, least)
    dtype = machine.kernel.dtype.as_numpy_dtype
    if data is not None:
        data = check_visible(data, machine.visible, machine.num_visible, "data", dtype)
    if initial is not None:
        initial = check_visible(initial, machine.visible, machine.num_visible, "initial", dtype)
        if len(initial) != chains:
            raise ValueError(
                f"`initial` must have one row for each of {chains} chains. Received: shape {initial.shape}"
            )
    return data, initial


def _group_size(machine: Machine, chains: int, memory_limit: int) -> int:
    """Chains that are run at a time: a Gibbs step holds a handful of arrays of the states and fields of both sides."""
    most = max(1, int(memory_limit) // (6 * machine.kernel.dtype.size * (machine.num_visible + machine.num_hidden)))
    groups = -(-chains // min(most, chains))
    return -(-chains // groups)


def _weights(
    rbm: RBMLayer, base_bias: tf.Tensor, group: int, starts: tf.Tensor, path: tf.Tensor, key: tf.Tensor
) -> np.ndarray:
    """Log-weights of chains along a path of temperatures, group by group."""
    runs = [
        call_compiled(anneal, rbm, base_bias, starts[i : i + group], path, subkey(key, i))
        for i in range(0, len(starts), group)
    ]
    return np.concatenate([np.asarray(run) for run in runs])


def _rounding(machine: Machine) -> float:
    return float(np.finfo(machine.kernel.dtype.as_numpy_dtype).eps)


def _base_bias(rbm: RBMLayer, data: Any, base: Any, chains: int, key: tf.Tensor) -> tf.Tensor:
    """The visible bias of the base model, ``[n_v]``."""
    machine = rbm.machine()
    unit, dtype = machine.visible, machine.kernel.dtype.as_numpy_dtype
    if base is not None:
        means = check_visible(np.atleast_2d(array_of(base, "base")), unit, machine.num_visible, "base", dtype)
        if len(means) != 1:
            raise ValueError(f"`base` must be one row of means. Received: shape {np.shape(base)}")
    elif data is not None:
        means = data.mean(axis=0, keepdims=True, dtype="float64")
    else:
        start = random_visible(machine, chains, batch_source(key), draw=2**32 - 1)
        pilot = call_compiled(_gibbs, rbm, start, tf.constant(PILOT_STEPS), key)
        means = np.mean(pilot, axis=0, keepdims=True, dtype="float64")
    return machine.visible.bias_of_means(means.astype(dtype))[0]


def _gibbs(machine: Machine, visible: tf.Tensor, steps: tf.Tensor, key: tf.Tensor) -> tf.Tensor:
    return run_chains(machine, visible, None, steps, batch_source(key)).visible


def _reverse_starts(
    rbm: RBMLayer, data: Any, initial: Any, chains: int, burn_in: int, key: tf.Tensor
) -> tuple[tf.Tensor, str]:
    """Samples of the model, as good as can be had, and where they come from."""
    machine = rbm.machine()
    start_key = subkey(key, _START)
    generator = np.random.default_rng(start_key.numpy())
    if initial is not None:
        start, origin = tf.constant(initial), "initial"
    elif can_sample_exactly(machine):
        return exact_sampler(machine).sample(chains, start_key), "exact"
    elif data is not None:
        rows = generator.choice(len(data), chains, replace=chains > len(data))
        start, origin = tf.constant(data[rows]), "data"
    else:
        start, origin = random_visible(machine, chains, batch_source(start_key), draw=0), "random"
    return call_compiled(_gibbs, rbm, start, tf.constant(int(burn_in)), subkey(key, _BURN_IN)), origin


def _result(
    forward: np.ndarray, reverse: np.ndarray | None, log_base: float, origin: str, rounding: float
) -> AnnealedLogPartition:
    def error(value: float, sampling: float) -> float:
        # A model of independent units leaves nothing to chance: what remains is the rounding of the sums.
        return math.hypot(sampling, rounding * value)

    estimate = log_base + log_mean_exp(forward)
    upper, upper_error, bridge, bridge_error, reverse_size = math.inf, math.nan, math.nan, math.nan, math.nan
    if reverse is not None:
        upper = log_base - log_mean_exp(reverse)
        upper_error = error(upper, log_mean_error(reverse))
        ratio, sampling = bennett(forward, reverse)
        bridge = log_base + ratio
        bridge_error = error(bridge, sampling)
        reverse_size = effective_number(reverse)
    return AnnealedLogPartition(
        estimate=estimate,
        standard_error=error(estimate, log_mean_error(forward)),
        lower=estimate,
        upper=upper,
        upper_standard_error=upper_error,
        bridge=bridge,
        bridge_standard_error=bridge_error,
        effective_sample_size=effective_number(forward),
        reverse_effective_sample_size=reverse_size,
        reverse_start=origin,
        log_weights=log_base + forward,
        reverse_log_weights=log_base - (np.empty(0) if reverse is None else reverse),
    )


def _agreeing(result: AnnealedLogPartition) -> AnnealedLogPartition:
    """The result, with a warning where the two directions are further apart than their errors explain."""
    gap = result.upper - result.lower
    error = math.hypot(result.standard_error, result.upper_standard_error)
    # Below a tenth of a nat nobody's conclusion changes.
    if abs(gap) <= max(5.0 * error, 0.1):
        return result
    reason = (
        "log Z lies between them, if the reverse chains started from good samples of the model: use more temperatures."
        if gap > 0
        else "The reverse estimate should be the higher one: its chains did not start from samples of the model. "
        "Pass `data` or `initial`, or use a longer `burn_in`."
    )
    warnings.warn(
        f"Annealed importance sampling gives log Z = {result.lower:.2f} forward and {result.upper:.2f} in reverse; "
        f"their errors of {result.standard_error:.2f} and {result.upper_standard_error:.2f} do not explain this. "
        + reason,
        stacklevel=3,
    )
    return result
