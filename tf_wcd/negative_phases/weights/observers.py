"""Chains that watch a training and never enter its gradient: a running log Z with its error."""

from __future__ import annotations

import dataclasses

import tensorflow as tf

from tf_wcd import replicas
from tf_wcd.machine import Machine
from tf_wcd.negative_phases.base import State
from tf_wcd.sampling.population import (
    LogPartition,
    Population,
    annealed_population,
    follow,
    log_partitions,
    pooled,
    reweighted,
)
from tf_wcd.shapes import with_shape

GROUPS = 10
_ARRAYS = tuple(f"observer_{name}" for name in Population._fields)


@dataclasses.dataclass(frozen=True)
class Observers:
    """A population that follows the machine from update to update, in the state of a negative phase.

    The path of the parameters does not depend on the observers, so that each group's estimate of Z is unbiased. Under
    `tf.distribute` every replica has whole groups.

    Attributes:
        gibbs_steps: steps that they advance at each update.
        resample_below: effective sample size, as a fraction of a group, below which a group is resampled.
    """

    gibbs_steps: int
    resample_below: float

    def initial_state(self, machine: Machine, observers: int, key: tf.Tensor) -> State:
        """Observers of the machine as it is, all replicas counted, rounded up to whole groups."""
        in_sync = tf.distribute.get_strategy().num_replicas_in_sync
        groups = -(-GROUPS // in_sync) * in_sync
        population = annealed_population(
            machine, groups, -(-observers // groups), key, self.gibbs_steps, self.resample_below
        )
        return _arrays(population)

    def before(self, machine: Machine, state: State, key: tf.Tensor) -> State:
        """The state when the observers have followed the machine to its present parameters."""
        population = _population(state)
        if population is None:
            return state
        return {**state, **_arrays(follow(machine, population, self.gibbs_steps, self.resample_below, key))}

    def log_partition(self, machine: Machine, state: State) -> LogPartition | None:
        """log Z of the machine at its present parameters, of a state with all groups; ``None`` without observers."""
        population = _population(state)
        if population is None:
            return None
        _, log_weights = reweighted(machine, population)
        present = population._replace(log_weights=log_weights)
        return pooled(log_partitions(Population(*(tf.cast(value, tf.float64) for value in present))))

    def metrics(self, state: State) -> dict[str, tf.Tensor]:
        """The running log Z and its error, at the parameters before the last update."""
        population = _population(state)
        if population is None:
            return {}
        own = log_partitions(population)
        count = own.shape[-1] * replicas.count()
        estimate, error = pooled(with_shape(replicas.gather(own), [*own.shape[:-1], count]))
        return {"online_log_partition": estimate, "online_log_partition_error": error}


def _population(state: State) -> Population | None:
    if _ARRAYS[0] not in state:
        return None
    visible, *others = (state[name] for name in _ARRAYS)
    return Population(visible, *(value[..., 0] for value in others))


def _arrays(population: Population) -> State:
    """The arrays of a state, with one row for each chain or each group: replicas divide them by rows."""
    visible, *others = population
    return dict(zip(_ARRAYS, (visible, *(value[..., None] for value in others)), strict=True))
