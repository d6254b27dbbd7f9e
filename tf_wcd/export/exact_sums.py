"""An RBM whose sums are exact, so that a row's answer cannot depend on the rows beside it.

Floating-point sums depend on the order of their terms, and matrix products take them in an order that depends on the
number of rows, of threads, and on the library. A client would get other samples from a batch than alone. Here every
term of a sum is a multiple of a power of two, coarse enough for all partial sums to fit into the mantissa: no sum is
ever rounded, and any order gives the same bits. The parameters are rounded to such multiples once, when exported.

Functions of single elements are dealt with by `tf_wcd.export.layout`.
"""

from __future__ import annotations

import dataclasses

import numpy as np
import tensorflow as tf

from tf_wcd.export.layout import LANES, Layout, single
from tf_wcd.export.steps import exact_sum, rounded, snap, step_for
from tf_wcd.machine import Machine
from tf_wcd.random import Source

# The coarsest steps of the parameters that single precision may have; chains of models with larger weights run in
# double.
COARSEST = -14
# Steps of the weights of labels, and of expectations weighted with them.
LABEL_STEP = -40


@dataclasses.dataclass(frozen=True)
class Parameters:
    """Padded kernel and biases of one type, all multiples of ``2**step``.

    The kernel is kept both ways round: products with few rows spend most of their time on a kernel that has to be
    transposed.
    """

    kernel: tf.Variable
    transposed_kernel: tf.Variable
    visible_bias: tf.Variable
    hidden_bias: tf.Variable
    step: int

    def hidden_field(self, visible: tf.Tensor) -> tf.Tensor:
        """c + W x of rows of states."""
        return tf.matmul(visible, self.kernel) + self.hidden_bias

    def visible_field(self, hidden: tf.Tensor) -> tf.Tensor:
        """b + h W of rows of states."""
        return tf.matmul(hidden, self.transposed_kernel) + self.visible_bias


