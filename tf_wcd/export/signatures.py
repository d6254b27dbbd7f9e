"""The signatures of a served model. Every input and output is ``[rows, ...]``, and rows know nothing of each other.

Inputs are checked inside the graph, since TF-Serving checks no shapes.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from tf_wcd.export import chains
from tf_wcd.export.exact_sums import ExactSumMachine
from tf_wcd.export.starts import Start
from tf_wcd.machine import Machine
from tf_wcd.random import row_keys

# How close to its ends the mean of a binary unit may be at the start of a chain.
MARGIN = 0.001


class ServedModel(tf.Module):
    """An RBM, or a stack of them of which the last one is sampled, with the functions that are served.

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
        below = self.machines[:-1] if generative is None else [ExactSumMachine(machine) for machine in generative]
        self.downward = [*below, self.machines[-1]]
        self.sample_steps, self.max_steps, self.max_rows = sample_steps, max_steps, max_rows
        self.log_partition = log_partition
        top, means = self.machines[-1], start.means
        if not top.real:
            low, high = top.visible.values  # type: ignore[misc]
            margin = MARGIN * (high - low)
            means = np.clip(means, low + margin, high - margin)
        self.start = tf.Variable(top.laid_out(means, top.visible.midpoint), trainable=False, dtype=tf.float64)
        self.start_states = None
        if start.states is not None:
            states = top.laid_out(start.states.T).T
            kept = top.in_steps(states) if top.real else states.astype("int8")
            self.start_states = tf.Variable(kept, trainable=False)
            self.start_cumulative = tf.Variable(start.cumulative, trainable=False)

    def functions(self) -> dict[str, tf.types.experimental.PolymorphicFunction]:
        """The signatures by name."""
        visible, seed = ("visible", tf.float32), ("seed", tf.int64)
        mask, steps = ("mask", tf.float32), ("steps", tf.int32)
        table: dict[str, tuple[Callable[..., Any], list[tuple[str, tf.DType]]]] = {
            "sample": (self.sample, [seed]),
            "gibbs": (self.gibbs, [visible, seed, steps]),
            "clamp": (self.clamp if self.single else self.clamp_stack, [visible, mask, seed, steps]),
            "encode": (self.encode, [visible]),
        }
        if self.single:
            table["free_energy"] = (self.free_energy, [visible])
            if self.log_partition is not None:
                table["log_prob"] = (self.log_prob, [visible])
        # Shapes are left open: what is known while the graph is made would be taken for granted, and not be checked.
        return {
            name: tf.function(
                function,
                input_signature=[tf.TensorSpec(None, dtype, name=argument) for argument, dtype in arguments],
                autograph=False,
            )
            for name, (function, arguments) in table.items()
        }

    @property
    def single(self) -> bool:
        """Whether the model is one RBM, whose visible units are the data and nothing else."""
        return len(self.machines) == 1 and not self.machines[0].labels

    def input_shapes(self) -> dict[str, list[int]]:
        """Shape of each input, -1 for the rows."""
        width = self.machines[0].num_visible
        return {"visible": [-1, width], "mask": [-1, width], "seed": [-1], "steps": [-1]}

    # The signatures

    def sample(self, seed: tf.Tensor) -> dict[str, tf.Tensor]:
        seed = self._rows("seed", seed)
        top = self.machines[-1]
        if self.start_states is None:
            field = top.chain.hidden_field(chains.starting_states(top, self.start, seed))
        else:
            picked = chains.picked_states(self.start_states, self.start_cumulative, seed)
            field = top.start_field(tf.cast(picked, tf.float64))
        drawn = chains.run_chain(top, field, self.sample_steps, row_keys(seed, chains.SAMPLE_CHAIN))
        return self._answer(chains.pass_down(self.downward, drawn, seed))

    def gibbs(self, visible: tf.Tensor, seed: tf.Tensor, steps: tf.Tensor) -> dict[str, tf.Tensor]:
        visible, seed, steps = self._chain_inputs(visible, seed, steps)
        field = chains.pass_up(self.machines, self.machines[0].states(visible), seed, self._first_labels(seed))
        # A row of no steps is answered as it came, below.
        drawn = chains.run_chain(self.machines[-1], field, tf.maximum(steps, 1), row_keys(seed, chains.GIBBS_CHAIN))
        return self._or_unchanged(
            visible, (steps == 0)[:, None], self._answer(chains.pass_down(self.downward, drawn, seed))
        )

    def clamp(self, visible: tf.Tensor, mask: tf.Tensor, seed: tf.Tensor, steps: tf.Tensor) -> dict[str, tf.Tensor]:
        (machine,) = self.machines
        visible, mask, seed, steps = self._clamp_inputs(visible, mask, seed, steps)
        states = machine.states(visible)
        held = _filled(mask, states)
        drawn = chains.run_chain(
            machine,
            machine.start_field(states),
            tf.maximum(steps, 1),
            row_keys(seed, chains.GIBBS_CHAIN),
            held_field=machine.start_field(states * held),
            free=tf.cast(1.0 - held, machine.dtype),
        )
        return self._or_unchanged(visible, (mask == 1) | (steps == 0)[:, None], self._answer(drawn))

    def clamp_stack(
        self, visible: tf.Tensor, mask: tf.Tensor, seed: tf.Tensor, steps: tf.Tensor
    ) -> dict[str, tf.Tensor]:
        visible, mask, seed, steps = self._clamp_inputs(visible, mask, seed, steps)
        states = self.machines[0].states(visible)
        drawn = chains.fill_in(
            self.machines, self.downward, states, _filled(mask, states) == 1, self._first_labels(seed), steps, seed
        )
        return self._or_unchanged(visible, (mask == 1) | (steps == 0)[:, None], self._answer(drawn))

    def encode(self, visible: tf.Tensor) -> dict[str, tf.Tensor]:
        x = self.machines[0].states(self._visible(visible))
        for lower, upper in itertools.pairwise(self.machines):
            x = upper.states(lower.expected_hidden(x)[:, : lower.num_hidden])
        top = self.machines[-1]
        return {"hidden": tf.cast(top.expected_hidden(x), tf.float32)[:, : top.num_hidden]}

    def free_energy(self, visible: tf.Tensor) -> dict[str, tf.Tensor]:
        (machine,) = self.machines
        return {"free_energy": tf.cast(machine.free_energy(machine.states(self._visible(visible))), tf.float32)}

    def log_prob(self, visible: tf.Tensor) -> dict[str, tf.Tensor]:
        (machine,) = self.machines
        visible = self._visible(visible)
        if machine.visible.values is not None:
            low, high = machine.visible.values
            is_state = tf.reduce_all((visible == low) | (visible == high))
            visible = checked(visible, is_state, f"visible must hold states of the units, {low:g} or {high:g}")
        energy = machine.free_energy(machine.states(visible))
        return {"log_prob": tf.cast(-energy - self.log_partition, tf.float32)}

    def _first_labels(self, seed: tf.Tensor) -> tf.Tensor | None:
        """Labels at the start of a chain that begins with data: drawn in the proportions of `start`."""
        top = self.machines[-1]
        return chains.starting_states(top, self.start, seed)[:, top.own_width :] if top.labels else None

    def _answer(self, drawn: chains.Drawn) -> dict[str, tf.Tensor]:
        machine = self.downward[0]
        return {"visible": machine.trimmed(drawn.visible), "probability": machine.probability(drawn.field)}

    def _or_unchanged(
        self, visible: tf.Tensor, unchanged: tf.Tensor, answer: dict[str, tf.Tensor]
    ) -> dict[str, tf.Tensor]:
        """The answer with the units that are not drawn as they came: their probability is their own value's."""
        given = {"visible": visible, "probability": self.machines[0].upper_share(visible)}
        return {name: tf.where(unchanged, given[name], value) for name, value in answer.items()}

    # Checks of the inputs

    def _chain_inputs(
        self, visible: tf.Tensor, seed: tf.Tensor, steps: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        visible = self._visible(visible)
        rows = tf.shape(visible)[0]
        seed, steps = self._rows("seed", seed, rows), self._rows("steps", steps, rows)
        in_range = tf.reduce_all((steps >= 0) & (steps <= self.max_steps))
        return (
            visible,
            seed,
            checked(
                steps,
                in_range,
                f"steps must be from 0 to {self.max_steps}, the limit set when the model was exported",
                tf.reduce_min(steps),
                tf.reduce_max(steps),
            ),
        )

    def _clamp_inputs(
        self, visible: tf.Tensor, mask: tf.Tensor, seed: tf.Tensor, steps: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor, tf.Tensor]:
        visible, seed, steps = self._chain_inputs(visible, seed, steps)
        mask = self._matrix("mask", mask, tf.shape(visible)[0])
        mask = checked(mask, tf.reduce_all((mask == 0) | (mask == 1)), "mask must be 0 or 1: 1 where a unit is held")
        return visible, mask, seed, steps

    def _rows(self, name: str, values: tf.Tensor, rows: tf.Tensor | None = None) -> tf.Tensor:
        """A vector with one entry for each row."""
        shape = tf.shape(values)
        values = checked(values, tf.size(shape) == 1, f"{name} must have the shape [rows]", shape)
        values = tf.reshape(values, [-1])
        if rows is None:
            return self._bounded(values, tf.size(values))
        message = f"{name} must have one entry for each row of visible"
        return checked(values, tf.size(values) == rows, message, tf.size(values), rows)

    def _matrix(self, name: str, values: tf.Tensor, rows: tf.Tensor | None = None) -> tf.Tensor:
        """A matrix with one column for each visible unit."""
        width = self.machines[0].num_visible
        shape = tf.shape(values)
        # Sums, so that the condition itself can be computed whatever the shape is.
        good = (tf.size(shape) == 2) & (tf.reduce_sum(shape[1:2]) == width)
        values = checked(values, good, f"{name} must have the shape [rows, {width}]", shape)
        values = tf.reshape(values, [-1, width])
        if rows is None:
            return self._bounded(values, tf.shape(values)[0])
        message = f"{name} must have as many rows as visible"
        return checked(values, tf.shape(values)[0] == rows, message, tf.shape(values)[0], rows)

    def _visible(self, visible: tf.Tensor) -> tf.Tensor:
        machine = self.machines[0]
        visible = self._matrix("visible", visible)
        low, high = (-machine.limit, machine.limit) if machine.real else machine.visible.data_range
        # NaN fails any comparison.
        in_range = tf.reduce_all((visible >= low) & (visible <= high))
        return checked(visible, in_range, f"visible must be in [{low:g}, {high:g}], without NaN")

    def _bounded(self, values: tf.Tensor, rows: tf.Tensor) -> tf.Tensor:
        message = f"a batch may have at most {self.max_rows} rows, the limit set when the model was exported"
        return checked(values, rows <= self.max_rows, message, rows)


def _filled(mask: tf.Tensor, states: tf.Tensor) -> tf.Tensor:
    """The mask with columns for the units that fill up, which are not held, in the type of the states."""
    return tf.pad(tf.cast(mask, states.dtype), [[0, 0], [0, states.shape[1] - mask.shape[1]]])


def checked(values: tf.Tensor, condition: tf.Tensor, message: str, *received: tf.Tensor) -> tf.Tensor:
    """The values, after a check that fails with the message: INVALID_ARGUMENT for a client."""
    details = [". Received: ", *received] if received else ["."]
    with tf.control_dependencies([tf.debugging.Assert(condition, [message, *details], summarize=8)]):
        return tf.identity(values)
