"""Whether a machine has a finite normaliser: with real units on both sides it depends on the weights.

Far out, the energy of real units is a quadratic form: x**2 / (2 v) for each unit, where v is the variance that the unit
falls off with, minus x W h. Z is finite if that grows in all directions in which there are states.
"""

from __future__ import annotations

import numpy as np
import tensorflow as tf

from tf_wcd.machine import Machine
from tf_wcd.units import Unit


def coupling(machine: Machine) -> np.ndarray:
    """How strongly real units of both sides couple, ``[...]``: below 1 the normaliser is finite.

    It is 0 where one side has no real units. For Gaussian units on both sides it is the spectral norm of the kernel in
    units of their standard deviations, and from 1 on there is no normaliser. For other units it is a bound: the
    normaliser may be finite a little beyond it.

    Example:

    >>> rbm = tf_wcd.RBMLayer(1, visible_type="gaussian", hidden_type="gaussian", kernel_initializer="ones")
    >>> rbm.build((None, 1))
    >>> float(coupling(rbm.machine()))
    1.0
    """
    visible = [np.asarray(end, "float64") for end in machine.visible.tails(machine.num_visible)]
    hidden = [np.asarray(end, "float64") for end in machine.hidden.tails(machine.num_hidden)]
    if not any(end.any() for end in visible) or not any(end.any() for end in hidden):
        return np.zeros(machine.members)
    if not all(np.isfinite(end).all() for end in (*visible, *hidden)):
        return np.full(machine.members, np.inf)
    kernel = np.asarray(machine.kernel, "float64")

    def scaled(rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
        return np.sqrt(rows)[..., :, None] * kernel * np.sqrt(columns)[..., None, :]

    # Two bounds. One knows no signs. The other takes each unit as two that are not negative, and leaves out the
    # weights that only raise the energy.
    either = _norm(scaled(np.maximum(*visible), np.maximum(*hidden)))
    (down, up), (below, above) = visible, hidden
    positive = np.concatenate(
        [
            np.concatenate([scaled(up, above), -scaled(up, below)], axis=-1),
            np.concatenate([-scaled(down, above), scaled(down, below)], axis=-1),
        ],
        axis=-2,
    )
    return np.minimum(either, _norm(np.maximum(positive, 0.0)))


def check_normaliser(machine: Machine) -> None:
    """Raises ValueError where real units of both sides are coupled too strongly."""
    # Weights have no values while a graph is made.
    if tf.executing_eagerly() and (message := flaw(machine)):
        raise ValueError(message)


def check_sides(visible: Unit, num_visible: int, hidden: Unit, num_hidden: int) -> None:
    """Raises ValueError where both sides have real units, and some do not say how their density falls off."""
    ends = [np.maximum(*unit.tails(n)) for unit, n in ((visible, num_visible), (hidden, num_hidden))]
    if all(end.any() for end in ends) and not all(np.isfinite(end).all() for end in ends):
        raise ValueError(
            "With real units on both sides the model may have no finite normaliser: both unit types must say how their "
            f"densities fall off, by `Unit.tails`. Received: {visible.name!r} visible and {hidden.name!r} hidden units"
        )


def flaw(machine: Machine) -> str:
    """What is wrong with a machine that has no finite normaliser; empty if all is well.

    An ensemble has a flaw if each of its members has.
    """
    strength = np.min(coupling(machine))
    if strength < 1.0 or np.isnan(strength):
        return ""
    return (
        "With real units on both sides, large weights may leave the model without a finite normaliser: the spectral "
        "norm of the kernel, in units of the standard deviations, must be below 1. "
        f"Received: {strength:.4g}, for {machine.visible.name!r} visible and {machine.hidden.name!r} hidden units"
    )


def _norm(matrix: np.ndarray) -> np.ndarray:
    """Spectral norm along the last two axes, from the smaller of the two products with the transpose."""
    other = np.swapaxes(matrix, -1, -2)
    square = other @ matrix if matrix.shape[-1] <= matrix.shape[-2] else matrix @ other
    if not np.isfinite(square).all():
        return np.full(square.shape[:-2], np.nan)
    return np.sqrt(np.maximum(np.linalg.eigvalsh(square)[..., -1], 0.0))
