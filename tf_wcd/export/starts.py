"""Where the chains of the signature `sample` start.

Chains of a sharply trained model hardly leave the region that they start in, however many steps they run: their start
decides how often each region is seen. So the start is the model's distribution wherever all states can be listed, and
else as good as is known: samples of the model from its training, given states, or the means of the data.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from tf_wcd.data_checks import check_visible
from tf_wcd.enumeration import Side, all_states
from tf_wcd.machine import Machine
from tf_wcd.sampling.exact import exact_sampler
from tf_wcd.tables import array_of

# log2 of the number of states that are listed: those of so many binary units take 1 MB.
MOST_UNITS = 16


class Start(NamedTuple):
    """Start of the chains of one RBM.

    Attributes:
        name: "exact", "ptt", "states" or "means", for the metadata.
        means: ``[units]``, labels included.
        states: ``[n, units]``, of which each chain picks one; ``None`` to draw units independently with the means.
        cumulative: probabilities of the states, summed up to each one, ``[n]``.
    """

    name: str
    means: np.ndarray
    states: np.ndarray | None = None
    cumulative: np.ndarray | None = None


def start_of(
    given: Any,
    known_means: np.ndarray | None,
    machine: Machine,
    equilibrium: Callable[[], np.ndarray | None] | None = None,
) -> Start:
    """The start of a machine's chains.

    Args:
        given: means ``[units]``, states ``[n, units]``, or ``None`` for exact samples where all states can be listed
            and the known means elsewhere.
        known_means: means of the data, as far as they are known; the middle of the range if they are not.
        machine: the RBM.
        equilibrium: makes samples of the model ``[n, units]``, where the model can, for models that are too large for
            exact ones.

    Example:

    >>> rbm = tf_wcd.RBMLayer(4, seed=0)
    >>> rbm.build((None, 3))
    >>> start_of(None, None, rbm.machine()).name
    'exact'
    >>> start_of([0.5, 0.1, 0.9], None, rbm.machine()).name
    'means'
    >>> start_of([[0, 1, 1], [1, 0, 0]], None, rbm.machine()).cumulative
    array([0.5, 1. ])
    """
    if given is None:
        middle = machine.visible.midpoints(machine.num_visible)
        means = middle if known_means is None else np.asarray(known_means, "float64")
        if machine.visible.bits(machine.num_visible) <= MOST_UNITS:
            return _exact(machine, means)
        found = equilibrium() if equilibrium is not None else None
        if found is None or not np.isfinite(found).all():
            return Start("means", means)
        return Start("ptt", means, np.asarray(found, "float64"), _equal_shares(len(found)))
    values = array_of(given, "start").astype("float64")
    _check(values, given, machine)
    if values.ndim == 1:
        return Start("means", values)
    check_visible(values, machine.visible, machine.num_visible, "start", "float64", strict=True)
    return Start("states", values.mean(0), values, _equal_shares(len(values)))


def _equal_shares(count: int) -> np.ndarray:
    """Cumulative probabilities of states that are picked equally often."""
    return np.arange(1, count + 1) / count


def _exact(machine: Machine, means: np.ndarray) -> Start:
    sampler = exact_sampler(machine, Side(machine, visible=True))
    if not np.isfinite(sampler.log_probabilities).all():
        return Start("means", means)  # parameters that are not finite are refused elsewhere
    states = all_states(machine.visible, machine.num_visible, "float64").numpy()
    return Start("exact", means, states, sampler.cumulative.numpy())


def _check(values: np.ndarray, given: Any, machine: Machine) -> None:
    width = machine.num_visible
    good = values.ndim in (1, 2) and values.shape[-1] == width and values.size and np.isfinite(values).all()
    if not good:
        raise ValueError(
            f"`start` must hold finite means [{width}], or states [n, {width}]. Received: shape {np.shape(given)}"
        )
    known = machine.visible.describe_columns(width)
    if (values < known.low).any() or (values > known.high).any():
        raise ValueError(
            f"`start` must be {machine.visible.domain()} for {machine.visible.name!r} visible units. "
            f"Received: values from {values.min():g} to {values.max():g}"
        )
