"""Weighted chains that follow a machine while its parameters change, and the log Z that they measure on the way.

Jarzynski's equality: chains that are samples of a machine are made samples of another one by weights. When the
parameters have changed, and before a chain moves, its weight is multiplied by exp(F_old(y) - F_new(y)). Weighted means
are then those of the new machine, and the mean weight estimates Z_new / Z_old without bias. Moves that leave the new
machine's distribution as it is leave the weights right; resampling makes them equal again.

A population is divided into groups that know nothing of each other: each measures log Z by itself, and their spread
tells how well. It counts what weights alone do not tell, chains that no longer move between the modes of the model.
"""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from tf_wcd.machine import Machine
from tf_wcd.random import batch_source, subkey, uniform
from tf_wcd.sampling.gibbs import gibbs_from_visible
from tf_wcd.sampling.independent import independent_log_partition, independent_visible, without_weights
from tf_wcd.sampling.resampling import systematic_indices

# Temperatures from independent units to the model, for each unit of the variance of the log-weights that a single jump
# would have: the path then adds about a quarter to it.
TEMPERATURES_PER_VARIANCE = 4.0
MOST_TEMPERATURES = 200
PROBE = 100  # samples that the variance is estimated from
# Purposes of random numbers, each with another key.
_START, _PROBE, _PATH, _RESAMPLING = range(4)


class Population(NamedTuple):
    """Weighted chains: G groups of M / G chains, one after the other.

    Attributes:
        visible: ``[..., M, n_v]`` where the chains are.
        free_energy: ``[..., M]`` their free energies at the parameters that they last moved at.
        log_weights: ``[..., M]`` log of their weights at these parameters, since the group was resampled last.
        log_partition: ``[..., G]`` log Z of each group when it was resampled last.
    """

    visible: tf.Tensor
    free_energy: tf.Tensor
    log_weights: tf.Tensor
    log_partition: tf.Tensor


class LogPartition(NamedTuple):
    """An estimate of log Z in nats, ``[...]`` each."""

    estimate: tf.Tensor
    standard_error: tf.Tensor


def follow(
    machine: Machine, population: Population, gibbs_steps: int, resample_below: float, key: tf.Tensor
) -> Population:
    """The population after a change of the parameters: weighted anew, resampled where too few chains count, moved.

    Args:
        machine: the RBM at its new parameters.
        population: as it stood at the old ones.
        gibbs_steps: steps that the chains make.
        resample_below: effective sample size, as a fraction of a group, below which a group is resampled.
        key: uint32 [2].
    """
    field, log_weights = reweighted(machine, population)
    groups = population.log_partition.shape[-1]
    grouped = _grouped(log_weights, groups)
    size = grouped.shape[-1]
    total = tf.reduce_logsumexp(grouped, axis=-1)
    normalised = grouped - total[..., None]
    low = tf.exp(-tf.reduce_logsumexp(2.0 * normalised, axis=-1)) < resample_below * size

    def resample() -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        number = uniform(subkey(key, _RESAMPLING), 0, low.shape.as_list(), field.dtype)
        indices = tf.where(low[..., None], systematic_indices(normalised, number), tf.range(size))
        fields = tf.reshape(field, [*grouped.shape, field.shape[-1]])
        chosen = tf.gather(fields, indices, axis=-2, batch_dims=indices.shape.rank - 1)
        equal = tf.where(low[..., None], 0.0, grouped)
        mean = tf.where(low, total - tf.math.log(tf.cast(size, total.dtype)), 0.0)
        return (
            tf.reshape(chosen, field.shape),
            tf.reshape(equal, log_weights.shape),
            population.log_partition + mean,
        )

    def leave() -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        return tf.identity(field), tf.identity(log_weights), tf.identity(population.log_partition)

    # Visible states are drawn anew through the hidden ones, so the fields of these are all there is to resample.
    field, log_weights, log_partition = tf.cond(tf.reduce_any(low), resample, leave)
    visible = gibbs_from_visible(machine, field, gibbs_steps, batch_source(subkey(key, _PATH))).visible
    return Population(visible, machine.free_energy(visible), log_weights, log_partition)


def reweighted(machine: Machine, population: Population) -> tuple[tf.Tensor, tf.Tensor]:
    """Hidden fields ``[..., M, n_h]`` and log-weights ``[..., M]`` of the chains at new parameters."""
    field = machine.hidden_field(population.visible)
    change = population.free_energy - machine.free_energy(population.visible, field)
    return field, population.log_weights + change


