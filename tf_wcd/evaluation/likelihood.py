"""The log-likelihood of data under a model of any size."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import numpy as np

from tf_wcd.enumeration import MAX_UNITS
from tf_wcd.evaluation.annealed import annealed_log_partition
from tf_wcd.evaluation.directions import AnnealedLogPartition
from tf_wcd.evaluation.exact import check_max_units, free_energies, is_exact, log_partition, machine_of

if TYPE_CHECKING:
    from tf_wcd.layer import RBMLayer


@dataclasses.dataclass(frozen=True)
class LogLikelihood:
    """Log-likelihood of data in nats, and how it was found.

    Attributes:
        method: ``"exact"`` or ``"annealed"``.
        mean: mean over the examples. Where it is estimated it is that of forward AIS, which flatters a model: it is too
            *high* on average, the less so the more temperatures.
        values: float64 ``[n]``, of each example.
        standard_error: error of log Z, common to all examples and so that of ``mean`` too; 0 where it is exact. It does
            not include the choice of the examples.
        lower: mean log-likelihood with the upper end of the interval of log Z, which holds if the reverse chains
            started from samples of the model; minus infinity without them.
        upper: mean log-likelihood with the lower end. ``mean`` lies between the two.
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
        **annealing: arguments of `annealed_log_partition`, which chooses its number of temperatures by default. Pass
            ``data``, the training data.

    Returns:
        A `LogLikelihood`; its ``method`` says which.

    Example:

    >>> rbm = tf_wcd.RBMLayer(5, kernel_initializer="zeros")
    >>> rbm.build((None, 3))
    >>> result = log_likelihood(rbm, np.eye(3))
    >>> result.method, round(result.mean / float(np.log(2)), 6)
    ('exact', -3.0)
    """
    max_units = check_max_units(max_units)
    machine = machine_of(rbm).cast("float64")
    x = rbm.checked_visible(x, dtype="float64", strict=True)
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
