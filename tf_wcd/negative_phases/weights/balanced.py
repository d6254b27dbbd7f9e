"""P divided by the density that the points were drawn from."""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf

from tf_wcd import replicas
from tf_wcd.machine import Machine
from tf_wcd.negative_phases.base import Batch, Points, PointSource, State, Weights
from tf_wcd.negative_phases.points.reconstructions import Reconstructed, log_sum_of_overlaps
from tf_wcd.negative_phases.weights.log_weights import check_minimum_ess, remedies, tempered_log_weights

SIDES = ("hidden", "visible")


@keras.saving.register_keras_serializable(package="tf_wcd")
class BalancedWeights(Weights):
    """P / q of reconstructions, where q is the mixture of all their conditionals (the balance heuristic).

    On the hidden side q is the density of the first hidden states, the mean over the batch of P(h | x_j). The weights
    P(h_m) / q(h_m) are right for h_m and stay right through any number of Gibbs steps. On the visible side q is that of
    the points themselves, the mean of P(x | h_j) over the last hidden states. Either way weighted means tend to the
    model's expectations as the number of points grows, whatever the examples are. The mixture has equal shares: sample
    weights do not change how often a point is drawn.

    On the visible side, other points with a known density have such weights too: neighbours, random states, and several
    sources joined, where q is the density of all of them together.

    Args:
        side: ``"hidden"`` or ``"visible"``.
        minimum_ess: the effective sample size to keep, as a fraction of the number of points; 0 for the plain weights.
        mixture: divide by the mixture. Without it each point is divided by the conditional that it was drawn from
            (population Monte Carlo as in Krause, Fischer and Igel 2015), which is consistent too, but noisier. Only
            reconstructions have one.
    """

    members_apart = True

    def __init__(self, side: str = "hidden", minimum_ess: float = 0.0, mixture: bool = True) -> None:
        if side not in SIDES:
            raise ValueError(f"`side` must be one of {list(SIDES)}. Received: side={side!r}")
        self.side, self.mixture = side, bool(mixture)
        self.minimum_ess = check_minimum_ess(minimum_ess)

    def log_weights(self, machine: Machine, batch: Batch, points: Points, state: State) -> tuple[tf.Tensor, State]:
        if not isinstance(points, Reconstructed):
            ratio = self._ratio(machine, points)
        elif self.side == "hidden":
            ratio = self._hidden_side(machine, batch, points)
        else:
            ratio = self._visible_side(machine, points)
        log_weights = replicas.normalise(ratio)
        return tempered_log_weights(log_weights, self.minimum_ess) if self.minimum_ess else log_weights, state

    # Each gives log P / q up to a constant, ``[..., M]``. The base energy of a state is in P and in q alike, and left
    # out of both.

    def _hidden_side(self, machine: Machine, batch: Batch, points: Reconstructed) -> tf.Tensor:
        """Of the first hidden states."""
        first = batch if points.start is None else points.start
        field = machine.visible_field(points.hidden)
        target, cumulants = machine.visible.total_cumulant(field), machine.hidden.total_cumulant(first.hidden_field)
        if machine.num_visible > machine.num_hidden:
            target += _bias(points.hidden, machine.hidden_bias)
            return target - self._log_density(points.hidden, first.hidden_field, cumulants)
        # By Bayes' rule P(h | x) / P(h) = P(x | h) / P(x): the same ratio by a product over the smaller side.
        return target - self._log_density(field, first.visible, cumulants + _bias(first.visible, machine.visible_bias))

    def _visible_side(self, machine: Machine, points: Reconstructed) -> tf.Tensor:
        """Of the points themselves."""
        target = _bias(points.visible, machine.visible_bias) + machine.hidden.total_cumulant(points.hidden_field)
        cumulants = machine.visible.total_cumulant(points.visible_field)
        return target - self._log_density(points.visible, points.visible_field, cumulants)

    def _ratio(self, machine: Machine, points: Points) -> tf.Tensor:
        """Of points on the visible side that are no reconstructions."""
        density = points.log_density(machine, points.visible)
        if self.side == "hidden" or not self.mixture:
            raise ValueError(
                'Points other than reconstructions are balanced by BalancedWeights(side="visible"), with the mixture. '
                f"Received: {type(points).__name__}, side={self.side!r}, mixture={self.mixture}"
            )
        return -machine.free_energy(points.visible, points.hidden_field) - density

    def _log_density(self, rows: tf.Tensor, columns: tf.Tensor, cumulants: tf.Tensor) -> tf.Tensor:
        """log sum_j exp(row_m . column_j - cumulant_j), ``[..., M]``; without the mixture, j = m alone."""
        if not self.mixture:
            return tf.reduce_sum(rows * columns, axis=-1) - cumulants
        return log_sum_of_overlaps(rows, columns, cumulants)

    def remedies(self, source: PointSource) -> tuple[str, ...]:
        return remedies([name for name in source.alternatives() if name != "bcd"], self.minimum_ess)

    def get_config(self) -> dict[str, Any]:
        return {"side": self.side, "minimum_ess": self.minimum_ess, "mixture": self.mixture}


def _bias(states: tf.Tensor, bias: tf.Tensor) -> tf.Tensor:
    return tf.matmul(states, bias[..., None])[..., 0]
