"""Units of every kind as sums over nodes, in NumPy and float64: finite units as they are, real ones by quadrature.

A unit is a list of nodes (states) with log-weights: the measure of a node (1, or a quadrature weight) times
exp(-base energy). The base energies are written here once more, so that nothing of the library is used.
"""

from __future__ import annotations

import itertools
from typing import NamedTuple

import numpy as np
from scipy.special import comb, logsumexp

import tf_wcd
from tf_wcd import units


class Kind(NamedTuple):
    """One kind of units, and what a layer of two of them is.

    Attributes:
        unit: the unit type.
        parameters: values of its learned parameters, for two units.
        nodes: ``nodes(i, parameters)`` gives the nodes ``[N, columns]`` and log-weights ``[N]`` of unit i.
        real: whether it is real.
    """

    unit: units.Unit
    parameters: dict[str, list[float]]
    nodes: object
    real: bool = False

    @property
    def columns(self) -> int:
        return 2 * self.unit.columns


def listed(states, energies=None):
    states = np.array(states, float).reshape(len(states), -1)
    weights = np.zeros(len(states)) if energies is None else -np.asarray(energies, float)
    return lambda i, parameters: (states, weights)


def line(low, high, count=48):
    """Nodes and weights of Gauss and Legendre."""
    x, weights = np.polynomial.legendre.leggauss(count)
    return low + (high - low) * (x + 1) / 2, np.log(weights * (high - low) / 2)


def gaussian_nodes(i, parameters):
    variance = np.exp(parameters["log_variance"][i])
    x, weights = line(-16, 16, 120)
    return x[:, None], weights - x**2 / (2 * variance)


def relu_nodes(i, parameters):
    x, weights = line(0, 11)
    return x[:, None], weights - x**2 / 2


def drelu_nodes(i, parameters):
    up, down, threshold = (parameters[n][i] for n in ("log_positive_variance", "log_negative_variance", "threshold"))
    x, weights = line(0, 11)
    above = weights - x**2 / (2 * np.exp(up)) - threshold * x
    below = weights - x**2 / (2 * np.exp(down)) - threshold * x
    return np.concatenate([x, -x])[:, None], np.concatenate([above, below])


DRELU = {"log_positive_variance": [0.3, -0.2], "log_negative_variance": [-0.9, 0.1], "threshold": [0.4, -0.3]}
KINDS = {
    "bernoulli": Kind(units.Bernoulli(), {}, listed([0, 1])),
    "spin": Kind(units.Spin(), {}, listed([-1, 1])),
    "potts": Kind(units.Potts(3), {}, listed(np.eye(3))),
    "binomial": Kind(units.Binomial(4), {}, listed(range(5), [-np.log(comb(4, k)) for k in range(5)])),
    "gaussian": Kind(units.Gaussian(learn_variance=True), {"log_variance": [0.4, -0.5]}, gaussian_nodes, True),
    "relu": Kind(units.ReLU(), {}, relu_nodes, True),
    "drelu": Kind(units.DReLU(), DRELU, drelu_nodes, True),
}
PAIRS = list(itertools.product(KINDS, KINDS))


class Model(NamedTuple):
    """An RBM of two units on each side, as brute force sees it."""

    visible: Kind
    hidden: Kind
    W: np.ndarray
    b: np.ndarray
    c: np.ndarray
    visible_parameters: dict[str, np.ndarray]
    hidden_parameters: dict[str, np.ndarray]


def model(pair, seed=0) -> Model:
    """Parameters without any symmetry; small enough weights for a normaliser where both sides are real."""
    visible, hidden = (KINDS[name] for name in pair)
    rng = np.random.default_rng(seed)
    scale = 0.2 if visible.real and hidden.real else 0.5
    own = [{name: np.array(value) for name, value in kind.parameters.items()} for kind in (visible, hidden)]
    return Model(
        visible,
        hidden,
        rng.normal(0.1, scale, (visible.columns, hidden.columns)).clip(-2 * scale, 2 * scale),
        rng.normal(0.1, 0.5, visible.columns),
        rng.normal(-0.1, 0.5, hidden.columns),
        *own,
    )


