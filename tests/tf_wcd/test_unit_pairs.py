"""Every kind of unit, and every pair of kinds, against sums and numerical integrals."""

import numpy as np
import pytest
import tensorflow as tf
from scipy.special import logsumexp

import tf_wcd
from tests.support import quadrature as quad
from tf_wcd.negative_phases import Batch, Points
from tf_wcd.normaliser import coupling
from tf_wcd.training.gradient import phase_difference

CLOSE = {"rtol": 1e-9, "atol": 1e-11}


def bound(kind):
    return kind.unit.bind({name: tf.constant(value, tf.float64) for name, value in kind.parameters.items()})


@pytest.mark.parametrize("name", quad.KINDS)
def test_primitives(name):
    kind = quad.KINDS[name]
    unit = bound(kind)
    field = np.random.default_rng(2).normal(0, 1.5, (5, kind.columns))
    tensor = tf.constant(field)
    cumulants = quad.cumulants(kind, kind.parameters, field)
    mean, variance = quad.moments(kind, kind.parameters, field)
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(tensor)
        total = tf.reduce_sum(unit.cumulant(tensor))
        means = tf.unstack(unit.mean(tensor), axis=1)
    np.testing.assert_allclose(unit.cumulant(tensor), cumulants, **CLOSE)
    np.testing.assert_allclose(unit.total_cumulant(tensor), cumulants.sum(1), **CLOSE)
    np.testing.assert_allclose(unit.mean(tensor), mean, **CLOSE)
    np.testing.assert_allclose(tape.gradient(total, tensor), mean, **CLOSE)
    slopes = np.stack([tape.gradient(own, tensor).numpy()[:, i] for i, own in enumerate(means)], axis=1)
    np.testing.assert_allclose(slopes, variance, rtol=1e-8)
    np.testing.assert_allclose(unit.variances(tensor), variance, rtol=1e-8)
    np.testing.assert_allclose(unit.mean(unit.field_of(unit.mean(tensor))), mean, rtol=1e-6, atol=1e-8)
    x = quad.some_states(kind)
    energy = unit.total_base_energy(tf.constant(x))
    np.testing.assert_allclose(
        0.0 if energy is None else energy, quad.base_energy(kind, kind.parameters, x), rtol=1e-12, atol=1e-12
    )
    entropies = []
    for i, own in enumerate(np.split(field, 2, axis=1)):
        states, weights = kind.nodes(i, kind.parameters)
        terms = own @ states.T + weights
        log_p = terms - logsumexp(terms, axis=1, keepdims=True)
        density = log_p - (0 if not kind.real else weights + _energy(kind, i, states))
        entropies.append(-(np.exp(log_p) * density).sum(1))
    np.testing.assert_allclose(unit.entropy(tensor), sum(entropies), rtol=1e-8)


def _energy(kind, i, states):
    """Base energy of unit i alone: with the log of a node's weight, it is the log of the node's length."""
    whole = np.zeros([len(states), 2])
    whole[:, i] = states[:, 0]
    return quad.base_energy(kind, {n: np.array(v) for n, v in kind.parameters.items()}, whole)


@pytest.mark.parametrize("pair", quad.PAIRS, ids="-".join)
def test_energies_log_partition_and_probabilities(pair):
    m = quad.model(pair)
    rbm = quad.make_rbm(m)
    nodes, _, log_z = quad.log_weights(m)
    x = quad.some_states(m.visible)
    truth = quad.log_density(m, x)
    np.testing.assert_allclose(rbm.free_energy(x), -(truth + log_z), **CLOSE)
    machine = rbm.machine()
    field = x @ m.W + m.c
    np.testing.assert_allclose(rbm(x), quad.moments(m.hidden, m.hidden_parameters, field)[0], **CLOSE)
    h = quad.some_states(m.hidden)
    energy = -x @ m.b - h @ m.c - ((x @ m.W) * h).sum(1)
    energy += quad.base_energy(m.visible, m.visible_parameters, x) + quad.base_energy(m.hidden, m.hidden_parameters, h)
    np.testing.assert_allclose(rbm.energy(x, h), energy, **CLOSE)
    if m.visible.real and m.hidden.real:
        assert coupling(machine) < 1
    if m.visible.real and m.hidden.real and pair != ("gaussian", "gaussian"):
        with pytest.raises(ValueError, match=f"finitely many states.*Received: '{pair[0]}' visible and '{pair[1]}'"):
            tf_wcd.evaluation.log_partition(rbm)
        return
    assert tf_wcd.evaluation.log_partition(rbm) == pytest.approx(log_z, rel=1e-9)
    np.testing.assert_allclose(tf_wcd.evaluation.log_prob(rbm, x), truth, **CLOSE)
    if not m.visible.real:
        target = np.random.default_rng(0).dirichlet(np.ones(len(nodes)))
        own = quad.log_density(m, nodes)
        kl = (target * (np.log(target) - own)).sum()
        assert tf_wcd.evaluation.kl_divergence(rbm, nodes, target) == pytest.approx(kl, rel=1e-9)
        assert logsumexp(own) == pytest.approx(0, abs=1e-9)