class ExactSumMachine(tf.Module):
    """One RBM, as a part of a SavedModel.

    The methods that Gibbs sampling needs (``hidden_field``, ``visible_field``, ``sample_hidden``, ``sample_visible``)
    take transposed states, ``[width, rows]``, in the chain's type: so products with few rows are quickest. The others
    take rows.

    Args:
        machine: the RBM, of any unit types.

    Attributes:
        classes: how many of the last visible columns are a label.
        num_visible: visible columns without the label.
        visible, hidden: the layouts of the two sides.
        wide: the parameters in double precision, for visible states that may be anything in the units' range.
        chain: the parameters that chains run with: in single precision where that is fine enough.
    """

    def __init__(self, machine: Machine) -> None:
        super().__init__()
        if machine.members:
            raise ValueError(f"One RBM can be exported at a time. Received: a kernel of shape {machine.kernel.shape}")
        self.classes = machine.visible.classes
        self.num_visible, self.num_hidden = machine.num_visible - self.classes, machine.num_hidden
        arrays = _arrays(machine)
        self.visible = Layout(machine.visible, machine.num_visible)
        self.hidden = Layout(machine.hidden, machine.num_hidden)
        kernel = self.hidden.padded_array(self.visible.padded_array(arrays[0].T).T)
        biases = self.visible.padded_array(arrays[1]), self.hidden.padded_array(arrays[2])
        magnitudes = np.abs(kernel)
        hidden_bounds = np.abs(biases[1]) + self.visible.limits @ magnitudes
        visible_bounds = np.abs(biases[0]) + magnitudes @ self.hidden.limits
        energy_bound = self.visible.limits @ np.abs(biases[0])
        upward = step_for(max(hidden_bounds.max(), energy_bound), 53 + self.visible.step)
        downward = step_for(visible_bounds.max(), 53 + (0 if self.hidden.whole else self.hidden.step))
        self._variables: list[tf.Variable] = []  # a SavedModel holds what attributes lead to
        self.wide = self._parameters((kernel, *biases), max(upward, downward), "float64")
        narrow = step_for(max(hidden_bounds.max(), visible_bounds.max()), 24)
        whole = self.visible.whole and self.hidden.whole
        fits = whole and narrow <= COARSEST and machine.kernel.dtype != tf.float64
        self.chain = self._parameters((kernel, *biases), narrow, "float32") if fits else self.wide
        self._cumulant_step = step_for(self.hidden.cumulant_bound(hidden_bounds), 53)
        self._base_step = step_for(self.visible.base_energy_bound(), 53)
        self._padding_energy = self._energy_of_padding()

    def _parameters(self, arrays: tuple[np.ndarray, ...], step: int, dtype: str) -> Parameters:
        kernel, visible_bias, hidden_bias = (rounded(array, step).astype(dtype) for array in arrays)
        values = kernel, np.ascontiguousarray(kernel.T), visible_bias, hidden_bias
        a, b, c, d = variables = [tf.Variable(value, trainable=False) for value in values]
        self._variables = [*self._variables, *variables]
        return Parameters(a, b, c, d, step)

    def _energy_of_padding(self) -> float:
        """What units without weights add to the free energy: a constant."""

        def share(side: Layout, function: str, step: int) -> float:
            """The sum of a function of the units, in no field or at 0, of the padding alone."""
            sums = []
            for unit, columns in ((side.unit, side.width), (side.compact_unit, side.columns)):
                values = getattr(unit, function)(tf.zeros([1, columns], tf.float64))
                sums.append(0.0 if values is None else float(exact_sum(values, step)[0]))
            return sums[0] - sums[1]

        base = share(self.visible, "base_energy", self._base_step)
        return base - share(self.hidden, "cumulant", self._cumulant_step)

    @property
    def dtype(self) -> tf.DType:
        """The type that chains run in."""
        return self.chain.kernel.dtype

    # Chains, of transposed states

    def hidden_product(self, visible: tf.Tensor) -> tf.Tensor:
        """W x."""
        return tf.matmul(self.chain.transposed_kernel, self.visible.in_steps(visible))

    def hidden_field(self, visible: tf.Tensor) -> tf.Tensor:
        """c + W x."""
        return self.hidden_product(visible) + self.chain.hidden_bias[:, None]

    def visible_field(self, hidden: tf.Tensor) -> tf.Tensor:
        """b + h W."""
        return tf.matmul(self.chain.kernel, self.hidden.in_steps(hidden)) + self.chain.visible_bias[:, None]

    def sample_hidden(self, field: tf.Tensor, source: Source, draw: tf.Tensor | int) -> tf.Tensor:
        return self.hidden.sample_columns(field, source(draw, field))

    def sample_visible(self, field: tf.Tensor, source: Source, draw: tf.Tensor | int) -> tf.Tensor:
        return self.visible.sample_columns(field, source(draw, field))

    # Data, as rows

    def states(self, visible: tf.Tensor) -> tf.Tensor:
        """Compact rows, with or without labels, as padded rows in double precision and whole steps."""
        return snap(self.visible.pad(tf.cast(visible, tf.float64)), self.visible.step)

    def start_field(self, states: tf.Tensor) -> tf.Tensor:
        """c + W x of `states`, in the chain's type and steps, so that a chain adds its terms without rounding."""
        field = self.wide.hidden_field(states)
        return field if self.chain is self.wide else tf.cast(snap(field, self.chain.step), self.dtype)

    def expected_hidden(self, states: tf.Tensor) -> tf.Tensor:
        """E[h | x], compact rows in double precision. Labels are summed over: sum_y P(y | x) E[h | x, y]."""
        if not self.classes:
            return self.hidden.compact(self.hidden.mean(self.wide.hidden_field(states)))
        fields = self._fields_by_label(states)
        _, weights = self._label_weights(fields)
        weights /= tf.reduce_sum(weights, axis=-1, keepdims=True)
        expected = weights[:, : self.classes, None] * self.hidden.mean(fields)
        return self.hidden.compact(tf.reduce_sum(snap(expected, LABEL_STEP), axis=1))

    def label_log_prob(self, states: tf.Tensor) -> tf.Tensor:
        """log P(y | x) of `states` without labels, float64 ``[rows, classes]``."""
        shifted, weights = self._label_weights(self._fields_by_label(states))
        # The same sum in as many columns as make up whole vectors, for the logarithm.
        total = tf.broadcast_to(tf.reduce_sum(weights, axis=-1, keepdims=True), tf.shape(weights))
        return (shifted - tf.math.log(total))[:, : self.classes]

    def _fields_by_label(self, states: tf.Tensor) -> tf.Tensor:
        """Hidden fields with each of the labels, ``[rows, classes, padded units]``."""
        labels = self.visible.positions[self.num_visible :]
        return self.wide.hidden_field(states)[:, None, :] + tf.gather(self.wide.kernel, labels)

    def _label_weights(self, fields: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Logits of the labels, the largest one 0, and what they are the logarithms of, in whole steps; padded."""
        labels = self.visible.positions[self.num_visible :]
        logits = exact_sum(self.hidden.cumulant(fields), self._cumulant_step) + tf.gather(
            self.wide.visible_bias, labels
        )
        shifted = logits - tf.reduce_max(logits, axis=-1, keepdims=True)
        shifted = tf.pad(shifted, [[0, 0], [0, -self.classes % LANES]], constant_values=-np.inf)
        return shifted, snap(tf.exp(shifted), LABEL_STEP)

    def free_energy(self, states: tf.Tensor) -> tf.Tensor:
        """F(x) of `states`, float64 ``[rows]``."""
        energy = -tf.matmul(states, self.wide.visible_bias[:, None])[:, 0] - self._padding_energy
        base = self.visible.base_energy(states)
        if base is not None:
            energy += exact_sum(base, self._base_step)
        return energy - exact_sum(self.hidden.cumulant(self.wide.hidden_field(states)), self._cumulant_step)

    # Answers: float32, compact and without labels

    def answer(self, visible: tf.Tensor) -> tf.Tensor:
        """Visible states of compact rows."""
        return tf.cast(visible[:, : self.num_visible], tf.float32)

    def probability(self, visible_field: tf.Tensor) -> tf.Tensor:
        """P(a unit is in its upper state), or the mean of a unit that has not two values, in a field of padded rows."""
        mean = self.visible.mean(tf.cast(visible_field, tf.float64))
        return single(self.visible.compact(self.visible.unit.upper_share(mean))[:, : self.num_visible])


def _arrays(machine: Machine) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Kernel and biases in float64, all finite."""
    arrays = tuple(
        np.asarray(value, "float64") for value in (machine.kernel, machine.visible_bias, machine.hidden_bias)
    )
    parameters = [np.asarray(v) for unit in (machine.visible, machine.hidden) for v in unit.parameters.values()]
    if not all(np.isfinite(array).all() for array in (*arrays, *parameters)):
        raise ValueError("The parameters of a model to export must be finite. Received: NaN or infinite values")
    return arrays[0], arrays[1], arrays[2]
