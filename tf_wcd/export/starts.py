"""Where the chains of the signature `sample` start.

Chains of a sharply trained model hardly leave the region that they start in, however many steps they run: their start
decides how often each region is seen. So the start is the model's own distribution wherever all states can be listed,
and else as good as is known: given states, or the means of the data.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from tf_wcd.enumeration import all_states
from tf_wcd.evaluation import exact
from tf_wcd.machine import Machine
from tf_wcd.units import Labelled
from tf_wcd.units.labelled import number_of_labels

# All states of so many binary units are listed: 2**16 of them take 1.5 MB.
MOST_UNITS = 16


class Start(NamedTuple):
    """Start of the chains of one RBM.

    Attributes:
        name: "exact", "states" or "means", for the metadata.
        means: ``[units]``, labels included.
        states: ``[n, units]``, of which each chain picks one; ``None`` to draw units independently with the means.
        cumulative: probabilities of the states, summed up to each one, ``[n]``.
    """

    name: str
    means: np.ndarray
    states: np.ndarray | None = None
    cumulative: np.ndarray | None = None


def start_of(given: Any, known_means: np.ndarray | None, machine: Machine) -> Start:
    """The start of a machine's chains.

    Args:
        given: means ``[units]``, states ``[n, units]``, or ``None`` for exact samples where all states can be listed
            and the known means elsewhere.
        known_means: means of the data, as far as they are known; the middle of the range if they are not.
        machine: the RBM.

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
        means = _middle(machine) if known_means is None else np.asarray(known_means, "float64")
        if machine.visible.values is None or number_of_labels(machine.visible) or machine.num_visible > MOST_UNITS:
            return Start("means", means)
        return _exact(machine, means)
    values = np.asarray(given, "float64")
    _check(values, given, machine)
    if values.ndim == 1:
        return Start("means", values)
    _check_states(values, machine)
    shares = np.arange(1, len(values) + 1) / len(values)
    return Start("states", values.mean(0), values, shares)


def _exact(machine: Machine, means: np.ndarray) -> Start:
    wide = exact.as_float64(machine)
    states = all_states(machine.visible, machine.num_visible, "float64").numpy()
    logits = -exact.free_energies(wide, states)
    if not np.isfinite(logits).all():
        return Start("means", means)  # parameters that are not finite are refused elsewhere
    cumulative = np.cumsum(np.exp(logits - logits.max()))
    return Start("exact", means, states, cumulative / cumulative[-1])


def _middle(machine: Machine) -> np.ndarray:
    labels = number_of_labels(machine.visible)
    means = np.full([machine.num_visible], machine.visible.midpoint)
    means[len(means) - labels :] = 1 / max(labels, 1)
    return means


def _check(values: np.ndarray, given: Any, machine: Machine) -> None:
    width = machine.num_visible
    good = values.ndim in (1, 2) and values.shape[-1] == width and values.size and np.isfinite(values).all()
    if not good:
        raise ValueError(
            f"`start` must hold finite means [{width}], or states [n, {width}]. Received: shape {np.shape(given)}"
        )
    low, high = machine.visible.data_range
    if values.min() < low or values.max() > high:
        raise ValueError(
            f"`start` must be {machine.visible.domain()} for {machine.visible.name!r} visible units. "
            f"Received: values from {values.min():g} to {values.max():g}"
        )


def _check_states(states: np.ndarray, machine: Machine) -> None:
    labels = number_of_labels(machine.visible)
    own, label = np.split(states, [machine.num_visible - labels], axis=1)
    unit = machine.visible.base_unit if isinstance(machine.visible, Labelled) else machine.visible
    if unit.values is not None and not np.isin(own, unit.values).all():
        strange = own[~np.isin(own, unit.values)][0]
        raise ValueError(
            f"States to start from must be {unit.values[0]:g} or {unit.values[1]:g} for {unit.name!r} visible units "
            f"(grey levels are made black and white first). Received: {strange:g}"
        )
    wrong = ~(np.isin(label, (0, 1)).all(1) & (label.sum(1) == 1))
    if labels and wrong.any():
        row = int(wrong.argmax())
        raise ValueError(
            f"Labels of states to start from must be one-hot. Received: {label[row].tolist()} in row {row}"
        )
