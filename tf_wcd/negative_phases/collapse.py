"""Weights that have collapsed onto one point, and what to do about it."""

from __future__ import annotations

from tf_wcd.negative_phases.composition import NegativePhase

FEW = 2.0  # effective points
LEAST_POINTS = 10  # of which so few are a fault


def collapse_warning(phase: NegativePhase, ess: float, points: int | None) -> str | None:
    """What to say of weights with this effective sample size; ``None`` if there is nothing to say.

    Args:
        phase: the negative phase.
        ess: effective sample size as a fraction of the points, the mean over an epoch (and over the members of an
            ensemble).
        points: number of points; ``None`` if it is not known.

    Example:

    >>> from tf_wcd.negative_phases import WPCD
    >>> collapse_warning(WPCD(), ess=0.012, points=100).rpartition(": ")[2]
    'try negative_phase="pcd" or `minimum_ess=0.5`.'
    >>> collapse_warning(WPCD(), ess=0.12, points=100)
    """
    remedies = phase.weights.remedies(phase.source)
    if not remedies or points is None or points < LEAST_POINTS or not ess * points < FEW:
        return None
    *others, last = remedies
    return (
        f"The weights of the negative phase stayed on about {ess * points:.1f} of {points} points for a whole epoch "
        f"(`ess` {ess:.2g}), so that each step has the noise of so few samples: try {', '.join(others)} or {last}."
    )