def annealed_population(
    machine: Machine, groups: int, size: int, key: tf.Tensor, gibbs_steps: int = 1, resample_below: float = 0.5
) -> Population:
    """A population that has followed the machine from independent units, whose log Z is known, to where it is.

    At the start the kernel is zero; it then grows in equal steps to what it is. The larger it is, the more steps.

    Args:
        machine: the RBM.
        groups: number of groups.
        size: chains in each.
        key: uint32 [2].
        gibbs_steps: steps of the chains at each temperature.
        resample_below: as for `follow`.
    """
    free = without_weights(machine)
    visible = independent_visible(machine, groups * size, batch_source(subkey(key, _START)), draw=0)
    energy = free.free_energy(visible)
    log_partition = tf.cast(independent_log_partition(machine), energy.dtype)[..., None]
    start = Population(
        visible, energy, tf.zeros_like(energy), tf.broadcast_to(log_partition, [*machine.members, groups])
    )
    probe = independent_visible(machine, PROBE, batch_source(subkey(key, _PROBE)), draw=0)
    variance = tf.math.reduce_variance(free.free_energy(probe) - machine.free_energy(probe), axis=-1)
    wished = tf.math.ceil(TEMPERATURES_PER_VARIANCE * tf.reduce_max(variance))
    count = tf.cast(tf.clip_by_value(wished, 1.0, MOST_TEMPERATURES), tf.int32)

    def step(k: tf.Tensor, population: Population) -> tuple[tf.Tensor, Population]:
        beta = tf.cast(k, energy.dtype) / tf.cast(count, energy.dtype)
        present = dataclasses.replace(machine, kernel=beta * machine.kernel)
        return k + 1, follow(present, population, gibbs_steps, resample_below, subkey(key, _PATH, k))

    _, end = tf.while_loop(lambda k, _: k <= count, step, [tf.constant(1), start], parallel_iterations=1)
    return end


def annealed_samples(machine: Machine, rows: int, key: tf.Tensor) -> tf.Tensor:
    """Samples of a machine ``[..., rows, n_v]`` of equal weight: an annealed population of one group, resampled."""
    population = annealed_population(machine, groups=1, size=rows, key=key)
    normalised = tf.nn.log_softmax(population.log_weights, axis=-1)
    indices = systematic_indices(normalised, uniform(subkey(key, _RESAMPLING), 0, machine.members, normalised.dtype))
    return tf.gather(population.visible, indices, axis=-2, batch_dims=len(machine.members))


def log_partitions(population: Population) -> tf.Tensor:
    """log Z of each group, ``[..., G]``, at the parameters that the population last moved at."""
    grouped = _grouped(population.log_weights, population.log_partition.shape[-1])
    mean = tf.reduce_logsumexp(grouped, axis=-1) - tf.math.log(tf.cast(grouped.shape[-1], grouped.dtype))
    return population.log_partition + mean


def pooled(log_partitions: tf.Tensor) -> LogPartition:
    """log Z from independent estimates of Z without bias, and its standard error from their spread.

    The mean of Z is taken, not that of log Z, so that the estimate is unbiased for Z and too *low* for log Z on
    average. The error is that of the jackknife, together with the distance from another estimate: log Z of long paths
    is nearly normal, and then log E[Z] is its mean plus half of its variance (Berard, Del Moral and Doucet 2014). The
    two agree where the groups do. Where they spread over several nats the mean of Z has hardly seen the few large
    values that it should be made of, and the distance says so.

    Args:
        log_partitions: ``[..., G]``, with G at least 2.

    Example:

    >>> estimate, error = pooled(tf.constant([1.0, 1.2, 0.9, 1.1]))
    >>> round(float(estimate), 3), round(float(error), 3)
    (1.056, 0.065)
    """
    count = log_partitions.shape[-1]
    estimate = tf.reduce_logsumexp(log_partitions, axis=-1) - tf.math.log(tf.cast(count, log_partitions.dtype))
    # Each row leaves one out; -inf would be right on the diagonal, and is no number to calculate with.
    without = log_partitions[..., None, :] + tf.linalg.diag(tf.fill([count], log_partitions.dtype.min / 4))
    left = tf.reduce_logsumexp(without, axis=-1)
    jackknife = (count - 1) * tf.math.reduce_variance(left, axis=-1)
    mean, variance = tf.nn.moments(log_partitions, axes=[-1])
    distance = mean + 0.5 * count / (count - 1) * variance - estimate
    # Without a kernel nothing is left to chance but the rounding of the sums.
    rounding = float(np.finfo(log_partitions.dtype.as_numpy_dtype).eps) * estimate
    return LogPartition(estimate, tf.sqrt(jackknife + tf.square(distance) + tf.square(rounding)))


def _grouped(values: tf.Tensor, groups: int) -> tf.Tensor:
    """``[..., M]`` -> ``[..., groups, M / groups]``."""
    return tf.reshape(values, [*values.shape[:-1], groups, values.shape[-1] // groups])
