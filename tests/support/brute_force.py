"""The mathematics of an RBM written the long way, in NumPy and float64, to compare the library with."""

from __future__ import annotations

import itertools
from typing import NamedTuple

import keras
import numpy as np

import tf_wcd

VALUES = {"bernoulli": (0.0, 1.0), "spin": (-1.0, 1.0)}
UNIT_PAIRS = [
    ("bernoulli", "bernoulli"),
    ("spin", "spin"),
    ("bernoulli", "spin"),
    ("spin", "bernoulli"),
    ("gaussian", "bernoulli"),
    ("gaussian", "spin"),
]
BINARY_PAIRS = UNIT_PAIRS[:4]


class Parameters(NamedTuple):
    W: np.ndarray
    b: np.ndarray
    c: np.ndarray


def random_parameters(n_v: int, n_h: int, seed: int = 0, scale: float = 0.7) -> Parameters:
    """Parameters without any symmetry, so that a wrong sign or a transposed index shows."""
    rng = np.random.default_rng(seed)
    draw = lambda *shape: rng.normal(0.2, scale, shape).astype("float32").astype("float64")  # noqa: E731
    return Parameters(draw(n_v, n_h), draw(n_v), draw(n_h))


def make_rbm(parameters: Parameters, visible_type="bernoulli", hidden_type="bernoulli", **kwargs) -> tf_wcd.RBMLayer:
    rbm = tf_wcd.RBMLayer(parameters.W.shape[1], visible_type=visible_type, hidden_type=hidden_type, **kwargs)
    rbm.build((None, parameters.W.shape[0]))
    set_parameters(rbm, parameters)
    return rbm


def set_parameters(rbm: tf_wcd.RBMLayer, parameters: Parameters) -> None:
    rbm.kernel.assign(parameters.W)
    rbm.visible_bias.assign(parameters.b)
    rbm.hidden_bias.assign(parameters.c)


def parameters_of(rbm: tf_wcd.RBMLayer) -> Parameters:
    return Parameters(*(np.asarray(v, "float64") for v in (rbm.kernel, rbm.visible_bias, rbm.hidden_bias)))


def space(unit: str, n: int) -> np.ndarray:
    return np.array(list(itertools.product(VALUES[unit], repeat=n)))


def energy(p: Parameters, x: np.ndarray, h: np.ndarray, gaussian: bool = False) -> np.ndarray:
    """Energy of every x with every h, [len(x), len(h)]."""
    own = -(x @ p.b)[:, None] - (h @ p.c)[None, :] - x @ p.W @ h.T
    return own + 0.5 * (x**2).sum(1)[:, None] if gaussian else own


def log_joint(p: Parameters, visible_type: str, hidden_type: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """All x, all h, and -Energy of every pair, for binary units."""
    x, h = space(visible_type, len(p.b)), space(hidden_type, len(p.c))
    return x, h, -energy(p, x, h)


def log_sum_exp(a: np.ndarray, axis=None) -> np.ndarray:
    top = a.max(axis=axis, keepdims=True)
    return (
        np.squeeze(top, axis) + np.log(np.exp(a - top).sum(axis=axis))
        if axis is not None
        else top.item() + np.log(np.exp(a - top).sum())
    )


def visible_distribution(p: Parameters, visible_type: str, hidden_type: str) -> tuple[np.ndarray, np.ndarray]:
    """All visible states and their probabilities."""
    x, _, joint = log_joint(p, visible_type, hidden_type)
    return x, np.exp(log_sum_exp(joint, 1) - log_sum_exp(joint))


def conditional(field: np.ndarray, unit: str, states: np.ndarray) -> np.ndarray:
    """P(state | field) for every row of fields and every state, [rows, states]."""
    low, high = VALUES[unit]
    up = 1 / (1 + np.exp(-(high - low) * field))
    chances = np.where(states[None] == high, up[:, None, :], 1 - up[:, None, :])
    return chances.prod(-1)


def hidden_mean(p: Parameters, x: np.ndarray, hidden_type: str) -> np.ndarray:
    field = x @ p.W + p.c
    return np.tanh(field) if hidden_type == "spin" else 1 / (1 + np.exp(-field))


def free_energy(p: Parameters, x: np.ndarray, hidden_type: str) -> np.ndarray:
    return -log_sum_exp(-energy(p, x, space(hidden_type, len(p.c))), 1)


def moments(p: Parameters, x: np.ndarray, weights: np.ndarray, hidden_type: str) -> Parameters:
    """Weighted mean of -dEnergy/dtheta at the points x."""
    h = hidden_mean(p, x, hidden_type)
    return Parameters((weights[:, None] * x).T @ h, weights @ x, weights @ h)


def difference(positive: Parameters, negative: Parameters) -> Parameters:
    return Parameters(*(a - b for a, b in zip(positive, negative, strict=True)))


def sgd(lr: float = 1.0, **kwargs) -> keras.optimizers.SGD:
    return keras.optimizers.SGD(lr, **kwargs)


def total_variation(counts: np.ndarray, probabilities: np.ndarray) -> tuple[float, float]:
    """Distance of a histogram from the truth, and its expectation for independent exact samples."""
    n = counts.sum()
    floor = 0.5 * np.sqrt(2 * probabilities * (1 - probabilities) / (np.pi * n)).sum()
    return 0.5 * np.abs(counts / n - probabilities).sum(), floor


def index_of(states: np.ndarray) -> np.ndarray:
    """The integer that each binary state stands for, most significant bit first."""
    bits = np.asarray(states) > 0.5
    return bits @ (2 ** np.arange(bits.shape[1] - 1, -1, -1))
