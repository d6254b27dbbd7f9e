"""What annealing in both directions says of log Z together: estimates, an interval, and whether they can be believed.

Forward weights estimate Z without bias, so that a forward estimate of log Z is seldom much too high: the chance that it
is so by a nats is at most exp(-a). For reverse weights of chains that started from samples of the model it is the other
way round. So a forward estimate that lies far above a reverse one tells of reverse chains that started elsewhere.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any, NamedTuple

import numpy as np

from tf_wcd.evaluation.importance import bennett, effective_number, log_mean_error, log_mean_exp

ERRORS = 2.0  # standard errors that an interval reaches beyond its estimates: 95 % of normal deviations
CHANCE = 3.0  # standard errors that the reverse estimate may lie below the forward one by
LEAST_SHARE = 0.2  # of the chains, as an effective sample size: with 100 chains the error is 0.2 nats


@dataclasses.dataclass(frozen=True)
class AnnealedLogPartition:
    """Estimates of log Z in nats.

    Attributes:
        estimate: annealed importance sampling (AIS), the mean weight of the forward chains. Z itself is estimated
            without bias, so log Z is too *low* on average, the more so the fewer temperatures and chains.
        standard_error: of ``estimate``. It knows only what the chains have seen: where all of them miss a part of the
            model, the error is larger than it says.
        lower: lower end of the interval. It covers ``estimate``, ``reverse_estimate`` and two standard errors on both
            sides of each, and ``bridge``. Where the reverse estimate is the lower one, the interval also reaches as far
            above the forward estimate as the reverse one lies below it.
        upper: upper end of the interval, never below ``lower``; infinite if no reverse chains were run. It holds *if*
            the reverse chains started from samples of the model (see ``reverse_start``).
        reverse_estimate: reverse AIS, an upper bound on log Z in expectation if its chains started from samples of the
            model; infinite if none were run.
        reverse_standard_error: of ``reverse_estimate``; NaN without it. It takes the chains for independent, which
            those of a population with common ancestors are not quite.
        bridge: Bennett's acceptance ratio, from the weights of both directions, the best of the three where they
            agree; NaN without reverse chains.
        bridge_standard_error: of ``bridge``.
        effective_sample_size: of the forward weights, between 1 and the number of chains.
        reverse_effective_sample_size: of the reverse weights; NaN without them.
        reverse_start: what the reverse chains started from: ``"exact"`` (independent samples by enumeration),
            ``"initial"`` (what was passed, and Gibbs steps), ``"ptt"`` (exchange with the moments of the model's own
            training), ``"pt"`` (exchange between temperatures), ``"annealed"`` (a population that was resampled along
            the path, taken where those of ``"pt"`` were found not to be samples of the model), ``"data"`` or
            ``"random"`` (these without any step, for ``burn_in=0``), or ``"none"``.
        temperatures: number of temperatures of the run that is reported.
        agrees: whether the reverse estimate is above the forward one by no more than the tolerance and two standard
            errors, and below it by no more than three, or half the tolerance; and whether both have effective sample
            sizes of at least a fifth of the chains.
        reason: why, or why not, in words.
        log_weights: float64 ``[chains]``, forward, with the log Z of the base model added: each is by itself an
            estimate of log Z.
        reverse_log_weights: the same for the reverse chains, each negated so that it also estimates log Z.
    """

    estimate: float
    standard_error: float
    lower: float
    upper: float
    reverse_estimate: float
    reverse_standard_error: float
    bridge: float
    bridge_standard_error: float
    effective_sample_size: float
    reverse_effective_sample_size: float
    reverse_start: str
    temperatures: int
    agrees: bool
    reason: str
    log_weights: np.ndarray = dataclasses.field(repr=False)
    reverse_log_weights: np.ndarray = dataclasses.field(repr=False)

    @property
    def upper_standard_error(self) -> float:
        """``reverse_standard_error`` by its name in version 0.1."""
        return self.reverse_standard_error


class Problem(NamedTuple):
    """Why an estimate is not to be believed as it is.

    Attributes:
        words: what was found, and what to do.
        too_short: whether more temperatures help.
        wrong_starts: whether the reverse chains did not start from samples of the model.
    """

    words: str
    too_short: bool
    wrong_starts: bool = False


class Direction(NamedTuple):
    """One direction's estimate of log Z."""

    name: str
    value: float
    error: float
    effective: float
    chains: int


