"""The functions of a served model. Every input and output is ``[rows, ...]``, and rows know nothing of each other."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from tf_wcd.export import chains
from tf_wcd.export.checks import InputChecks
from tf_wcd.export.class_starts import class_states
from tf_wcd.export.exact_sums import ExactSumMachine
from tf_wcd.export.layout import Layout, single
from tf_wcd.export.starts import Start
from tf_wcd.export.table import Model, Signature, signatures_of
from tf_wcd.machine import Machine
from tf_wcd.random import column_source, row_keys
from tf_wcd.sampling import Drawn

# How close to the ends of its range the mean of a unit may be at the start of a chain, as a part of the range.
MARGIN = 0.001


class ServedModel(tf.Module):
    """An RBM, or a stack of them of which the last one is sampled, with a method for each signature.

    Args:
        machines: the RBMs, the first one nearest to the data.
        sample_steps: Gibbs steps of `sample`.
        max_steps: the most that a request may ask for.
        max_rows: the most rows in a batch.
        start: where `sample`'s chains in the last RBM start.
        log_partition: exact log Z, if it is known (of a single RBM).
        generative: the RBMs below the last one as they generate data, where that is not as they read them.
    """

    def __init__(
        self,
        machines: Sequence[Machine],
        sample_steps: int,
        max_steps: int,
        max_rows: int,
        start: Start,
        log_partition: float | None = None,
        generative: Sequence[Machine] | None = None,
    ) -> None:
        super().__init__()
        self.machines = [ExactSumMachine(machine) for machine in machines]
        self.below = self.machines[:-1] if generative is None else [ExactSumMachine(machine) for machine in generative]
        self._stack = chains.Stack(self.machines, self.below)
        self.sample_steps, self.log_partition = sample_steps, log_partition
        bottom, top = self.machines[0], self.machines[-1]
        self._data_unit = bottom.visible.compact_unit.without_labels()
        self._inputs = InputChecks(bottom.visible, bottom.num_visible, max_steps, max_rows, top.classes)
        self.start = tf.Variable(_padded_means(top.visible, start.means), trainable=False)
        self.start_states = self.start_within_class = None
        if start.states is not None and start.cumulative is not None:
            self._keep_states(top, start.states, start.cumulative)

    def _keep_states(self, top: ExactSumMachine, states: np.ndarray, cumulative: np.ndarray) -> None:
        """Makes variables of the states that chains start from."""
        if top.classes:
            states, cumulative, within_class = class_states(states, cumulative, top.classes)
            self.start_within_class = tf.Variable(within_class, trainable=False)
        states = top.visible.rounded_states(top.visible.padded_array(states))[:, top.visible.positions]
        small = top.visible.whole and np.abs(states).max() < 128
        self.start_states = tf.Variable(states.astype("int8") if small else states, trainable=False)
        self.start_cumulative = tf.Variable(cumulative, trainable=False)

    @property
    def single(self) -> bool:
        """Whether the model is one RBM, whose visible units are the data and nothing else."""
        return len(self.machines) == 1 and not self.machines[0].classes

    @property
    def signatures(self) -> tuple[Signature, ...]:
        """The rows of the table of signatures that this model has."""
        return signatures_of(Model(self.single, self.log_partition, self.machines[-1].classes))

    @property
    def widths(self) -> dict[str, int]:
        """Columns of the layers that inputs and outputs belong to."""
        top = self.machines[-1]
        return {"visible": self.machines[0].num_visible, "hidden": top.num_hidden, "classes": top.classes}

    def functions(self) -> dict[str, tf.types.experimental.PolymorphicFunction]:
        """The signatures by name."""
        # Shapes are left open: what is known while the graph is made would be taken for granted, and not be checked.
        return {
            row.name: tf.function(
                getattr(self, row.name),
                input_signature=[tf.TensorSpec(None, argument.dtype, name=argument.name) for argument in row.inputs],
                autograph=False,
            )
            for row in self.signatures
        }

    def example_state(self) -> np.ndarray:
        """A state of the data's units, ``[units]``: the one in the middle of those without any field."""
        nothing = tf.zeros([1, self.widths["visible"]])
        return self._data_unit.sample(nothing, nothing + 0.5)[0].numpy()

    # The signatures

    def sample(self, seed: tf.Tensor) -> dict[str, tf.Tensor]:
        seed = self._inputs.vector("seed", seed)
        top = self.machines[-1]
        if self.start_states is None:
            states = chains.starting_states(top, self.start, seed)
        else:
            states = chains.picked_states(self.start_states, self.start_cumulative, seed)
        source = column_source(row_keys(seed, chains.SAMPLE_CHAIN))
        drawn = chains.run_chain(top, top.start_field(top.states(states)), self.sample_steps, source)
        return self._answer(self._stack.down(drawn, seed))

    def gibbs(self, visible: tf.Tensor, seed: tf.Tensor, steps: tf.Tensor) -> dict[str, tf.Tensor]:
        visible, seed, steps = self._inputs.chain(visible, seed, steps)
        field = self._stack.top_field(visible, self._first_labels(seed), seed)
        source = column_source(row_keys(seed, chains.GIBBS_CHAIN))
        # A row of no steps is answered as it came, below.
        drawn = chains.run_chain(self.machines[-1], field, tf.maximum(steps, 1), source)
        return self._or_unchanged(visible, (steps == 0)[:, None], self._stack.down(drawn, seed))

    def clamp(self, visible: tf.Tensor, mask: tf.Tensor, seed: tf.Tensor, steps: tf.Tensor) -> dict[str, tf.Tensor]:
        visible, seed, steps = self._inputs.chain(visible, seed, steps)
        mask = self._inputs.mask(mask, tf.shape(visible)[0])
        if self.single:
            drawn = self._clamp_one(visible, mask, seed, steps)
        else:
            wide = tf.cast(visible, tf.float64)
            drawn = self._stack.fill_in(wide, mask == 1, self._first_labels(seed), steps, seed)
        return self._or_unchanged(visible, (mask == 1) | (steps == 0)[:, None], drawn)

    def _clamp_one(self, visible: tf.Tensor, mask: tf.Tensor, seed: tf.Tensor, steps: tf.Tensor) -> Drawn:
        (machine,) = self.machines
        states = machine.states(visible)
        held = machine.visible.pad(tf.cast(mask, states.dtype))
        source = column_source(row_keys(seed, chains.GIBBS_CHAIN))
        hidden_field = chains.held_field(machine, states, held)
        return chains.run_chain(machine, machine.start_field(states), tf.maximum(steps, 1), source, hidden_field)

    def encode(self, visible: tf.Tensor) -> dict[str, tf.Tensor]:
        return {"hidden": single(self.machines[-1].expected_hidden(self._expected_below_top(visible)))}

    def free_energy(self, visible: tf.Tensor) -> dict[str, tf.Tensor]:
        (machine,) = self.machines
        return {"free_energy": single(machine.free_energy(machine.states(self._inputs.visible(visible))))}

    def log_prob(self, visible: tf.Tensor) -> dict[str, tf.Tensor]:
        (machine,) = self.machines
        energy = machine.free_energy(machine.states(self._inputs.visible_states(visible)))
        return {"log_prob": single(-energy - self.log_partition)}

    def conditional(self, label: tf.Tensor, seed: tf.Tensor) -> dict[str, tf.Tensor]:
        label, seed = self._inputs.conditional(label, seed)
        top = self.machines[-1]
        if self.start_states is None:
            states = chains.starting_states(top, self.start, seed)
        else:
            states = chains.picked_states(self.start_states, self.start_within_class, seed, label)
        labels = tf.one_hot(label, top.classes, dtype=states.dtype)
        states = top.states(tf.concat([states[:, : top.num_visible], labels], axis=1))
        is_label = np.arange(top.num_visible + top.classes) >= top.num_visible
        held = top.visible.pad(tf.constant(is_label[None], states.dtype))
        source = column_source(row_keys(seed, chains.CONDITIONAL_CHAIN))
        hidden_field = chains.held_field(top, states, held)
        drawn = chains.run_chain(top, top.start_field(states), self.sample_steps, source, hidden_field)
        return self._answer(self._stack.down(drawn, seed))

    def classify(self, visible: tf.Tensor) -> dict[str, tf.Tensor]:
        log_prob = self.machines[-1].label_log_prob(self._expected_below_top(visible))
        return {"log_prob": single(log_prob), "label": tf.argmax(log_prob, axis=1)}

    def _expected_below_top(self, visible: tf.Tensor) -> tf.Tensor:
        """`ExactSumMachine.states` of the top RBM, with the expectations of the layers below it."""
        x = self.machines[0].states(self._inputs.visible(visible))
        for lower, upper in itertools.pairwise(self.machines):
            x = upper.states(lower.expected_hidden(x))
        return x

    def _first_labels(self, seed: tf.Tensor) -> tf.Tensor:
        """Labels at the start of a chain that begins with data: drawn in the proportions of `start`."""
        top = self.machines[-1]
        if not top.classes:
            return tf.zeros([tf.shape(seed)[0], 0])
        return chains.starting_states(top, self.start, seed)[:, top.num_visible :]

    def _answer(self, drawn: Drawn) -> dict[str, tf.Tensor]:
        machine = (self.below or self.machines)[0]
        return {"visible": machine.answer(drawn.visible), "probability": machine.probability(drawn.field)}

    def _or_unchanged(self, visible: tf.Tensor, unchanged: tf.Tensor, drawn: Drawn) -> dict[str, tf.Tensor]:
        """The answer with the units that are not drawn as they came: their probability follows from their value."""
        given = {"visible": visible, "probability": self._data_unit.upper_share(visible)}
        return {name: tf.where(unchanged, given[name], value) for name, value in self._answer(drawn).items()}


def _padded_means(side: Layout, means: np.ndarray) -> np.ndarray:
    """Means of the padded units, float64, a little inside of their range where it has ends."""
    padded = side.padded_array(np.asarray(means, "float64"), side.unit.midpoints(side.width))
    known = side.unit.describe_columns(side.width)
    margin = np.where(np.isfinite(known.high - known.low), MARGIN * (known.high - known.low), 0.0)
    return np.clip(padded, known.low + margin, known.high - margin)
