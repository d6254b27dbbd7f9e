"""The path from independent units to the model, and chains that are carried along it.

At the inverse temperature beta the machine has the kernel beta W, the hidden bias beta c and the visible bias
(1 - beta) b_0 + beta b: at 0 the units are independent, with visible bias b_0, and at 1 it is the model. The energy
that a visible unit has by itself stays the same all along the path.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from tf_wcd.arguments import is_integer
from tf_wcd.machine import Machine
from tf_wcd.random import Source, batch_source, subkey, uniform
from tf_wcd.sampling.gibbs import gibbs_step
from tf_wcd.sampling.resampling import systematic_indices

ROOM = 2**14  # temperatures that one compiled program has room for
RESAMPLE_BELOW = 0.5  # effective part of a population


class Annealed(NamedTuple):
    """A machine at one temperature of the path, as far as a Gibbs step needs it."""

    machine: Machine
    base_bias: tf.Tensor
    beta: tf.Tensor

    def visible_field(self, hidden: tf.Tensor) -> tf.Tensor:
        return self.base_bias + self.beta * (self.machine.visible_field(hidden) - self.base_bias)

    def sample_hidden(self, field: tf.Tensor, source: Source, draw: tf.Tensor | int) -> tf.Tensor:
        return self.machine.sample_hidden(field, source, draw)

    def sample_visible(self, field: tf.Tensor, source: Source, draw: tf.Tensor | int) -> tf.Tensor:
        return self.machine.sample_visible(field, source, draw)


class Path(NamedTuple):
    """The path of a machine. A whole temperature costs the two matrix products of its Gibbs step.

    Attributes:
        machine: the RBM, which stands at 1.
        base_bias: ``[n_v]`` visible bias b_0 at temperature 0.
    """

    machine: Machine
    base_bias: tf.Tensor

    def fields(self, visible: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """What the free energies of x at all temperatures follow from: c + W x, and (b - b_0).x."""
        tilt = self.machine.visible_bias - self.base_bias
        return self.machine.hidden_field(visible), tf.linalg.matvec(visible, tilt)

    def gain(self, field: tf.Tensor, tilted: tf.Tensor, now: tf.Tensor, then: tf.Tensor) -> tf.Tensor:
        """Log of the unnormalised probability at ``then`` minus that at ``now``, float64 ``[M]``."""
        # One sum of small differences, not a difference of two large sums.
        change = self.machine.hidden.cumulant(then * field) - self.machine.hidden.cumulant(now * field)
        return tf.cast(tf.reduce_sum(change, axis=-1) + (then - now) * tilted, tf.float64)

    def move(self, field: tf.Tensor, beta: tf.Tensor, source: Source, draw: tf.Tensor | int) -> tf.Tensor:
        """Visible states ``[M, n_v]`` after a Gibbs step at a temperature; takes two draws."""
        return gibbs_step(Annealed(self.machine, self.base_bias, beta), beta * field, source, draw)[1]


class Carried(NamedTuple):
    """What chains have gathered along a path of temperatures.

    Attributes:
        log_weights: float64 ``[M]``, the logarithm of the weights. These have the expectation Z(last) / Z(first).
        gains: float64 ``[K]``, what each step along the path has added to them, mean over the chains.
    """

    log_weights: tf.Tensor
    gains: tf.Tensor


def anneal(
    machine: Machine,
    base_bias: tf.Tensor,
    visible: tf.Tensor,
    temperatures: tf.Tensor,
    key: tf.Tensor,
    count: tf.Tensor | None = None,
) -> Carried:
    """Carries chains along the temperatures, in either direction, and weighs their paths.

    The chains must start from the distribution of the first temperature. At each temperature a chain's weight is
    multiplied by the ratio of its unnormalised probabilities at the next and at this temperature, and then the chain
    makes a Gibbs step at the next one.

    Args:
        machine: the RBM.
        base_bias: ``[n_v]`` visible bias b_0 at temperature 0.
        visible: ``[M, n_v]`` where the chains start.
        temperatures: ``[K + 1]`` inverse temperatures, in increasing or in decreasing order.
        key: uint32 [2].
        count: how many of the temperatures are used, from the first on; all if not given. See `padded`. The gains of
            the others are 0.
    """
    path, source = Path(machine, base_bias), batch_source(key)

    def added(sums: Carried, k: tf.Tensor, gained: tf.Tensor) -> Carried:
        mean = tf.reduce_mean(gained, keepdims=True)
        return Carried(sums.log_weights + gained, tf.tensor_scatter_nd_update(sums.gains, [[k - 1]], mean))

    def weigh(k: tf.Tensor, field: tf.Tensor, gained: tf.Tensor, sums: Carried) -> tuple[tf.Tensor, Carried]:
        return field, added(sums, k, gained)

    steps = temperatures.shape[0] - 1
    last = steps if count is None else count - 1
    nothing = Carried(tf.zeros(visible.shape[:1], tf.float64), tf.zeros([steps], tf.float64))
    # The step to the last temperature needs no move there.
    field, tilted, sums = _along(path, visible, temperatures, source, last - 1, weigh, nothing)
    return added(sums, last, path.gain(field, tilted, temperatures[last - 1], temperatures[last]))


def annealed_states(
    machine: Machine,
    base_bias: tf.Tensor,
    visible: tf.Tensor,
    temperatures: tf.Tensor,
    key: tf.Tensor,
    count: tf.Tensor | None = None,
) -> tf.Tensor:
    """Samples of the last temperature ``[M, n_v]``, nearly: a population that is resampled on its way along the path.

    Chains that have come to a part of the space with too little probability leave no copies, those of a part with too
    much several (sequential Monte Carlo; Del Moral, Doucet and Jasra 2006). So modes that chains do not cross have
    their shares, as well as a population of this size can tell. Copies of one chain are alike at first: some steps at
    the last temperature set them apart.

    Args:
        machine: the RBM.
        base_bias: ``[n_v]`` visible bias b_0 at temperature 0.
        visible: ``[M, n_v]`` where the chains start, samples of the first temperature.
        temperatures: ``[K + 1]`` inverse temperatures.
        key: uint32 [2].
        count: how many of the temperatures are used; see `anneal`.
    """
    path, source, rows = Path(machine, base_bias), batch_source(key), visible.shape[0]

    def chosen(log_weights: tf.Tensor, k: tf.Tensor) -> tf.Tensor:
        return systematic_indices(tf.nn.log_softmax(log_weights), uniform(subkey(key, k), 0, [], tf.float64))

    def resample(
        k: tf.Tensor, field: tf.Tensor, gained: tf.Tensor, log_weights: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor]:
        log_weights += gained
        square = tf.reduce_logsumexp(2.0 * tf.nn.log_softmax(log_weights))
        low = tf.exp(-square) < RESAMPLE_BELOW * rows
        # A visible state is drawn anew from its field, which is all there is to resample.
        field = tf.cond(low, lambda: tf.gather(field, chosen(log_weights, k)), lambda: tf.identity(field))
        return field, tf.where(low, tf.zeros_like(log_weights), log_weights)

    last = temperatures.shape[0] - 1 if count is None else count - 1
    even = tf.zeros([rows], tf.float64)
    field, _, log_weights = _along(path, visible, temperatures, source, last, resample, even)
    # The last weights are those of the step to the last temperature, whose Gibbs step has left them right.
    return path.move(tf.gather(field, chosen(log_weights, last + 1)), temperatures[last], source, 2 * last + 2)


def _along(
    path: Path,
    visible: tf.Tensor,
    temperatures: tf.Tensor,
    source: Source,
    last: tf.Tensor | int,
    arrive: Callable[[tf.Tensor, tf.Tensor, tf.Tensor, Any], tuple[tf.Tensor, Any]],
    state: Any,
) -> tuple[tf.Tensor, tf.Tensor, Any]:
    """Moves chains from the first temperature to that of the number ``last``, with a Gibbs step at each.

    Args:
        path: of the machine.
        visible: ``[M, n_v]`` where the chains start.
        temperatures: ``[K + 1]`` inverse temperatures.
        source: of the random numbers.
        last: number of the temperature at which the last step is made.
        arrive: what is done before the step at temperature k, of k, the fields, the gain in log-probability and the
            state; gives the fields that the step starts from and the new state.
        state: what is carried along.

    Returns:
        The fields of the chains, their tilts and the state.
    """

    def step(k: tf.Tensor, field: tf.Tensor, tilted: tf.Tensor, state: Any) -> tuple[Any, ...]:
        field, state = arrive(k, field, path.gain(field, tilted, temperatures[k - 1], temperatures[k]), state)
        return k + 1, *path.fields(path.move(field, temperatures[k], source, 2 * k)), state

    start = [tf.constant(1), *path.fields(visible), state]
    _, *moved = tf.while_loop(lambda k, *_: k <= last, step, start, parallel_iterations=1)
    return tuple(moved)


def base_log_partition(machine: Machine, base_bias: tf.Tensor) -> tf.Tensor:
    """log Z at temperature 0, where all units are independent."""
    fields = tf.cast(base_bias, tf.float64)[None, :]
    machine = machine.cast("float64")
    hidden = machine.hidden.total_cumulant(tf.zeros([1, machine.num_hidden], tf.float64))
    return machine.visible.total_cumulant(fields)[0] + hidden[0]


def sample_base(machine: Machine, base_bias: tf.Tensor, rows: int, key: tf.Tensor) -> tf.Tensor:
    """Independent visible states at temperature 0, ``[rows, n_v]``."""
    fields = tf.broadcast_to(base_bias, [rows, machine.num_visible])
    return machine.sample_visible(fields, batch_source(key), 0)


def check_temperatures(temperatures: Any) -> np.ndarray:
    """Inverse temperatures from 0 to 1, float64, from their number or from themselves."""
    if is_integer(temperatures):
        if temperatures < 2:
            raise ValueError(f"`temperatures` must be at least 2. Received: temperatures={temperatures!r}")
        # Trained models change fastest near the end. Of the spacings tried on MNIST, this one dissipated least.
        return 1.0 - (1.0 - np.linspace(0.0, 1.0, temperatures)) ** 1.5
    betas = np.asarray(temperatures)
    if betas.ndim != 1 or len(betas) < 2 or not np.issubdtype(betas.dtype, np.number):
        raise ValueError(f"`temperatures` must be an integer or a vector of numbers. Received: {temperatures!r}")
    betas = betas.astype("float64")
    if betas[0] != 0 or betas[-1] != 1 or not np.all(np.diff(betas) > 0):
        raise ValueError(
            "`temperatures` must be inverse temperatures that increase from 0 to 1. "
            f"Received: {betas[0]:g} ... {betas[-1]:g}, smallest step {np.diff(betas).min():g}"
        )
    return betas


def padded(temperatures: np.ndarray) -> np.ndarray:
    """The temperatures in an array with room for more, so that paths of other lengths run the same program.

    Example:

    >>> padded(np.linspace(0.0, 1.0, 5)).shape
    (16384,)
    """
    room = max(ROOM, 2 ** (len(temperatures) - 1).bit_length())
    return np.pad(temperatures, (0, room - len(temperatures)), mode="edge")
