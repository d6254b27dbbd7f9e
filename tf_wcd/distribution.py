"""An RBM as a distribution of TensorFlow Probability, over its visible units."""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow_probability as tfp

from tf_wcd.arguments import check_integer
from tf_wcd.enumeration import states_of
from tf_wcd.evaluation import exact
from tf_wcd.gibbs import random_visible
from tf_wcd.machine import Machine
from tf_wcd.random_bits import key_of, uniform
from tf_wcd.sampling import run_chains

MAX_SAMPLING_UNITS = 20


class RBMDistribution(tfp.distributions.Distribution):
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
        self._log_weights: tf.Tensor | None = None
        super().__init__(
            dtype=machine.kernel.dtype,
            reparameterization_type=tfp.distributions.NOT_REPARAMETERIZED,
            validate_args=validate_args,
            allow_nan_stats=allow_nan_stats,
            parameters=parameters,
            name=name,
        )

    @property
    def exact_samples(self) -> bool:
        """Whether samples are exact and independent; if not, they come from chains of ``gibbs_steps`` steps."""
        return exact.smaller_side(self._machine)[1] <= MAX_SAMPLING_UNITS

    @property
    def log_partition(self) -> tf.Tensor:
        """log Z, float64: the one given, or the exact one."""
        if self._log_partition is None:
            with tf.init_scope():
                self._log_partition = exact.log_partition_of(self._machine)
        return self._log_partition

    def _batch_shape(self) -> tf.TensorShape:
        return tf.TensorShape([])

    def _batch_shape_tensor(self) -> tf.Tensor:
        return tf.constant([], tf.int32)

    def _event_shape(self) -> tf.TensorShape:
        return tf.TensorShape([self._machine.num_visible])

    def _event_shape_tensor(self) -> tf.Tensor:
        return tf.constant([self._machine.num_visible])

    def _sample_control_dependencies(self, x: tf.Tensor) -> list[tf.Operation]:
        values = self._machine.visible.values
        if values is None or not self.validate_args:
            return []
        message = f"States of {self._machine.visible.name!r} units are {values[0]:g} and {values[1]:g}"
        return [tf.debugging.Assert(tf.reduce_all((x == values[0]) | (x == values[1])), [message, x])]

    def _log_prob(self, x: tf.Tensor) -> tf.Tensor:
        # The difference of two large numbers, taken in float64.
        rows = tf.cast(tf.reshape(x, [-1, self._machine.num_visible]), tf.float64)
        log_prob = -exact.as_float64(self._machine).free_energy(rows) - self.log_partition
        return tf.cast(tf.reshape(log_prob, tf.shape(x)[:-1]), self.dtype)

    def _sample_n(self, n: int | tf.Tensor, seed: Any = None) -> tf.Tensor:
        # An integer is a seed of its own, as in `RBMLayer.sample`; TFP would mix it with TensorFlow's global seed.
        whole = isinstance(seed, int | np.integer)
        key = key_of([seed, 0]) if whole else tf.bitcast(tfp.random.sanitize_seed(seed), tf.uint32)
        machine = self._machine
        if not self.exact_samples:
            # The last number of a 32-bit counter: the chain itself counts from 0.
            start = random_visible(machine, n, key, draw=2**32 - 1)
            return run_chains(machine, start, None, tf.constant(self._gibbs_steps), key)
        over_visible, count = exact.smaller_side(machine)
        unit = machine.visible if over_visible else machine.hidden
        index = choose(tf.exp(self._log_side_probabilities()), n, key)
        states = states_of(index, unit, count, self.dtype.name)
        return states if over_visible else machine.sample_visible(machine.visible_field(states), key, 2)

    def _mean(self) -> tf.Tensor:
        if not self.exact_samples:
            raise ValueError(
                f"The mean is exact, by enumeration of at most {MAX_SAMPLING_UNITS} units on the smaller side. "
                f"Received: {self._machine.num_visible} visible x {self._machine.num_hidden} hidden units. "
                "Take the mean of samples."
            )
        with tf.init_scope():
            machine = exact.as_float64(self._machine)
            over_visible, _ = exact.smaller_side(machine)
            probabilities = tf.exp(self._log_side_probabilities())
            total = tf.zeros([machine.num_visible], tf.float64)
            for start, states in exact.chunks_of_states(machine):
                means = states if over_visible else machine.visible.mean(machine.visible_field(states))
                total += tf.linalg.matvec(means, probabilities[start : start + len(states)], transpose_a=True)
        return tf.cast(total, self.dtype)

    def _default_event_space_bijector(self) -> tfp.bijectors.Bijector | None:
        return tfp.bijectors.Identity() if self._machine.visible.values is None else None

    def _log_side_probabilities(self) -> tf.Tensor:
        """Log of the probability of each state of the smaller side, float64 ``[2 ** count]``; computed once."""
        if self._log_weights is None:
            with tf.init_scope():
                machine = exact.as_float64(self._machine)
                over_visible, _ = exact.smaller_side(machine)
                free_energy = machine.free_energy if over_visible else machine.hidden_free_energy
                weights = [-free_energy(states) for _, states in exact.chunks_of_states(machine)]
                self._log_weights = tf.nn.log_softmax(tf.concat(weights, axis=0))
        return self._log_weights


def choose(probabilities: tf.Tensor, n: int | tf.Tensor, key: tf.Tensor) -> tf.Tensor:
    """Independent indices, int32 ``[n]``, of the given probabilities (float64).

    Example:

    >>> choose(tf.constant([0.0, 1.0, 0.0], tf.float64), 4, tf.constant([1, 2], tf.uint32)).numpy().tolist()
    [1, 1, 1, 1]
    """
    # One draw tells 2^23 cases apart, too few for the rarer ones of a million: a second one fills the gaps.
    coarse, fine = (uniform(key, draw, [n], "float64") for draw in (0, 1))
    steps = tf.cumsum(probabilities)
    position = (coarse + (fine - 0.5) * 2.0**-23) * steps[-1]
    return tf.searchsorted(steps, position, side="right")
