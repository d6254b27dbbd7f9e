"""Pseudo-likelihood: each visible unit given all the others, a likelihood that needs no log Z."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import keras
import numpy as np
import tensorflow as tf

from tf_wcd.arguments import check_integer
from tf_wcd.evaluation.conditionals import sum_over_units, unit_log_prob
from tf_wcd.evaluation.exact import machine_of
from tf_wcd.machine import Machine
from tf_wcd.programs import call_compiled
from tf_wcd.random import key_of, uniform
from tf_wcd.shapes import static_shape

if TYPE_CHECKING:
    from tf_wcd.layer import RBMLayer

CHUNK_ROWS = 1024


def pseudo_log_likelihood(rbm: RBMLayer, x: Any, *, bits: int | None = None, seed: int | None = None) -> np.ndarray:
    """sum_j log P(x_j | all other units), in nats, for each example.

    It has its maximum at the same parameters as the likelihood in the limit of much data, but for a finite model it is
    a different number: neither a bound on the log-likelihood nor close to it where the model has separate modes.

    Changing a unit changes the hidden fields by a few rows of the kernel, so no matrix product is needed but x W: the
    cost is that of one cumulant (a softplus) for each example, state of a visible unit, and hidden unit.

    Args:
        rbm: a built `RBMLayer` whose visible units have finitely many states.
        x: states ``[n, visible units]``.
        bits: number of units, drawn at random for each example, from which the sum is estimated without bias; all units
            if not given.
        seed: an integer for reproducible choices of units; if not given, each call draws new ones.

    Returns:
        float64 ``[n]``.

    Example:

    >>> rbm = tf_wcd.RBMLayer(5, kernel_initializer="zeros")
    >>> rbm.build((None, 3))
    >>> np.round(pseudo_log_likelihood(rbm, np.eye(3)) / np.log(2), 6).tolist()
    [-3.0, -3.0, -3.0]
    """
    machine = machine_of(rbm)
    check_finite(rbm)
    dtype = machine.kernel.dtype
    x = rbm.checked_visible(x, dtype=dtype.as_numpy_dtype, strict=True)
    if bits is not None:
        key = rbm.sampling_key(seed)
        return random_bits_estimate(machine, tf.constant(x), key, check_integer("bits", bits)).numpy().astype("float64")
    rows = min(len(x), CHUNK_ROWS)
    sums = []
    for start in range(0, len(x), rows):
        part = x[start : start + rows]
        padded = np.pad(part, ((0, rows - len(part)), (0, 0)), mode="edge")  # one shape, one compilation
        sums.append(call_compiled(sum_over_all, rbm, tf.constant(padded)).numpy()[: len(part)])
    return np.concatenate(sums).astype("float64")


def check_finite(rbm: RBMLayer) -> None:
    if not rbm.visible_unit.finite:
        raise ValueError(
            "The pseudo-likelihood is for visible units with finitely many states. "
            f"Received: visible_type={rbm.visible_unit.name!r}"
        )


def sum_over_all(machine: Machine, visible: tf.Tensor) -> tf.Tensor:
    """The pseudo-log-likelihood of each row of states, ``[n]``, of units with finitely many states."""
    return _sum_over_bits(machine, visible) if is_binary(machine) else sum_over_units(machine, visible)


def random_bits_estimate(machine: Machine, visible: tf.Tensor, key: tf.Tensor, bits: int = 1) -> tf.Tensor:
    """An unbiased estimate of the pseudo-log-likelihood from units drawn at random, with replacement.

    Args:
        machine: an RBM whose visible units have finitely many states.
        visible: states ``[n, n_v]``.
        key: uint32 [2].
        bits: number of units for each row.

    Returns:
        ``[n]``.
    """
    if not is_binary(machine):
        return _random_units_estimate(machine, visible, key, bits)
    count = machine.num_visible
    rows = static_shape(visible)[0]
    chosen = tf.cast(uniform(key, 0, [rows, bits], visible.dtype) * float(count), tf.int32)
    field = machine.hidden_field(visible)[:, None, :]
    step = flips(machine, tf.gather(visible, chosen, axis=1, batch_dims=1))
    change = machine.hidden.cumulant(field + step[..., None] * tf.gather(machine.kernel, chosen))
    gain = tf.reduce_sum(change - machine.hidden.cumulant(field), axis=-1)
    gain += tf.gather(bias_gains(machine, visible), chosen, axis=1, batch_dims=1)
    return -float(count) * tf.reduce_mean(tf.nn.softplus(gain), axis=-1)


def is_binary(machine: Machine) -> bool:
    """Whether a visible unit is one column with two values, so that there is one other state to compare with."""
    return machine.visible.values is not None and len(machine.visible.values) == 2


def _random_units_estimate(machine: Machine, visible: tf.Tensor, key: tf.Tensor, units: int) -> tf.Tensor:
    places = machine.visible.places(machine.num_visible)
    count = len(places.energies)
    chosen = tf.cast(uniform(key, 0, [static_shape(visible)[0], units], visible.dtype) * float(count), tf.int32)
    log_prob = unit_log_prob(machine, places, visible, machine.hidden_field(visible), chosen)
    return float(count) * tf.reduce_mean(log_prob, axis=-1)


def flips(machine: Machine, states: tf.Tensor) -> tf.Tensor:
    """What a unit changes by when it goes to its other state."""
    low, high = machine.visible.values  # type: ignore[misc]
    return (low + high) - 2.0 * states


def bias_gains(machine: Machine, visible: tf.Tensor) -> tf.Tensor:
    """What the flip of each unit lowers the energy by, the weights aside, ``[n, n_v]``."""
    steps = flips(machine, visible)
    gains = steps * machine.visible_bias
    base = machine.visible.base_energy(visible)
    return gains if base is None else gains + base - machine.visible.base_energy(visible + steps)


def _sum_over_bits(machine: Machine, visible: tf.Tensor) -> tf.Tensor:
    """The pseudo-log-likelihood of each row: log P(x_j | rest) = -softplus(F(x) - F(x with unit j flipped))."""
    columns = tf.transpose(machine.kernel)

    def of_row(row: tuple[tf.Tensor, tf.Tensor, tf.Tensor]) -> tf.Tensor:
        field, step, bias = row
        hidden = machine.hidden
        if hidden.elementwise:
            # Hidden units run along the first axis: the sum over them works on all flips at once, and is never stored.
            change = hidden.cumulant(field[:, None] + step * columns) - hidden.cumulant(field)[:, None]
            gain = tf.reduce_sum(change, axis=0)
        else:
            gain = hidden.total_cumulant(field + step[:, None] * machine.kernel) - hidden.total_cumulant(field[None])
        return -tf.reduce_sum(tf.nn.softplus(gain + bias))

    steps = flips(machine, visible)
    rows = (machine.hidden_field(visible), steps, bias_gains(machine, visible))
    return tf.map_fn(of_row, rows, fn_output_signature=visible.dtype)


class PseudoLogLikelihood(keras.metrics.Mean):
    """A Keras metric: the mean pseudo-log-likelihood, estimated from units drawn at random at each update.

    It takes the visible states as ``y_true``, so it also goes into `compile(metrics=...)` of an autoencoder whose
    encoder is the RBM. Its cost is that of one product with the kernel.

    Args:
        rbm: a built `RBMLayer` whose visible units have finitely many states.
        bits: units drawn for each example.
        seed: seed of the draws.
        name: name in the logs.
        dtype: type of the metric.

    Example:

    >>> rbm = tf_wcd.RBMLayer(5, kernel_initializer="zeros")
    >>> rbm.build((None, 3))
    >>> metric = PseudoLogLikelihood(rbm)
    >>> metric.update_state(np.eye(3))
    >>> round(float(metric.result() / np.log(2)), 5)
    -3.0
    """

    def __init__(
        self,
        rbm: RBMLayer,
        bits: int = 1,
        seed: int | None = None,
        name: str = "pseudo_log_likelihood",
        dtype: Any = None,
    ) -> None:
        super().__init__(name=name, dtype=dtype)
        check_finite(rbm)
        self.rbm = rbm
        self.bits = bits
        self.seed_generator = keras.random.SeedGenerator(seed)

    def update_state(self, y_true: Any, y_pred: Any = None, sample_weight: Any = None) -> None:
        machine = self.rbm.machine()
        visible = tf.cast(tf.convert_to_tensor(y_true), machine.kernel.dtype)
        values = random_bits_estimate(machine, visible, key_of(self.seed_generator.next()), self.bits)
        super().update_state(values, sample_weight=sample_weight)
