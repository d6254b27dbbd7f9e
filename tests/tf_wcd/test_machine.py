"""Energies, conditionals and exact sums against brute force, for every pair of unit types."""

import numpy as np
import pytest
import tensorflow as tf

import tf_wcd
from tests.support import brute_force as bf
from tf_wcd.enumeration import all_states
from tf_wcd.machine import Machine

CLOSE = {"rtol": 1e-5, "atol": 1e-5}


def model(pair, n_v=5, n_h=4, seed=0):
    parameters = bf.random_parameters(n_v, n_h, seed)
    rbm = bf.make_rbm(parameters, *pair)
    x = np.random.default_rng(1).normal(size=(7, n_v)) if pair[0] == "gaussian" else bf.space(pair[0], n_v)
    return parameters, rbm, x, bf.space(pair[1], n_h)


@pytest.mark.parametrize("pair", bf.UNIT_PAIRS)
def test_energy_and_free_energy(pair):
    p, rbm, x, h = model(pair)
    truth = bf.energy(p, x, h, pair[0] == "gaussian")
    rows, columns = (i.ravel() for i in np.indices(truth.shape))
    np.testing.assert_allclose(rbm.energy(x[rows], h[columns]), truth[rows, columns], **CLOSE)
    np.testing.assert_allclose(rbm.free_energy(x), -bf.log_sum_exp(-truth, 1), **CLOSE)


@pytest.mark.parametrize("pair", bf.UNIT_PAIRS)
def test_conditionals(pair):
    p, rbm, x, h = model(pair)
    truth = bf.energy(p, x, h, pair[0] == "gaussian")
    given_x = np.exp(-truth - bf.log_sum_exp(-truth, 1)[:, None])
    np.testing.assert_allclose(rbm(tf.constant(x, tf.float32)), given_x @ h, **CLOSE)
    machine = rbm.machine()
    mean_x = machine.visible.mean(machine.visible_field(tf.constant(h, tf.float32)))
    if pair[0] == "gaussian":
        np.testing.assert_allclose(mean_x, p.b + h @ p.W.T, **CLOSE)
    else:
        given_h = np.exp(-truth - bf.log_sum_exp(-truth, 0)[None, :])
        np.testing.assert_allclose(mean_x, given_h.T @ x, **CLOSE)


@pytest.mark.parametrize("pair", bf.BINARY_PAIRS)
@pytest.mark.parametrize("sizes", [(5, 4), (3, 6)])
def test_exact_evaluation(pair, sizes):
    p, rbm, x, _ = model(pair, *sizes)
    joint = bf.log_joint(p, *pair)[2]
    log_z = bf.log_sum_exp(joint)
    assert tf_wcd.evaluation.log_partition(rbm) == pytest.approx(log_z, rel=1e-10)
    log_p = bf.log_sum_exp(joint, 1) - log_z
    np.testing.assert_allclose(tf_wcd.evaluation.log_prob(rbm, x), log_p, rtol=1e-9, atol=1e-12)
    target = np.random.default_rng(2).dirichlet(np.ones(len(x)))
    kl = (target * (np.log(target) - log_p)).sum()
    assert tf_wcd.evaluation.kl_divergence(rbm, x, target) == pytest.approx(kl, rel=1e-9)


@pytest.mark.parametrize("hidden_type", ["bernoulli", "spin"])
def test_exact_evaluation_of_gaussian_units_equals_an_integral(hidden_type):
    p, rbm, _, h = model(("gaussian", hidden_type), 2, 3)
    line = np.linspace(-15, 15, 1201)
    grid = np.stack(np.meshgrid(line, line, indexing="ij"), -1).reshape(-1, 2)
    log_weights = bf.log_sum_exp(-bf.energy(p, grid, h, True), 1)
    log_z = bf.log_sum_exp(log_weights) + 2 * np.log(line[1] - line[0])
    assert tf_wcd.evaluation.log_partition(rbm) == pytest.approx(log_z, rel=1e-8)
    some = grid[::9973]
    np.testing.assert_allclose(tf_wcd.evaluation.log_prob(rbm, some), log_weights[::9973] - log_z, rtol=1e-6)


def test_both_sides_give_the_same_log_partition():
    """The enumerated side is the smaller one: a model and its transpose have the same Z."""
    p = bf.random_parameters(7, 5)
    rbm, turned = bf.make_rbm(p), bf.make_rbm(bf.Parameters(p.W.T, p.c, p.b))
    assert tf_wcd.evaluation.log_partition(rbm) == pytest.approx(tf_wcd.evaluation.log_partition(turned), rel=1e-12)


