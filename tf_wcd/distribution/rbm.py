"""An RBM as a distribution of TensorFlow Probability, over its visible units."""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow_probability as tfp

from tf_wcd.arguments import check_integer
from tf_wcd.distribution.vector import VectorDistribution
from tf_wcd.enumeration import MAX_LISTED_UNITS
from tf_wcd.evaluation import exact
from tf_wcd.machine import Machine
from tf_wcd.random import batch_source, key_of
from tf_wcd.sampling import ExactSampler, can_sample_exactly, exact_sampler, random_visible, run_chains


class RBMDistribution(VectorDistribution):
    """P(x) = exp(-F(x)) / Z of one RBM. `RBMLayer.distribution` makes it.

    log Z is computed at the first call of `log_prob`, by enumeration of the smaller side, and kept.

    Samples are exact and independent where the smaller side (the hidden one for Gaussian visible units) has at most 20
    units: its state is drawn from the list of all its states, and the other side follows from it. Beyond that, each
    sample is the end of a chain of ``gibbs_steps`` Gibbs steps from a random start: close to the model's distribution
    only if such chains mix. `exact_samples` says which.

    Args:
        machine: the RBM as a value.
        log_partition: log Z where it is known from elsewhere, an estimate by
            `tf_wcd.evaluation.annealed_log_partition`, say: `log_prob` then errs by as much as it does.
        gibbs_steps: length of the chains, where samples are not exact.
        validate_args: check the states given to `log_prob`: an error for what no unit can be, a grey level between 0
            and 1, say.
        allow_nan_stats: as in every distribution of TFP.
        name: name of the operations.

    Example:

    >>> rbm = tf_wcd.RBMLayer(4, kernel_initializer="zeros")
    >>> rbm.build((None, 3))
    >>> model = rbm.distribution()
    >>> round(float(model.prob([0.0, 1.0, 1.0])), 6), model.sample(5, seed=1).shape
    (0.125, TensorShape([5, 3]))
    """

    def __init__(
        self,
        machine: Machine,
        log_partition: float | None = None,
        gibbs_steps: int = 1000,
        validate_args: bool = True,
        allow_nan_stats: bool = True,
        name: str = "RBM",
    ) -> None:
        parameters = dict(locals())
        if machine.kernel.shape.rank != 2:
            raise ValueError(f"A distribution is of one RBM. Received: a kernel of shape {machine.kernel.shape}")
        if log_partition is not None and not np.isfinite(float(log_partition)):
            raise ValueError(f"`log_partition` must be a finite number. Received: log_partition={log_partition!r}")
        self._machine = machine
        self._gibbs_steps = check_integer("gibbs_steps", gibbs_steps)
        self._log_partition = None if log_partition is None else tf.constant(log_partition, tf.float64)
        self._sampler: ExactSampler | None = None
        super().__init__(machine.kernel.dtype, parameters, name, validate_args, allow_nan_stats)

    @property
    def exact_samples(self) -> bool:
        """Whether samples are exact and independent; if not, they come from chains of ``gibbs_steps`` steps."""
        return can_sample_exactly(self._machine)

    @property
    def log_partition(self) -> tf.Tensor:
        """log Z, float64: the one given, or the exact one."""
        if self._log_partition is None:
            with tf.init_scope():
                self._log_partition = exact.log_partition_of(self._machine)
        return self._log_partition

    @property
    def width(self) -> int:
        return self._machine.num_visible

    def _sample_control_dependencies(self, x: tf.Tensor) -> list[tf.Operation]:
        unit = self._machine.visible
        if not self.validate_args:
            return []
        message = f"States of {unit.name!r} units are {unit.state_domain()}"
        return [tf.debugging.Assert(tf.reduce_all(unit.are_states(x)), [message, x])]

    def _log_prob(self, x: tf.Tensor) -> tf.Tensor:
        log_prob = self.wide_log_prob(tf.reshape(x, [-1, self.width]))
        return tf.cast(tf.reshape(log_prob, tf.shape(x)[:-1]), self.dtype)

    def wide_log_prob(self, rows: tf.Tensor) -> tf.Tensor:
        """log P of each row in float64: the difference of two large numbers."""
        return -self._machine.cast("float64").free_energy(tf.cast(rows, tf.float64)) - self.log_partition

    def _sample_n(self, n: int | tf.Tensor, seed: Any = None) -> tf.Tensor:
        # An integer is the seed itself, as in `RBMLayer.sample`; TFP would mix it with TensorFlow's global seed.
        whole = isinstance(seed, int | np.integer)
        key = key_of([seed, 0]) if whole else tf.bitcast(tfp.random.sanitize_seed(seed), tf.uint32)
        machine, source = self._machine, batch_source(key)
        if self.exact_samples:
            return self._exact_sampler().sample(n, key)
        # The last number of a 32-bit counter: the chain itself counts from 0.
        start = random_visible(machine, n, source, draw=2**32 - 1)
        return run_chains(machine, start, None, tf.constant(self._gibbs_steps), source).visible

    def _mean(self) -> tf.Tensor:
        if not self.exact_samples:
            raise ValueError(
                f"The mean is exact, by enumeration of at most {MAX_LISTED_UNITS} units on the smaller side. "
                f"Received: {self._machine.num_visible} visible x {self._machine.num_hidden} hidden units. "
                "Take the mean of samples."
            )
        with tf.init_scope():
            machine = self._machine.cast("float64")
            sampler = self._exact_sampler()
            probabilities = tf.exp(sampler.log_probabilities)
            total = tf.zeros([machine.num_visible], tf.float64)
            for start, states in sampler.side.chunks():
                means = states if sampler.side.visible else machine.visible.mean(machine.visible_field(states))
                total += tf.linalg.matvec(means, probabilities[start : start + len(states)], transpose_a=True)
        return tf.cast(total, self.dtype)

    def _default_event_space_bijector(self) -> tfp.bijectors.Bijector | None:
        return None if self._machine.visible.finite else tfp.bijectors.Identity()

    def _exact_sampler(self) -> ExactSampler:
        if self._sampler is None:
            with tf.init_scope():
                self._sampler = exact_sampler(self._machine)
        return self._sampler
