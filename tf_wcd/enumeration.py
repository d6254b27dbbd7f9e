"""All states of one side of a machine: which side is enumerated, how far, and chunk by chunk.

There are two limits, both as log2 of the number of states, so that they are numbers of units for binary ones.
Functions that enumerate take another limit as an argument, where their cost differs.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import tensorflow as tf

from tf_wcd.machine import Machine
from tf_wcd.units import Unit

MAX_UNITS = 25  # for sums, which need each state for a moment only
MAX_LISTED_UNITS = 20  # for lists of all states that are kept
CHUNK_BYTES = 2**25


def all_states(unit: Unit, columns: int, dtype: str = "float32") -> tf.Tensor:
    """``[states, columns]``: every state of a layer once, in the order of `Unit.states_at`.

    Example:

    >>> all_states(tf_wcd.units.get("bernoulli"), 2).numpy().tolist()
    [[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]]
    """
    return unit.states_at(tf.range(unit.num_states(columns)), columns, dtype)


class Side:
    """One side of a machine.

    Attributes:
        machine: the machine.
        visible: whether it is the visible side.
        unit: type of its units.
        columns: its columns.
        bits: log2 of the number of its states.
    """

    def __init__(self, machine: Machine, visible: bool) -> None:
        self.machine, self.visible = machine, visible
        self.unit = machine.visible if visible else machine.hidden
        self.columns = machine.num_visible if visible else machine.num_hidden
        self.bits = self.unit.bits(self.columns)

    @property
    def num_states(self) -> int:
        return self.unit.num_states(self.columns)

    def states_at(self, indices: tf.Tensor, dtype: str = "float64") -> tf.Tensor:
        """States by their numbers, ``[N, columns]``."""
        return self.unit.states_at(indices, self.columns, dtype)

    def free_energy(self, states: tf.Tensor) -> tf.Tensor:
        """-log of the sum (integral) of exp(-Energy) over the other side."""
        return self.machine.free_energy(states) if self.visible else self.machine.hidden_free_energy(states)

    def chunk_size(self, chunk_bytes: int = CHUNK_BYTES) -> int:
        """Number of states whose arrays, in float64 and for all members, take at most so many bytes each."""
        width = max(self.machine.num_visible, self.machine.num_hidden) * math.prod(self.machine.members)
        return min(self.num_states, 2 ** int(math.log2(max(2, chunk_bytes // (8 * width)))))

    def chunks(self, chunk_bytes: int = CHUNK_BYTES) -> Iterator[tuple[int, tf.Tensor]]:
        """All states, float64 ``[chunk, columns]`` at a time, each with the number of its first state."""
        size = self.chunk_size(chunk_bytes)
        for start in range(0, self.num_states, size):
            yield start, self.states_at(tf.range(start, min(start + size, self.num_states)))


def smaller_side(machine: Machine) -> Side:
    """The side with fewer states; its ``bits`` are infinite if neither side has finitely many."""
    visible, hidden = Side(machine, visible=True), Side(machine, visible=False)
    return visible if visible.bits <= hidden.bits else hidden
