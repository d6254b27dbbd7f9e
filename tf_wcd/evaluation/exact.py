"""Exact likelihoods, by enumeration of the smaller side.

The sum over one side is done in closed form (the free energy), so only the other side is enumerated, in chunks: memory
is bounded whatever the size. Terms are computed in float64, and added by a running log-sum-exp in float64.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import tensorflow as tf

from tf_wcd.arguments import check_integer, is_integer
from tf_wcd.data_checks import check_sample_weight
from tf_wcd.enumeration import CHUNK_BYTES, MAX_UNITS, Side, smaller_side
from tf_wcd.evaluation import factored
from tf_wcd.evaluation.normal import all_normal, log_normal_integral
from tf_wcd.machine import Machine
from tf_wcd.normaliser import check_normaliser
from tf_wcd.tables import array_of
from tf_wcd.training.imputation import free_energy_of_known

if TYPE_CHECKING:
    from tf_wcd.layer import RBMLayer

MEMORY_LIMIT = 2**29


def log_partition(rbm: RBMLayer, memory_limit: int = MEMORY_LIMIT) -> Any:
    """Exact log Z, of one model or of every member of an ensemble.

    The smaller side is enumerated (the hidden side for real visible units), up to 25 binary units. Gaussian units on
    both sides need no enumeration: their integral has a closed form.

    Args:
        rbm: a built `RBMLayer`.
        memory_limit: bytes for tables and chunks of states. The fast sum needs tables of 16 bytes for each unit of the
            larger side and each of up to 2^15 states; where they would not fit, states are added chunk by chunk,
            which takes several times as long.

    Returns:
        log Z in nats, in float64; an array ``[count]`` for an ensemble.

    Raises:
        ValueError: if the smaller side has more than 25 units.

    Example:

    >>> rbm = tf_wcd.RBMLayer(4, kernel_initializer="zeros")
    >>> rbm.build((None, 3))
    >>> round(float(log_partition(rbm) / np.log(2)), 9)  # the uniform model: 2^(3 + 4) states
    7.0
    """
    log_z = log_partition_of(rbm.machine(), memory_limit).numpy()
    return log_z if log_z.shape else float(log_z)


def log_partition_of(machine: Machine, memory_limit: int = MEMORY_LIMIT) -> tf.Tensor:
    """Exact log Z of a machine, float64: see `log_partition`."""
    check_integer("memory_limit", memory_limit)
    check_normaliser(machine)
    wide = machine.cast("float64")
    if all_normal(wide):
        return log_normal_integral(wide)
    side = smaller_side(wide)
    if side.bits > MAX_UNITS:
        if math.isinf(side.bits):
            raise ValueError(
                "Exact evaluation needs a side of finitely many states, or Gaussian units on both. "
                f"Received: {machine.visible.name!r} visible and {machine.hidden.name!r} hidden units. "
                "Use `tf_wcd.evaluation.annealed_log_partition`."
            )
        raise ValueError(
            f"Exact evaluation enumerates the smaller side, of at most {MAX_UNITS} units. "
            f"Received: {machine.num_visible} visible ({machine.visible.name}) x {machine.num_hidden} hidden "
            f"({machine.hidden.name}) units. Use `tf_wcd.evaluation.annealed_log_partition`."
        )
    group = factored.factors_per_logarithm(side)
    if group and factored.bytes_of_tables(side) <= memory_limit:
        return factored.log_sum(side, group)
    return _log_sum(side, side.chunk_size(_chunk_bytes(memory_limit)))


def is_exact(machine: Machine, max_units: float = MAX_UNITS) -> bool:
    """Whether log Z can be found exactly: in closed form, or by enumeration of at most so many binary units."""
    return all_normal(machine) or smaller_side(machine).bits <= max_units


def check_max_units(max_units: Any) -> int:
    """Number of units that may be enumerated, checked."""
    if not is_integer(max_units) or not 0 <= max_units <= MAX_UNITS:
        raise ValueError(f"`max_units` must be an integer in [0, {MAX_UNITS}]. Received: max_units={max_units!r}")
    return int(max_units)


def log_prob(rbm: RBMLayer, x: Any, memory_limit: int = MEMORY_LIMIT) -> np.ndarray:
    """Exact log P(x) in nats (for real visible units, the log-density).

    Args:
        rbm: a built `RBMLayer` with at most 25 units on its smaller side.
        x: states ``[n, visible units]``. Of a layer with ``missing="nan"``, NaN stands for unknown entries: the result
            is log P(known entries), where one side has at most 2^10 states. Of a layer with ``conditions``,
            ``[x, condition]``: the result is log P(x | condition).
        memory_limit: as for `log_partition`; besides it there is one copy of ``x`` in float64.

    Returns:
        float64 ``[n]``, or ``[count, n]`` for an ensemble.
    """
    if getattr(rbm, "conditions", 0) and isinstance(x, list | tuple):
        from tf_wcd.evaluation.conditional import conditional_log_prob  # which is made of `log_partition_of`

        return conditional_log_prob(rbm, x, memory_limit)
    machine = rbm.machine().cast("float64")
    missing = bool(rbm.missing)
    x = rbm.checked_visible(x, dtype="float64", strict=True, missing=missing)
    log_z = np.asarray(log_partition(rbm, memory_limit))
    if missing and np.isnan(x).any():
        return -free_energy_of_known(machine, tf.constant(x)).numpy() - log_z[..., None]
    return -free_energies(machine, x, memory_limit) - log_z[..., None]


def free_energies(machine: Machine, x: np.ndarray, memory_limit: int = MEMORY_LIMIT) -> np.ndarray:
    """F of each row of x, in chunks."""
    rows = max(1, _chunk_bytes(memory_limit) // (8 * _row_width(machine)))
    parts = [machine.free_energy(tf.constant(x[i : i + rows])) for i in range(0, len(x), rows)]
    return np.concatenate(parts, axis=-1)


def kl_divergence(rbm: RBMLayer, states: Any, probabilities: Any, memory_limit: int = MEMORY_LIMIT) -> Any:
    """Exact Kullback-Leibler divergence KL(target || model) in nats.

    Args:
        rbm: a built `RBMLayer` with at most 25 units on its smaller side.
        states: the distinct states of the target distribution, ``[n, visible units]``.
        probabilities: their probabilities ``[n]``, with sum one. States that are not listed have probability zero.
        memory_limit: as for `log_prob`.

    Returns:
        The divergence in nats, in float64; an array ``[count]`` for an ensemble.
    """
    states = array_of(states, "states", None if rbm.classes else rbm.feature_names_in_)
    probabilities = check_probabilities(probabilities, len(states))
    return kl_from_log_prob(log_prob(rbm, states, memory_limit), probabilities)


def kl_from_log_prob(log_probabilities: np.ndarray, target: np.ndarray) -> Any:
    """sum p (log p - log P) over the states with p > 0, along the last axis."""
    some = target > 0
    kl = np.sum(target[some] * (np.log(target[some]) - log_probabilities[..., some]), axis=-1)
    return kl if kl.shape else float(kl)


def check_probabilities(probabilities: Any, count: int) -> np.ndarray:
    """Probabilities of so many states, float64 ``[count]``, scaled to have the sum one."""
    probabilities = check_sample_weight(probabilities, count, "probabilities")
    if not math.isclose(probabilities.sum(), 1.0, rel_tol=1e-5):
        raise ValueError(f"`probabilities` must have the sum 1. Received: sum {probabilities.sum()}")
    return probabilities / probabilities.sum()


def machine_of(rbm: RBMLayer) -> Machine:
    """The machine of one RBM.

    Raises:
        ValueError: for an ensemble, where only one model can be evaluated at a time.
    """
    machine = rbm.machine()
    if machine.members:
        raise ValueError(
            "One model is evaluated at a time: pass `ensemble.member(index)`. "
            f"Received: an ensemble of {machine.members[0]} members"
        )
    return machine


def _chunk_bytes(memory_limit: int) -> int:
    """Bytes of one array of a chunk: a handful of them are there at a time."""
    return min(CHUNK_BYTES, memory_limit // 6)


def _log_sum(side: Side, chunk: int) -> tf.Tensor:
    from tensorflow_probability import math as tfp_math  # which takes a second or two to import

    count = side.num_states

    def body(start: tf.Tensor, total: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        numbers = start + tf.range(chunk)
        energies = side.free_energy(side.states_at(tf.minimum(numbers, count - 1)))
        terms = tf.where(numbers < count, -energies, tf.constant(-np.inf, tf.float64))
        return start + chunk, tfp_math.log_add_exp(total, tf.reduce_logsumexp(terms, axis=-1))

    start = tf.constant(0), tf.fill(side.machine.members, tf.constant(-np.inf, tf.float64))
    _, total = tf.while_loop(lambda i, _: i < count, body, start, parallel_iterations=1)
    return total


def _row_width(machine: Machine) -> int:
    """Numbers that one enumerated state takes, over all members."""
    return max(machine.num_visible, machine.num_hidden) * math.prod(machine.members)
