"""Each visible unit given all the others, for units of any finite number of states."""

from __future__ import annotations

import tensorflow as tf

from tf_wcd.machine import Machine
from tf_wcd.units.columns import Places

MOST_NUMBERS = 2**22  # of the hidden fields of one row at a time


def sum_over_units(machine: Machine, visible: tf.Tensor) -> tf.Tensor:
    """Sum over the units of log P(unit | all others), for each row of states, ``[n]``."""
    places = machine.visible.places(machine.num_visible)
    units, most_states = places.energies.shape
    step = max(1, MOST_NUMBERS // (most_states * machine.num_hidden))

    def of_row(row: tuple[tf.Tensor, tf.Tensor]) -> tf.Tensor:
        x, field = (values[None] for values in row)
        return tf.add_n(
            [
                tf.reduce_sum(unit_log_prob(machine, places, x, field, tf.range(start, min(start + step, units))[None]))
                for start in range(0, units, step)
            ]
        )

    return tf.map_fn(of_row, (visible, machine.hidden_field(visible)), fn_output_signature=visible.dtype)


def unit_log_prob(
    machine: Machine, places: Places, visible: tf.Tensor, hidden_field: tf.Tensor, chosen: tf.Tensor
) -> tf.Tensor:
    """log P(x_j | all other units) of chosen units j of each row.

    Args:
        machine: an RBM whose visible units have finitely many states.
        places: the visible units.
        visible: states ``[n, n_v]``.
        hidden_field: their hidden fields ``[n, n_h]``.
        chosen: int32 ``[n, k]``, numbers of units.

    Returns:
        ``[n, k]``.
    """
    dtype = visible.dtype
    columns = tf.gather(tf.constant(places.columns, tf.int32), chosen)
    own, states, energies = (
        tf.gather(tf.constant(table, dtype), chosen) for table in (places.own, places.states, places.energies)
    )
    present = tf.gather(visible, columns, axis=1, batch_dims=1) * own
    change = states - present[..., None, :]  # [n, k, states, columns of a unit]
    fields = hidden_field[:, None, None, :] + tf.matmul(change, tf.gather(machine.kernel, columns))
    log_weights = tf.linalg.matvec(change, tf.gather(machine.visible_bias, columns)) - energies
    log_weights += machine.hidden.total_cumulant(fields)
    is_present = tf.reduce_all(change == 0.0, axis=-1) & tf.math.is_finite(energies)
    here = tf.reduce_max(tf.where(is_present, log_weights, tf.constant(float("-inf"), dtype)), axis=-1)
    return here - tf.reduce_logsumexp(log_weights, axis=-1)