@pytest.mark.parametrize("pair", quad.PAIRS, ids="-".join)
def test_the_step_is_the_gradient_of_the_likelihood(pair):
    """With exact points in the negative phase, along a random direction of all parameters, those of units included."""
    m = quad.model(pair)
    machine = quad.make_rbm(m).machine()
    nodes, log_weights, log_z = quad.log_weights(m)
    keep = log_weights > log_z - 40
    points = tf.constant(nodes[keep])
    data = quad.some_states(m.visible)
    batch = Batch(machine, tf.constant(data), tf.fill([len(data)], tf.constant(-np.log(len(data)), tf.float64)))
    weights = tf.constant(log_weights[keep] - log_z)
    scale = tf.ones([], tf.float64)
    step = phase_difference(machine, batch, Points(points, machine.hidden_field(points)), weights, scale)
    rng = np.random.default_rng(3)
    parts = {"W": step.kernel, "b": step.visible_bias, "c": step.hidden_bias}
    direction = {name: rng.normal(size=getattr(m, name).shape) for name in parts}
    slope = sum((direction[name] * value.numpy()).sum() for name, value in parts.items())
    for name, gradients in (("visible_parameters", step.visible_unit), ("hidden_parameters", step.hidden_unit)):
        assert gradients.keys() == getattr(m, name).keys()
        direction[name] = {key: rng.normal(size=2) for key in gradients}
        slope += sum((direction[name][key] * value.numpy()).sum() for key, value in gradients.items())

    def likelihood(size):
        def along(value, by):
            return {key: value[key] + size * by[key] for key in by} if isinstance(by, dict) else value + size * by

        return quad.log_density(
            m._replace(**{name: along(getattr(m, name), by) for name, by in direction.items()}), data
        ).mean()

    truth = (likelihood(1e-5) - likelihood(-1e-5)) / 2e-5
    assert -slope == pytest.approx(truth, rel=1e-5)


# Every real kind on either side.
CHAINS = [("relu", "drelu"), ("binomial", "relu"), ("drelu", "binomial"), ("gaussian", "gaussian")]


@pytest.mark.parametrize("pair", CHAINS, ids="-".join)
def test_chains_come_to_the_model_and_stay(pair):
    """Means and products of the visible units after many Gibbs steps, against integrals."""
    m = quad.model(pair)
    rbm = quad.make_rbm(m)
    nodes, log_weights, log_z = quad.log_weights(m)
    weights = np.exp(log_weights - log_z)
    rows = 40_000
    x = rbm.sample(rows, gibbs_steps=60, seed=0).numpy()
    for moment in (lambda y: y, lambda y: y**2, lambda y: y[:, :1] * y[:, 1:]):
        values = moment(x)
        error = values.std(0) / np.sqrt(rows)
        assert np.all(np.abs(values.mean(0) - weights @ moment(nodes)) <= 4.5 * error + 1e-12)


def test_annealing_finds_log_partition():
    """Where neither side can be enumerated."""
    m = quad.model(("relu", "gaussian"))
    result = tf_wcd.evaluation.annealed_log_partition(
        quad.make_rbm(m), chains=500, temperatures=100, base=[0.9, 0.9], reverse=False, seed=0
    )
    assert abs(result.estimate - quad.log_weights(m)[2]) < 4 * result.standard_error
    assert result.standard_error < 0.01