def make_rbm(m: Model, **kwargs) -> tf_wcd.RBMLayer:
    rbm = tf_wcd.RBMLayer(m.W.shape[1], m.visible.unit, m.hidden.unit, dtype="float64", **kwargs)
    rbm.build((None, m.W.shape[0]))
    set_parameters(rbm, m)
    return rbm


def set_parameters(rbm, m: Model) -> None:
    for variable, value in ((rbm.kernel, m.W), (rbm.visible_bias, m.b), (rbm.hidden_bias, m.c)):
        variable.assign(value)
    for variables, values in (
        (rbm.visible_parameters, m.visible_parameters),
        (rbm.hidden_parameters, m.hidden_parameters),
    ):
        for name, value in values.items():
            variables[name].assign(value)


def cumulants(kind: Kind, parameters, field: np.ndarray) -> np.ndarray:
    """log of the sum over each unit's nodes of exp(field . x - base energy), ``[rows, 2]``, for rows of fields."""
    return np.stack([logsumexp(own, axis=1) for own in _log_terms(kind, parameters, field)], axis=1)


def moments(kind: Kind, parameters, field: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and variance of every column, ``[rows, columns]`` each."""
    means, variances = [], []
    for i, own in enumerate(_log_terms(kind, parameters, field)):
        states, _ = kind.nodes(i, parameters)
        weights = np.exp(own - logsumexp(own, axis=1, keepdims=True))
        means.append(weights @ states)
        variances.append(weights @ states**2 - means[-1] ** 2)
    return np.concatenate(means, axis=1), np.concatenate(variances, axis=1)


def _log_terms(kind, parameters, field):
    for i, own in enumerate(np.split(field, 2, axis=1)):
        states, log_weights = kind.nodes(i, parameters)
        yield own @ states.T + log_weights


def space(kind: Kind, parameters) -> tuple[np.ndarray, np.ndarray]:
    """All nodes of a layer of two units, ``[N, columns]``, and their log-weights."""
    (a, p), (b, q) = (kind.nodes(i, parameters) for i in range(2))
    i, j = (index.ravel() for index in np.indices((len(a), len(b))))
    return np.concatenate([a[i], b[j]], axis=1), p[i] + q[j]


def log_weights(m: Model) -> tuple[np.ndarray, np.ndarray, float]:
    """All visible nodes, the log of their measure times exp(-F), and log Z."""
    x, own = space(m.visible, m.visible_parameters)
    total = own + x @ m.b + cumulants(m.hidden, m.hidden_parameters, x @ m.W + m.c).sum(1)
    return x, total, float(logsumexp(total))


def log_density(m: Model, x: np.ndarray) -> np.ndarray:
    """log P(x) up to the base energy of x, which parameters of the visible units are part of: see `base_energy`."""
    energy = x @ m.b + cumulants(m.hidden, m.hidden_parameters, x @ m.W + m.c).sum(1)
    return energy - base_energy(m.visible, m.visible_parameters, x) - log_weights(m)[2]


def base_energy(kind: Kind, parameters, x: np.ndarray) -> np.ndarray:
    """Base energy of the states of a layer, in formulas."""
    name = kind.unit.name
    if name == "gaussian":
        return (x**2 / (2 * np.exp(parameters["log_variance"]))).sum(1)
    if name == "relu":
        return (x**2 / 2).sum(1)
    if name == "drelu":
        side = np.where(x >= 0, parameters["log_positive_variance"], parameters["log_negative_variance"])
        return (x**2 / (2 * np.exp(side)) + parameters["threshold"] * np.abs(x)).sum(1)
    if name == "binomial":
        return -np.log(comb(4, x)).sum(1)
    return np.zeros(len(x))


def some_states(kind: Kind, rows=6, seed=1) -> np.ndarray:
    """A few states of a layer."""
    rng = np.random.default_rng(seed)
    if kind.real:
        low = 0.0 if kind.unit.name == "relu" else -2.0
        return rng.uniform(low, 2.0, (rows, 2))
    x, _ = space(kind, kind.parameters)
    return x[rng.integers(0, len(x), rows)]
