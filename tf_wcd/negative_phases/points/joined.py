"""Points of several sources together."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import keras
import tensorflow as tf

from tf_wcd import replicas
from tf_wcd.machine import Machine
from tf_wcd.negative_phases.base import Batch, Points, PointSource, State
from tf_wcd.random import subkey

_PART = 0x901D  # the purpose of the keys of all parts but the first


@dataclasses.dataclass(frozen=True)
class JoinedPoints(Points):
    """Points of several sources, one set under the other.

    Attributes:
        parts: the points of each source.
    """

    parts: tuple[Points, ...] = ()

    def log_density(self, machine: Machine, states: tf.Tensor) -> tf.Tensor:
        counts = tf.stack([tf.cast(tf.shape(part.visible)[-2], states.dtype) for part in self.parts])
        counts = replicas.total(counts)
        densities = [part.log_density(machine, states) for part in self.parts]
        return tf.reduce_logsumexp(tf.stack(densities, axis=-1) + tf.math.log(counts / tf.reduce_sum(counts)), axis=-1)


@keras.saving.register_keras_serializable(package="tf_wcd")
class Joined(PointSource):
    """The points of several sources together, in any ratio.

    With the model's weights they are one set, in which each point has its relative probability. With balanced weights
    on the visible side, P is divided by the density of all sources together, each with its share of the points. As the
    number of points grows, weighted means then tend to the model's expectations, if one of the sources reaches every
    state: reconstructions of at least one step and random states do.

    Args:
        sources: the sources. At most one of them may have persistent chains.

    Example:

    >>> from tf_wcd.negative_phases.points import Joined, Neighbours, RandomStates, Reconstructions
    >>> source = Joined([Reconstructions(1), Neighbours(share=0.1), RandomStates(per_example=0.5)])
    >>> rbm = tf_wcd.RBMLayer(3, negative_phase=tf_wcd.NegativePhase(source))
    """

    def __init__(self, sources: Sequence[PointSource]) -> None:
        if not isinstance(sources, Sequence) or not sources or not all(isinstance(s, PointSource) for s in sources):
            raise ValueError(f"`sources` must be a list of sources of points. Received: sources={sources!r}")
        self.sources = tuple(sources)

    def validate(self, machine: Machine) -> None:
        for source in self.sources:
            source.validate(machine)

    def initial_state(self, machine: Machine, batch_size: int, key: tf.Tensor) -> State:
        whole: State = {}
        for number, source in enumerate(self.sources):
            state = source.initial_state(machine, batch_size, self._key(key, number))
            if twice := sorted(whole.keys() & state.keys()):
                raise ValueError(
                    "At most one of joined sources may have persistent chains. "
                    f"Received: {len(self.sources)} sources, two of which have a state {twice}"
                )
            whole |= state
        return whole

    def state_at(self, machine: Machine, visible: tf.Tensor, state: State, key: tf.Tensor) -> State:
        for number, source in enumerate(self.sources):
            own = self._key(key, number)
            if "visible" in source.initial_state(machine, visible.shape[-2], own):
                state = source.state_at(machine, visible, state, own)
        return state

    def points(self, machine: Machine, batch: Batch, state: State, key: tf.Tensor) -> tuple[Points, State]:
        parts = []
        for number, source in enumerate(self.sources):
            # A source without state hands on that of the others.
            part, state = source.points(machine, batch, state, self._key(key, number))
            if part.log_weights is not None:
                raise ValueError(
                    "Joined points are weighted together: their sources must leave the weights to the rule. "
                    f"Received: weights of {type(source).__name__}"
                )
            parts.append(part)
        visible = tf.concat([part.visible for part in parts], axis=-2)
        field = tf.concat([part.hidden_field for part in parts], axis=-2)
        return JoinedPoints(visible, field, parts=tuple(parts)), state

    @staticmethod
    def _key(key: tf.Tensor, number: int) -> tf.Tensor:
        """The first source draws what it would draw alone."""
        return subkey(key, _PART, number) if number else key

    def num_points(self, machine: Machine, batch_size: int, shapes: Mapping[str, tuple[int, ...]]) -> int | None:
        total = 0
        for source in self.sources:
            count = source.num_points(machine, batch_size, shapes)
            if count is None:
                return None
            total += count
        return total

    def alternatives(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(name for source in self.sources for name in source.alternatives()))

    def metrics(self, state: State) -> dict[str, tf.Tensor]:
        return {name: value for source in self.sources for name, value in source.metrics(state).items()}

    def get_config(self) -> dict[str, Any]:
        return {"sources": [keras.saving.serialize_keras_object(source) for source in self.sources]}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Any:
        return cls([keras.saving.deserialize_keras_object(source) for source in config["sources"]])
