"""A lower bound on the log-likelihood of data under a Deep Belief Network.

With the recognition distribution Q of the hidden layers given the data, and H its entropy,

    log P(x) >= E_Q[log P(x | h_1) + log P(h_1 | h_2) + ... + log P_top(h_top)] + H(Q)

where h_top are the visible units of the top RBM. Equality holds where Q is the true posterior: for one RBM, and for two
of which the second is the first one transposed.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import tensorflow as tf

from tf_wcd.arguments import check_integer, check_seed
from tf_wcd.enumeration import MAX_UNITS, all_states, smaller_side
from tf_wcd.evaluation.annealed import annealed_log_partition
from tf_wcd.evaluation.directions import AnnealedLogPartition
from tf_wcd.evaluation.exact import log_partition
from tf_wcd.machine import Machine
from tf_wcd.random import batch_source, key_of, subkey
from tf_wcd.sampling.passes import label_log_weights, pass_up
from tf_wcd.training.inputs.labels import one_hot

if TYPE_CHECKING:
    from tf_wcd.dbn.model import DBN

MAX_ENUMERATED = 12
ROWS_AT_A_TIME = 256
_SAMPLES = 0xB0  # in the place of a counter: the samples have numbers that the annealing of the same seed has not
_STARTS = 2**31 - 1  # in the place of a sample's number
MOST_STARTS = 2000


@dataclasses.dataclass(frozen=True)
class VariationalBound:
    """A lower bound on the mean log-likelihood in nats, and how it was found.

    Attributes:
        mean: the bound, mean over the examples.
        values: float64 ``[n]``, for each example.
        standard_error: of ``mean``, from the samples of the hidden layers and the error of log Z; 0 where both are
            exact. It does not include the choice of the examples.
        method: ``"exact"`` or ``"sampled"``: the expectation over the hidden layers.
        log_partition: log Z of the top RBM.
        log_partition_method: ``"exact"`` or ``"annealed"``.
        lower: the bound with the upper end of the interval of log Z, never above ``mean``: a lower bound still, if
            the reverse chains started from samples of the top RBM.
        annealed: all estimates of log Z, where they were made, with its interval from ``lower`` to ``upper``. ``mean``
            uses its ``estimate``, which is too low on average and so flatters the model.
    """

    mean: float
    values: np.ndarray = dataclasses.field(repr=False)
    standard_error: float
    method: str
    log_partition: float
    log_partition_method: str
    lower: float
    annealed: AnnealedLogPartition | None = None


def variational_bound(
    dbn: DBN,
    x: Any,
    labels: Any = None,
    *,
    samples: int = 10,
    exact: bool | None = None,
    max_units: int = MAX_UNITS,
    seed: int | None = 0,
    **annealing: Any,
) -> VariationalBound:
    """A lower bound on log P(x), or on log P(x, label).

    Args:
        dbn: a built `DBN`.
        x: states ``[n, visible units]``.
        labels: where the top layer has labels: those of the examples, for a bound on log P(x, label). Without them the
            labels are summed over.
        samples: samples of the hidden layers for each example, where they are not enumerated.
        exact: enumerate the states of every layer between the data and the top RBM, of at most 12 units each; ``None``
            does so where it is possible.
        max_units: largest number of units to enumerate for log Z of the top RBM; 0 for annealing always.
        seed: of the samples and of the annealing; with ``None`` each call draws new ones.
        **annealing: arguments of `tf_wcd.evaluation.annealed_log_partition` for the top RBM. Without ``data``, states
            of its visible units that were drawn given ``x`` (and ``labels``) take their place.

    Returns:
        A `VariationalBound`.

    Example:

    >>> dbn = tf_wcd.DBN([tf_wcd.RBMLayer(4, seed=0), tf_wcd.RBMLayer(3, seed=1)])
    >>> dbn.build((None, 5))
    >>> tf_wcd.evaluation.variational_bound(dbn, np.eye(5)).method
    'exact'
    """
    recognition = [machine.cast("float64") for machine in dbn.machines()]
    generative = [machine.cast("float64") for machine in dbn.generative_machines()]
    x = dbn.checked_data(x, dtype="float64", strict=True)
    samples, seed = check_integer("samples", samples), check_seed(seed)
    given = _check_labels(dbn, labels, len(x))
    enumerate_all = _check_exact(recognition[:-1], exact)
    small = smaller_side(recognition[-1]).bits <= max_units
    key = dbn.top.sampling_key(None) if seed is None else key_of(tf.constant([seed, _SAMPLES], tf.int64))
    annealed = None
    if not small:
        if annealing.get("data") is None:
            annealing["data"] = _states_of_top(recognition, x, given, subkey(key, _STARTS))
        annealed = annealed_log_partition(dbn.top, seed=seed, **annealing)
    log_z, log_z_upper = (annealed.estimate, annealed.upper) if annealed else [log_partition(dbn.top)] * 2
    if enumerate_all:
        values, error = _enumerated(recognition, generative, x, given), 0.0
    else:
        values, error = _mean_and_error(_sampled(recognition, generative, x, given, samples, key))
    mean = float(values.mean()) - log_z
    return VariationalBound(
        mean=mean,
        values=values - log_z,
        standard_error=math.hypot(error, annealed.standard_error if annealed else 0.0),
        method="exact" if enumerate_all else "sampled",
        log_partition=log_z,
        log_partition_method="annealed" if annealed else "exact",
        lower=mean + log_z - log_z_upper,
        annealed=annealed,
    )


def _check_labels(dbn: DBN, labels: Any, rows: int) -> tf.Tensor | None:
    """Labels in one-hot coding, where they are given."""
    if labels is None:
        return None
    if not dbn.classes:
        raise ValueError("The top layer has no labels. Received: `labels`")
    return tf.constant(one_hot(labels, dbn.classes, rows, "float64"))


def _check_exact(below: Sequence[Machine], exact: bool | None) -> bool:
    """Whether the layers between the data and the top RBM are enumerated."""
    small = all(machine.hidden.bits(machine.num_hidden) <= MAX_ENUMERATED for machine in below)
    if exact and not small:
        raise ValueError(
            f"Exact bounds enumerate every layer below the top RBM, of at most {MAX_ENUMERATED} units. "
            f"Received: {[machine.num_hidden for machine in below]} units"
        )
    return small if exact is None else bool(exact)


def _mean_and_error(draws: np.ndarray) -> tuple[np.ndarray, float]:
    """Mean over the samples ``[samples, n]``, and the standard error of its mean over the examples."""
    samples, count = draws.shape
    spread = draws.var(axis=0, ddof=1) if samples > 1 else np.full(count, np.nan)
    return draws.mean(axis=0), math.sqrt(spread.sum() / samples) / count


def _enumerated(
    recognition: Sequence[Machine], generative: Sequence[Machine], x: np.ndarray, labels: tf.Tensor | None
) -> np.ndarray:
    """The bound without log Z: exact expectations, layer by layer from the top.

    The value of a state of layer i is the expectation over layer i + 1, under Q, of log P(state | h) - log Q(h | state)
    + value of h. The value of a state of the top RBM's visible units is its unnormalised log-probability.
    """
    top = recognition[-1]
    if len(recognition) == 1:
        return _top_log_weight(top, tf.constant(x), labels).numpy()
    spaces = [all_states(machine.hidden, machine.num_hidden, "float64") for machine in recognition[:-1]]
    if labels is None:
        above = _top_log_weight(top, spaces[-1], None)[None, :]
    else:
        # [n, states]: the value of the highest states depends on the example's label.
        above = tf.matmul(labels, label_log_weights(top, spaces[-1]), transpose_b=True)
    for number in reversed(range(1, len(generative))):
        step, q = _one_level(recognition[number], generative[number], spaces[number - 1], spaces[number])
        above = tf.reduce_sum(q * step, axis=1) + tf.matmul(above, q, transpose_b=True)
    parts = []
    for start in range(0, len(x), ROWS_AT_A_TIME):
        rows = tf.constant(x[start : start + ROWS_AT_A_TIME])
        step, q = _one_level(recognition[0], generative[0], rows, spaces[0])
        here = above if labels is None else above[start : start + ROWS_AT_A_TIME]
        parts.append(tf.reduce_sum(q * (step + here), axis=1).numpy())
    return np.concatenate(parts)


def _one_level(
    recognition: Machine, generative: Machine, below: tf.Tensor, above: tf.Tensor
) -> tuple[tf.Tensor, tf.Tensor]:
    """log P(below | above) - log Q(above | below), and Q(above | below), each ``[below, above]``."""
    field = generative.visible_field(above)
    log_p = tf.matmul(below, field, transpose_b=True) - generative.visible.total_cumulant(field)
    base = generative.visible.total_base_energy(below)
    if base is not None:
        log_p -= base[:, None]
    field = recognition.hidden_field(below)
    log_q = tf.matmul(field, above, transpose_b=True) - recognition.hidden.total_cumulant(field)[:, None]
    base = recognition.hidden.total_base_energy(above)
    if base is not None:
        log_q -= base
    return log_p - log_q, tf.exp(log_q)


def _sampled(
    recognition: Sequence[Machine],
    generative: Sequence[Machine],
    x: np.ndarray,
    labels: tf.Tensor | None,
    samples: int,
    key: tf.Tensor,
) -> np.ndarray:
    """The bound without log Z for each sample of the hidden layers, ``[samples, n]``: entropies are exact."""
    draws = []
    for sample in range(samples):
        parts = []
        for start in range(0, len(x), ROWS_AT_A_TIME):
            states = tf.constant(x[start : start + ROWS_AT_A_TIME])
            source = batch_source(subkey(key, sample, start))
            total = tf.zeros(states.shape[:1], tf.float64)
            for number, (up, down) in enumerate(zip(recognition[:-1], generative, strict=True)):
                field = up.hidden_field(states)
                above = up.sample_hidden(field, source, number)
                total += up.hidden.entropy(field) + down.visible.log_prob(states, down.visible_field(above))
                states = above
            given = None if labels is None else labels[start : start + ROWS_AT_A_TIME]
            parts.append((total + _top_log_weight(recognition[-1], states, given)).numpy())
        draws.append(np.concatenate(parts))
    return np.stack(draws)


def _states_of_top(
    recognition: Sequence[Machine], x: np.ndarray, labels: tf.Tensor | None, key: tf.Tensor
) -> np.ndarray:
    """Visible states of the top RBM, drawn given some of the examples, ``[rows, n]``: data for its annealing."""
    every, source, top = -(-len(x) // MOST_STARTS), batch_source(key), recognition[-1]
    states = pass_up(recognition[:-1], tf.constant(x[::every]), source)[-1]
    if top.visible.classes:
        weights = label_log_weights(top, states) if labels is None else tf.math.log(labels[::every])
        # The largest of log-weights with Gumbel noise is a draw by the weights.
        noise = -tf.math.log(-tf.math.log(source(len(recognition), weights)))
        drawn = tf.one_hot(tf.argmax(weights + noise, axis=-1), top.visible.classes, dtype=states.dtype)
        states = tf.concat([states, drawn], axis=-1)
    return states.numpy()


def _top_log_weight(top: Machine, states: tf.Tensor, labels: tf.Tensor | None) -> tf.Tensor:
    """Unnormalised log-probability of the top RBM's visible units, with their label or summed over all, ``[rows]``."""
    if not top.visible.classes:
        return -top.free_energy(states)
    weights = label_log_weights(top, states)
    return tf.reduce_logsumexp(weights, axis=-1) if labels is None else tf.reduce_sum(labels * weights, axis=-1)
