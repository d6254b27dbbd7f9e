"""The best interval of log Z that can be defended, whatever it comes from."""

from __future__ import annotations

import dataclasses
import math
import warnings
from typing import TYPE_CHECKING, Any

from tf_wcd.enumeration import MAX_UNITS
from tf_wcd.evaluation.annealed import annealed_log_partition
from tf_wcd.evaluation.directions import ERRORS
from tf_wcd.evaluation.exact import check_max_units, is_exact, log_partition, machine_of
from tf_wcd.evaluation.online import known_log_partition

if TYPE_CHECKING:
    from tf_wcd.layer import RBMLayer

LARGEST_ERROR = 1.0  # of a running log Z: beyond a nat its error is not known either
STUDENT = 2.3  # standard errors of ten groups of chains that cover as much as two of a normal deviation


@dataclasses.dataclass(frozen=True)
class LogPartitionInterval:
    """An interval that log Z lies in, in nats.

    Attributes:
        estimate: of log Z, inside the interval.
        lower: its lower end.
        upper: its upper end. The interval is meant to hold in 19 of 20 cases.
        standard_error: of ``estimate``; 0 where it is exact. Where the interval covers several estimates, a quarter of
            its width.
        method: ``"exact"``; ``"annealed"`` for annealed importance sampling in both directions; or ``"online"`` for
            what a model has watched while it trained, with ``"ptt"`` or ``"jpcd"``.
        reason: why this one was chosen, what the others say, and what it rests on, in words.
    """

    estimate: float
    lower: float
    upper: float
    standard_error: float
    method: str
    reason: str


def log_partition_interval(
    rbm: RBMLayer, data: Any = None, *, max_units: int = MAX_UNITS, seed: int | None = None, **annealing: Any
) -> LogPartitionInterval:
    """The narrowest interval of log Z that can be defended.

    It is exact where one side can be enumerated. Otherwise annealed importance sampling is run in both directions, and
    the estimate is Bennett's bridge between them. Its own error counts where the two agree and the reverse chains
    started from exact samples; else the interval covers both directions and their errors. A model that was trained with
    ``"ptt"`` or ``"jpcd"`` has a running log Z besides. The narrower of the two intervals is returned. Where they do
    not even touch, the one returned covers both, and the reason says so.

    Args:
        rbm: a built `RBMLayer`.
        data: ``[n, visible units]``, training data, for the annealing.
        max_units: largest number of units to enumerate, at most 25; 0 for estimates always.
        seed: an integer for reproducible estimates; if not given, each call draws new ones.
        **annealing: other arguments of `annealed_log_partition`. Its warnings are in the reason.

    Example:

    >>> rbm = tf_wcd.RBMLayer(5, kernel_initializer="zeros")
    >>> rbm.build((None, 3))
    >>> result = log_partition_interval(rbm)
    >>> result.method, round(result.estimate / float(np.log(2)), 6), result.upper - result.lower
    ('exact', 8.0, 0.0)
    """
    machine, max_units = machine_of(rbm), check_max_units(max_units)
    if not annealing.get("reverse", True):
        raise ValueError("An interval needs both directions of annealing. Received: reverse=False")
    if max_units and is_exact(machine, max_units):
        log_z = float(log_partition(rbm))
        return LogPartitionInterval(log_z, log_z, log_z, 0.0, "exact", "The sum over all states is exact.")
    annealed, online = _annealed(rbm, data=data, seed=seed, **annealing), _online(rbm)
    if online is None:
        return annealed
    if online.standard_error > LARGEST_ERROR:
        words = f"The running log Z of the training has an error of {online.standard_error:.2g} nats and is left out."
        return dataclasses.replace(annealed, reason=f"{annealed.reason} {words}")
    return _narrower(annealed, online)


def _annealed(rbm: RBMLayer, **arguments: Any) -> LogPartitionInterval:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # the reason has the words
        result = annealed_log_partition(rbm, **arguments)
    if result.agrees and result.reverse_start == "exact":
        reach = ERRORS * result.bridge_standard_error
        ends = result.bridge - reach, result.bridge + reach
        reason = f"Bennett's bridge between annealing in both directions, and its error. {result.reason}"
        return LogPartitionInterval(result.bridge, *ends, result.bridge_standard_error, "annealed", reason)
    # The bridge's own error does not know of starts that are not quite samples of the model.
    error = max(result.bridge_standard_error, 0.25 * (result.upper - result.lower))
    reason = f"Annealing in both directions, which the interval covers with their errors. {result.reason}"
    return LogPartitionInterval(result.bridge, result.lower, result.upper, error, "annealed", reason)


def _online(rbm: RBMLayer) -> LogPartitionInterval | None:
    known = known_log_partition(rbm)
    if known is None:
        return None
    error = known.standard_error if math.isfinite(known.standard_error) else math.inf
    ends = known.estimate - STUDENT * error, known.estimate + STUDENT * error
    reason = f"The running log Z of the training by {type(rbm.negative_phase).__name__}."
    return LogPartitionInterval(known.estimate, *ends, error, "online", reason)


def _narrower(one: LogPartitionInterval, other: LogPartitionInterval) -> LogPartitionInterval:
    """The narrower of two intervals that touch, or one that covers both; either says what both are."""
    best, second = sorted((one, other), key=lambda each: each.upper - each.lower)
    says = f"{second.method}: {second.estimate:.2f} between {second.lower:.2f} and {second.upper:.2f}"
    lower, upper = min(best.lower, second.lower), max(best.upper, second.upper)
    if second.lower <= best.upper and best.lower <= second.upper:
        return dataclasses.replace(best, reason=f"{best.reason} The other estimate agrees ({says}).")
    own = f"{best.method}: {best.estimate:.2f} between {best.lower:.2f} and {best.upper:.2f}"
    reason = (
        f"The estimates disagree ({own}; {says}), so the interval covers both. At least one of them comes from chains "
        f"that were not samples of their models. {best.reason} {second.reason}"
    )
    error = max(best.standard_error, 0.25 * (upper - lower))
    return LogPartitionInterval(best.estimate, lower, upper, error, best.method, reason)
