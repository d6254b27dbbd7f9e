"""The bias of self-normalised importance weights, measured without the noise of a plain mean.

With weights r = P / q the mean of r (f - E_P[f]) is zero, and the mean of r is one: both are tests of q. A normalised
mean is W^-1 times a plain one, where W is the mean weight of the set, so its bias is the mean of (1 - W) times it: a
product of two small numbers, whose noise is of the order of the bias itself.
"""

from __future__ import annotations

from typing import NamedTuple

import keras
import numpy as np
import tensorflow as tf

import tf_wcd
from tf_wcd.enumeration import smaller_side
from tf_wcd.random import key_of
from tf_wcd.training.step import phases_of

WIDTHS = {"potts": (6, 3), "mixed": (4, 4), "gaussian": (2, 2), "relu": (2, 2), "drelu": (2, 2)}  # (3, 2) for others
REAL = ("gaussian", "relu", "drelu")
POTTS, BINOMIAL = tf_wcd.units.Potts(3), tf_wcd.units.Binomial(3)
MIXED = tf_wcd.units.Mixed([("spin", 1), (POTTS, 3)])
UNITS = ("bernoulli", "spin", POTTS, "gaussian", MIXED)
PAIRS = [
    *((v, h) for v in UNITS for h in UNITS if not v == h == "gaussian"),
    (BINOMIAL, "relu"),
    ("drelu", BINOMIAL),
    ("relu", "spin"),
    (BINOMIAL, BINOMIAL),
    ("spin", "drelu"),
    (POTTS, "relu"),
    ("gaussian", BINOMIAL),
]
WEIGHTS = np.array([0.3, 1.2, 0.7], "float32")


def name(unit) -> str:
    return tf_wcd.units.get(unit).name


def ids(pair) -> str:
    return "-".join(name(unit) for unit in pair)


def model(pair, strength=1.0, **kwargs) -> tf_wcd.RBMLayer:
    """A small model without any symmetry."""
    stddev = strength * (
        0.5 if set(map(name, pair)) & {*REAL, "binomial"} else 0.8
    )  # real units answer strong weights with few, far states
    seeds = iter(range(5, 9))
    normal = lambda: keras.initializers.RandomNormal(stddev=stddev, seed=next(seeds))  # noqa: E731
    rbm = tf_wcd.RBMLayer(
        WIDTHS.get(name(pair[1]), (3, 2))[1], *pair, kernel_initializer=normal(), visible_bias_initializer=normal(),
        hidden_bias_initializer=normal(), **kwargs,
    )  # fmt: skip
    rbm.build((None, WIDTHS.get(name(pair[0]), (3, 2))[0]))
    return rbm


def examples(rbm) -> np.ndarray:
    """Three examples of unequal kinds."""
    if rbm.visible_unit.finite:
        return rbm.visible_unit.states_at(tf.constant([1, 0, 4]), rbm.num_visible).numpy()
    values = np.array([[0.4, -1.0], [1.2, 0.5], [-0.3, 0.8]], "float32")
    return np.maximum(values, rbm.visible_unit.data_range[0])


def moments(machine, visible, hidden) -> tf.Tensor:
    """-dEnergy/dtheta of each row: x h^T, x and h one behind the other, ``[..., P]``."""
    products = visible[..., :, None] * hidden[..., None, :]
    flat = tf.reshape(products, tf.concat([tf.shape(products)[:-2], [visible.shape[-1] * hidden.shape[-1]]], axis=0))
    return tf.concat([flat, visible, hidden], axis=-1)


def truth(machine) -> tuple[np.ndarray, float]:
    """E_P of `moments`, and log Z, by a sum over the smaller side."""
    wide = machine.cast("float64")
    side = smaller_side(wide)
    states = side.states_at(tf.range(side.num_states))
    weights = -side.free_energy(states)
    p = tf.nn.softmax(weights)[:, None]
    if side.visible:
        values = moments(wide, states, wide.hidden.mean(wide.hidden_field(states)))
    else:
        values = moments(wide, wide.visible.mean(wide.visible_field(states)), states)
    return tf.reduce_sum(p * values, axis=0).numpy(), float(tf.reduce_logsumexp(weights))


class Sets(NamedTuple):
    """Many sets of weighted points: mean weight W ``[R]``, and weighted mean minus the truth ``[R, P]``."""

    mean_weight: np.ndarray
    error: np.ndarray


def drawn_sets(rbm, phase, copies, repetitions, log_ratio, seed=7) -> Sets:
    """Sets of points of a phase, for a batch that has each of the examples ``copies`` times.

    Args:
        log_ratio: ``log_ratio(machine, phases, log_z)`` gives log P / q of the first point of each set, ``[R]``.
    """
    machine = rbm.machine()
    mu, log_z = truth(machine)
    x = np.repeat(examples(rbm), copies, axis=0)
    rows = tf.broadcast_to(x, [repetitions, *x.shape])
    weights = tf.broadcast_to(np.repeat(WEIGHTS, copies), [repetitions, len(x)])
    phases = phases_of(machine, phase, rows, weights, {}, key_of(tf.constant([seed, copies], tf.int64)))
    values = moments(machine, phases.points.visible, machine.hidden.mean(phases.points.hidden_field))
    mean = tf.linalg.matvec(values, tf.exp(phases.log_weights), transpose_a=True)
    own = np.asarray(log_ratio(machine, phases, log_z)) - phases.log_weights[:, 0].numpy()
    return Sets(np.exp(own) / phases.log_weights.shape[-1], mean.numpy() - mu)


def check_density(sets: Sets, sigmas: float = 4.5) -> None:
    """The two means that show that P was divided by what the points were drawn from."""
    for values, expected in ((sets.mean_weight[:, None], 1.0), (sets.mean_weight[:, None] * sets.error, 0.0)):
        deviation = values.std(axis=0) / np.sqrt(len(values))
        np.testing.assert_array_less(np.abs(values.mean(axis=0) - expected), sigmas * deviation + 1e-5)


def bias(sets: Sets) -> tuple[float, float]:
    """Length of the bias of the normalised mean, and its standard error."""
    products = (1 - sets.mean_weight)[:, None] * sets.error
    mean, count = products.mean(axis=0), len(products)
    spread = products.var(axis=0).sum() / count
    return float(np.sqrt(max(mean @ mean - spread, 0))), float(np.sqrt(spread))


LEVELS = ((4, 16000), (12, 8000), (36, 4000))  # copies of each example, and repetitions


def fitted_exponent(rbm, phase, log_ratio, levels=LEVELS) -> tuple[float, float]:
    """The exponent a of bias ~ M^a, and its standard error: that of the levels where the bias is not lost in noise.

    NaN and infinite where there are fewer than two of them.
    """
    found = np.array([bias(drawn_sets(rbm, phase, *level, log_ratio)) for level in levels])
    errors = found[:, 1] / np.maximum(found[:, 0], 1e-12)
    measured = errors < 0.3
    if measured.sum() < 2:
        return np.nan, np.inf
    x = np.log([copies for copies, _ in levels])[measured]
    (slope, _), covariance = np.polyfit(x, np.log(found[measured, 0]), 1, w=1 / errors[measured], cov="unscaled")
    return float(slope), float(np.sqrt(covariance[0, 0]))
