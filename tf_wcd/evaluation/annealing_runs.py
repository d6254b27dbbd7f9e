"""Runs of chains along paths of temperatures, in both directions, until what they say of log Z agrees."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import tensorflow as tf

from tf_wcd.evaluation.directions import AnnealedLogPartition, Problem, summarise
from tf_wcd.evaluation.model_samples import ModelSamples, settled
from tf_wcd.evaluation.spacing import respaced
from tf_wcd.machine import Machine
from tf_wcd.programs import call_compiled
from tf_wcd.random import subkey
from tf_wcd.sampling.annealing import Carried, anneal, annealed_states, base_log_partition, padded, sample_base

if TYPE_CHECKING:
    from tf_wcd.layer import RBMLayer

# Purposes of random numbers, each with another key; others are in `annealed` and `model_samples`.
_BASE, _FORWARD, _REVERSE, _POPULATION = 0, 2, 5, 6


@dataclasses.dataclass(frozen=True)
class Annealing:
    """What all runs of one estimate have in common.

    Attributes:
        rbm: a built `RBMLayer`.
        base_bias: ``[n_v]`` visible bias of the base model.
        chains: chains in each direction.
        burn_in: Gibbs steps of a population at the model, before reverse chains start from it.
        tolerance: nats that the two directions may differ by.
        memory_limit: bytes for the chains; they are run in groups that fit.
    """

    rbm: RBMLayer
    base_bias: tf.Tensor
    chains: int
    burn_in: int
    tolerance: float
    memory_limit: int

    def until_both_agree(
        self, lengths: Sequence[np.ndarray], starts: ModelSamples | None, key: tf.Tensor
    ) -> tuple[AnnealedLogPartition, list[Problem]]:
        """Runs one path after the other until more temperatures would not help, and says what is wrong with the last.

        Args:
            lengths: paths of inverse temperatures, one as long as the other or longer. From the second on their
                lengths alone count: the temperatures lie closer together where the run before has dissipated more.
            starts: where reverse chains start; ``None`` for no reverse chains.
            key: uint32 [2].
        """
        betas, ahead, back = lengths[0], None, None
        for number, length in enumerate(lengths):
            betas = length if ahead is None or back is None else _closer(betas, ahead, back, len(length))
            # New random numbers each time: the weights have their expectation, whatever the temperatures follow from.
            keys = {purpose: subkey(key, purpose, number) for purpose in (_BASE, _FORWARD, _REVERSE, _POPULATION)}
            ahead = self._along(anneal, self._base(keys[_BASE]), betas, keys[_FORWARD])
            back = starts and self._along(anneal, starts.visible, betas[::-1], keys[_REVERSE])
            result, problems = self._summary(ahead, back, starts, len(betas))
            # A population follows from the path: a longer one makes a better population.
            if starts and starts.origin in ("pt", "annealed") and any(each.wrong_starts for each in problems):
                starts = self._population(betas, keys[_POPULATION])
                back = self._along(anneal, starts.visible, betas[::-1], keys[_REVERSE])
                result, problems = self._summary(ahead, back, starts, len(betas))
            better_starts = starts and starts.origin == "annealed" and any(each.wrong_starts for each in problems)
            if not better_starts and not any(each.too_short for each in problems):
                break
        return result, problems

    def group(self, memory: int) -> int:
        """Chains that are run at a time: a Gibbs step holds a few arrays of the states and fields of both sides."""
        machine = self._machine()
        most = max(1, memory // (6 * machine.kernel.dtype.size * (machine.num_visible + machine.num_hidden)))
        groups = -(-self.chains // min(most, self.chains))
        return -(-self.chains // groups)

    def _machine(self) -> Machine:
        return self.rbm.machine()

    def _base(self, key: tf.Tensor) -> tf.Tensor:
        return sample_base(self._machine(), self.base_bias, self.chains, key)

    def _population(self, betas: np.ndarray, key: tf.Tensor) -> ModelSamples:
        states = self._along(annealed_states, self._base(subkey(key, _BASE)), betas, key)
        return settled(self.rbm, states, self.burn_in, "annealed", key)

    def _along(self, carry: Callable[..., Any], starts: tf.Tensor, path: np.ndarray, key: tf.Tensor) -> Any:
        """What `anneal` or `annealed_states` make of chains along a path of temperatures, group by group."""
        betas, count = tf.constant(padded(path), self.base_bias.dtype), tf.constant(len(path))
        group = self.group(self.memory_limit)
        parts = [
            call_compiled(carry, self.rbm, self.base_bias, starts[i : i + group], betas, subkey(key, i), count)
            for i in range(0, len(starts), group)
        ]
        if not isinstance(parts[0], Carried):
            return tf.concat(parts, axis=0)
        return Carried(
            np.concatenate([np.asarray(part.log_weights) for part in parts]),
            np.average([np.asarray(part.gains) for part in parts], axis=0, weights=[len(part[0]) for part in parts]),
        )

    def _summary(
        self, ahead: Carried, back: Carried | None, starts: ModelSamples | None, temperatures: int
    ) -> tuple[AnnealedLogPartition, list[Problem]]:
        return summarise(
            ahead.log_weights,
            None if back is None else back.log_weights,
            float(base_log_partition(self._machine(), self.base_bias)),
            origin=starts.origin if starts else "none",
            temperatures=temperatures,
            tolerance=self.tolerance,
            rounding=float(np.finfo(self.base_bias.dtype.as_numpy_dtype).eps),
        )


def _closer(betas: np.ndarray, ahead: Carried, back: Carried, count: int) -> np.ndarray:
    """So many temperatures, closer together where both directions of a run differ most."""
    steps = len(betas) - 1
    return respaced(betas, -np.asarray(back.gains)[:steps][::-1] - np.asarray(ahead.gains)[:steps], count)