@pytest.mark.parametrize("pair", bf.BINARY_PAIRS[2:])
@pytest.mark.parametrize("sizes", [(12, 9), (9, 130), (13, 15)])
def test_both_ways_to_enumerate_agree(pair, sizes, monkeypatch):
    """The sum in two halves, and the plain sum over chunks of states."""
    rbm = bf.make_rbm(bf.random_parameters(*sizes), *pair)
    fast = tf_wcd.evaluation.log_partition(rbm)
    monkeypatch.setattr("tf_wcd.evaluation.factored.LARGEST_EXPONENT", 0.0)
    plain = tf_wcd.evaluation.log_partition(rbm)
    assert plain == pytest.approx(fast, rel=1e-13)
    monkeypatch.setattr("tf_wcd.evaluation.exact.CHUNK_BYTES", 8 * 130 * 32)
    assert tf_wcd.evaluation.log_partition(rbm) == pytest.approx(plain, rel=1e-13)


def test_probabilities_sum_to_one():
    rbm = bf.make_rbm(bf.random_parameters(6, 3), "spin", "bernoulli")
    assert np.exp(tf_wcd.evaluation.log_prob(rbm, bf.space("spin", 6))).sum() == pytest.approx(1, rel=1e-9)


def test_zero_parameters_give_the_uniform_model():
    rbm = bf.make_rbm(bf.Parameters(np.zeros((4, 3)), np.zeros(4), np.zeros(3)))
    np.testing.assert_allclose(tf_wcd.evaluation.log_prob(rbm, bf.space("bernoulli", 4)), -4 * np.log(2), rtol=1e-12)


def test_states_are_bits_with_the_most_significant_first():
    states = all_states(tf_wcd.units.get("bernoulli"), 4).numpy()
    np.testing.assert_array_equal(states, bf.space("bernoulli", 4))
    np.testing.assert_array_equal(bf.index_of(states), np.arange(16))


@pytest.mark.parametrize("shape", [(30, 1, 3), (2, 1, 1, 4), (1, 5)])
def test_rows_may_have_any_axes(shape):
    _, rbm, x, h = model(("bernoulli", "spin"))
    machine, rng = rbm.machine(), np.random.default_rng(0)
    for states, function in ((x, machine.hidden_field), (h, machine.visible_field)):
        rows = states[rng.integers(0, len(states), shape)].astype("float32")
        expected = function(tf.constant(rows.reshape(-1, rows.shape[-1])))
        np.testing.assert_allclose(function(tf.constant(rows)), tf.reshape(expected, [*shape, -1]), rtol=1e-6)
    rows = tf.constant(x[rng.integers(0, len(x), shape)], tf.float32)
    numbers = machine.visible.state_numbers(rows)
    np.testing.assert_array_equal(numbers, rows)


def test_leading_axes_are_independent_machines():
    parameters = [bf.random_parameters(4, 3, seed) for seed in range(2)]
    stacked = [tf.constant(np.stack(arrays), tf.float64) for arrays in zip(*parameters, strict=True)]
    unit = tf_wcd.units.get("spin")
    machine = Machine(unit, unit, *stacked)
    x = bf.space("spin", 4)
    both = machine.free_energy(tf.constant(np.stack([x, x])))
    for i, p in enumerate(parameters):
        np.testing.assert_allclose(both[i], bf.free_energy(p, x, "spin"), rtol=1e-10)


@pytest.mark.parametrize("pair", bf.BINARY_PAIRS[2:])
def test_huge_weights_and_energies_stay_finite(pair):
    rng = np.random.default_rng(0)
    rbm = bf.make_rbm(
        bf.Parameters(rng.choice([-100.0, 100.0], (40, 800)), rng.normal(0, 100, 40), rng.normal(0, 100, 800)),
        *pair,
        seed=0,
    )
    x = np.where(rng.uniform(size=(20, 40)) < 0.5, *bf.VALUES[pair[0]])
    energies = rbm.free_energy(x).numpy()
    assert np.isfinite(energies).all()
    assert np.abs(energies).max() > 1e5
    for phase in ("cd", "wcd", "pcd", "wpcd"):
        trained = tf_wcd.RBMLayer(800, *pair, negative_phase=phase, seed=1)
        trained.build((None, 40))
        bf.set_parameters(trained, bf.parameters_of(rbm))
        trained.compile(bf.sgd(0.1))
        history = trained.fit(x, epochs=3, batch_size=10, verbose=0).history
        assert all(np.isfinite(values).all() for values in history.values()), phase
        assert all(np.isfinite(v.numpy()).all() for v in trained.variables), phase


def test_huge_weights_in_exact_evaluation():
    rng = np.random.default_rng(0)
    rbm = bf.make_rbm(
        bf.Parameters(rng.choice([-100.0, 100.0], (10, 600)), np.zeros(10), np.zeros(600)), "spin", "spin"
    )
    assert np.isfinite(tf_wcd.evaluation.log_partition(rbm))
    assert tf_wcd.evaluation.log_partition(rbm) > 1e5
    assert np.isfinite(tf_wcd.evaluation.log_prob(rbm, bf.space("spin", 10))).all()