def summarise(
    forward: np.ndarray,
    reverse: np.ndarray | None,
    log_base: float,
    *,
    origin: str,
    temperatures: int,
    tolerance: float,
    rounding: float,
) -> tuple[AnnealedLogPartition, list[Problem]]:
    """Everything that follows from the weights, and what is wrong with it.

    Args:
        forward: log weights ``[chains]`` of the forward chains.
        reverse: those of the reverse chains; ``None`` without them.
        log_base: log Z of the base model.
        origin: what the reverse chains started from.
        temperatures: their number.
        tolerance: nats that the two directions may differ by, beyond their errors.
        rounding: relative error of a number, for models that leave nothing to chance.
    """
    ahead = _direction("forward", log_base, forward, 1.0, rounding)
    common: dict[str, Any] = {
        "estimate": ahead.value,
        "standard_error": ahead.error,
        "effective_sample_size": ahead.effective,
        "reverse_start": origin,
        "temperatures": temperatures,
        "log_weights": log_base + forward,
    }
    if reverse is None:
        reason = "Only forward chains were run: nothing bounds log Z from above."
        return _forward_only(ahead, reason, common), _low([ahead])
    back = _direction("reverse", log_base, reverse, -1.0, rounding)
    ratio, sampling = bennett(forward, reverse)
    bridge = log_base + ratio
    lower, upper = _interval(ahead, back)
    problems = _problems(ahead, back, bridge, (lower, upper), tolerance)
    result = AnnealedLogPartition(
        **common,
        lower=min(lower, bridge),
        upper=max(upper, bridge),
        reverse_estimate=back.value,
        reverse_standard_error=back.error,
        bridge=bridge,
        bridge_standard_error=math.hypot(sampling, rounding * bridge),
        reverse_effective_sample_size=back.effective,
        agrees=not problems,
        reason=_reason(ahead, back, origin, problems),
        reverse_log_weights=log_base - reverse,
    )
    return result, problems


def _direction(name: str, log_base: float, log_weights: np.ndarray, sign: float, rounding: float) -> Direction:
    value = log_base + sign * log_mean_exp(log_weights)
    # A model of independent units leaves nothing to chance: what remains is the rounding of the sums.
    error = math.hypot(log_mean_error(log_weights), rounding * value)
    return Direction(name, value, error, effective_number(log_weights), len(log_weights))


def _forward_only(ahead: Direction, reason: str, common: dict[str, Any]) -> AnnealedLogPartition:
    return AnnealedLogPartition(
        **common,
        lower=ahead.value - ERRORS * ahead.error,
        upper=math.inf,
        reverse_estimate=math.inf,
        reverse_standard_error=math.nan,
        bridge=math.nan,
        bridge_standard_error=math.nan,
        reverse_effective_sample_size=math.nan,
        agrees=False,
        reason=reason,
        reverse_log_weights=np.empty(0),
    )


def _interval(ahead: Direction, back: Direction) -> tuple[float, float]:
    """What both directions cover with their errors.

    A reverse estimate below the forward one bounds nothing. How far below it is, then is all that is known of what the
    chains miss, and the interval reaches as far to the other side.
    """
    ends = [value + sign * ERRORS * error for _, value, error, *_ in (ahead, back) for sign in (-1.0, 1.0)]
    return min(ends), max(ends) + max(0.0, ahead.value - back.value)


def _problems(
    ahead: Direction, back: Direction, bridge: float, covered: tuple[float, float], tolerance: float
) -> list[Problem]:
    gap, error = back.value - ahead.value, math.hypot(ahead.error, back.error)
    errors = f"which their errors of {ahead.error:.2f} and {back.error:.2f} do not explain"
    found = []
    if gap > tolerance + ERRORS * error:
        words = f"the two are {gap:.2f} nats apart, {errors}: use more temperatures (a larger `budget`)"
        found.append(Problem(words, True))
    # Too few temperatures set the two apart. But nothing except chance and wrong starts puts them into the wrong order.
    if gap < -max(CHANCE * error, 0.5 * tolerance):
        words = (
            f"the reverse estimate should be the higher one and is lower by {-gap:.2f}, {errors}: its chains did not "
            "start from samples of the model, and the interval was widened. Pass such samples as `initial`, or `data` "
            'and a longer `burn_in`, or train with "ptt"'
        )
        found.append(Problem(words, False, wrong_starts=True))
    found += _low([ahead, back])
    if not covered[0] <= bridge <= covered[1]:
        words = (
            f"the bridge of {bridge:.2f} lies outside of what both cover with their errors, because the weights of the "
            "two hardly overlap: use more temperatures or chains"
        )
        found.append(Problem(words, True))
    return found


def _low(directions: list[Direction]) -> list[Problem]:
    """Effective sample sizes that are too low."""
    return [
        Problem(
            f"the {each.name} chains have an effective sample size of {each.effective:.1f} of {each.chains}, "
            "too low for their error to be known: use more temperatures",
            True,
        )
        for each in directions
        if each.effective < LEAST_SHARE * each.chains
    ]


def _reason(ahead: Direction, back: Direction, origin: str, problems: list[Problem]) -> str:
    values = f"log Z is {ahead.value:.2f} forward and {back.value:.2f} in reverse"
    if problems:
        return f"{values}: {'; '.join(each.words for each in problems)}."
    errors = f"with errors of {ahead.error:.2g} and {back.error:.2g}"
    start = "" if origin == "exact" else f" The upper end holds if their starts ({origin}) are samples of the model."
    return f"The two directions agree: {values}, {errors}.{start}"
