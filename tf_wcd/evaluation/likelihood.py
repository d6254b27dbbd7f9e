"""The log-likelihood of data under a model of any size."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import numpy as np

from tf_wcd.arguments import is_integer
from tf_wcd.data_checks import check_visible
from tf_wcd.enumeration import MAX_UNITS
from tf_wcd.evaluation.annealed import AnnealedLogPartition, annealed_log_partition
from tf_wcd.evaluation.exact import free_energies, is_exact, log_partition, machine_of

if TYPE_CHECKING:
    from tf_wcd.layer import RBMLayer


@dataclasses.dataclass(frozen=True)
class LogLikelihood:
    """Log-likelihood of data in nats, and how it was found.

    Attributes:
        method: ``"exact"`` or ``"annealed"``.
        mean: mean over the examples.
        values: float64 ``[n]``, of each example.
        standard_error: error of log Z, common to all examples and so that of ``mean`` too; 0 where it is exact. It does
            not include the choice of the examples.
        lower: mean log-likelihood with the upper bound on log Z: too *low* on average.
        upper: mean log-likelihood with the lower bound on log Z: too *high* on average. ``mean`` is this one where it
            is estimated: AIS flatters a model.
        log_partition: log Z as it was used.
        annealed: all estimates of log Z, where they were made.
    """

    method: str
    mean: float
    values: np.ndarray = dataclasses.field(repr=False)
    standard_error: float
    lower: float
    upper: float
    log_partition: float
    annealed: AnnealedLogPartition | None = None


def log_likelihood(rbm: RBMLayer, x: Any, *, max_units: int = MAX_UNITS, **annealing: Any) -> LogLikelihood:
    """Log P(x) of each example: exact if the smaller side can be enumerated, else by annealed importance sampling.

    Args:
        rbm: a built `RBMLayer`.
        x: states ``[n, visible units]``.
        max_units: largest number of units to enumerate, at most 25; 0 for annealing always.
        **annealing: arguments of `annealed_log_partition`. Pass ``data``, the training data.

    Returns:
        A `LogLikelihood`; its ``method`` says which.

    Example:

    >>> rbm = tf_wcd.RBMLayer(5, kernel_initializer="zeros")
    >>> rbm.build((None, 3))
    >>> result = log_likelihood(rbm, np.eye(3))
    >>> result.method, round(result.mean / float(np.log(2)), 6)
    ('exact', -3.0)
    """
    if not is_integer(max_units) or not 0 <= max_units <= MAX_UNITS:
        raise ValueError(f"`max_units` must be an integer in [0, {MAX_UNITS}]. Received: max_units={max_units!r}")
    machine = machine_of(rbm).cast("float64")
    x = check_visible(x, machine.visible, machine.num_visible, dtype="float64", strict=True)
    log_weights = -free_energies(machine, x)
    total = float(log_weights.mean())
    if max_units and is_exact(machine, max_units):
        log_z = log_partition(rbm)
        mean = total - log_z
        return LogLikelihood("exact", mean, log_weights - log_z, 0.0, mean, mean, log_z)
    annealed = annealed_log_partition(rbm, **annealing)
    log_z = annealed.estimate
    return LogLikelihood(
        method="annealed",
        mean=total - log_z,
        values=log_weights - log_z,
        standard_error=annealed.standard_error,
        lower=total - annealed.upper,
        upper=total - annealed.lower,
        log_partition=log_z,
        annealed=annealed,
    )
