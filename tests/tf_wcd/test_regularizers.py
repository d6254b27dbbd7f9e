"""Penalties on parameters, and the standardised gradient."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import tf_wcd
from tests.support import brute_force as bf
from tf_wcd.evaluation.exact_gradient import exact_gradient
from tf_wcd.regularizers import L2L1, GroupLasso, ProximalL1

X = np.random.default_rng(0).integers(0, 2, (6, 4)).astype("float32")


def step(rbm, rate=0.1):
    before = bf.parameters_of(rbm)
    rbm.compile(bf.sgd(rate), run_eagerly=True)
    rbm.train_on_batch(X)
    return bf.difference(bf.parameters_of(rbm), before)


PENALTIES = {
    "l1": (keras.regularizers.L1(0.3), lambda w: 0.3 * np.sign(w)),
    "l2": (keras.regularizers.L2(0.3), lambda w: 0.6 * w),
    "l2l1": (L2L1(0.3), lambda w: 0.3 * np.abs(w).sum(0, keepdims=True) * np.sign(w)),
}


@pytest.mark.parametrize("name", PENALTIES)
def test_gradients_of_penalties_are_part_of_the_step(name):
    regularizer, slope = PENALTIES[name]
    p = bf.random_parameters(4, 3)
    arguments = {"negative_phase": "exact", "seed": 0}
    plain = step(bf.make_rbm(p, **arguments))
    both = step(bf.make_rbm(p, kernel_regularizer=regularizer, **arguments))
    np.testing.assert_allclose(both.W - plain.W, -0.1 * slope(p.W), rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(both.b, plain.b, atol=1e-7)
    if name != "l2l1":
        biases = {"visible_bias_regularizer": regularizer, "hidden_bias_regularizer": regularizer}
        both = step(bf.make_rbm(p, **biases, **arguments))
        np.testing.assert_allclose(both.b - plain.b, -0.1 * slope(p.b), rtol=1e-4, atol=1e-6)
        np.testing.assert_allclose(both.c - plain.c, -0.1 * slope(p.c), rtol=1e-4, atol=1e-6)
        np.testing.assert_allclose(both.W, plain.W, atol=1e-7)


@pytest.mark.parametrize("regularizer", [ProximalL1(0.4), GroupLasso(0.4), GroupLasso(0.4, side="visible")])
def test_proximal_steps_minimise_their_objective(regularizer):
    rng = np.random.default_rng(1)
    x = rng.normal(0, 0.4, (5, 4)) * np.outer([2, 1, 0.1, 1, 1], [1, 0.1, 2, 1])
    z = regularizer.proximal(tf.constant(x), tf.constant(0.7, tf.float64)).numpy()
    assert 0 < (z == 0).mean() < 1

    def objective(values):
        return float(0.7 * regularizer(tf.constant(values)) + 0.5 * ((values - x) ** 2).sum())

    least = objective(z)
    for size in (1e-3, 0.1):
        assert all(objective(z + size * rng.normal(size=x.shape)) > least for _ in range(50))
    assert type(regularizer).from_config(regularizer.get_config()).get_config() == regularizer.get_config()


def test_proximal_steps_in_the_compiled_loop(tmp_path):
    """Columns of weights that the data do not need become exactly zero; members have their own rates."""
    ensemble = tf_wcd.RBMEnsemble(
        3, learning_rates=[0.1, 0.0], initial_stddev=0.05, kernel_regularizer=GroupLasso(1.0), seed=0
    )
    ensemble.compile(keras.optimizers.SGD(1.0))
    ensemble.fit(X, batch_size=6, steps_per_epoch=50, verbose=0)
    kernel = ensemble.kernel.numpy()
    assert (kernel[0] == 0).all()
    assert (kernel[1] != 0).all()
    member = ensemble.member(1)
    member.save(tmp_path / "member.keras")
    assert keras.models.load_model(tmp_path / "member.keras").kernel_regularizer.get_config() == {
        "strength": 1.0,
        "side": "hidden",
    }


def spins_of(p):
    """The parameters of the model of spins 2 x - 1 that is the same distribution."""
    return bf.Parameters(p.W / 4, p.b / 2 + p.W.sum(1) / 4, p.c / 2 + p.W.sum(0) / 4)


def test_the_standardised_step_does_not_depend_on_the_coding_of_the_units(monkeypatch):
    """With 0/1 units and with spins the models are the same after a step; after plain and centred ones they differ."""
    monkeypatch.setattr("tf_wcd.training.gradient.DAMPING", 0.0)
    p = bf.random_parameters(4, 3)
    rng = np.random.default_rng(2)
    mu, lam, v, w = (
        rng.uniform(0.2, 0.8, 4),
        rng.uniform(0.2, 0.8, 3),
        rng.uniform(0.1, 0.3, 4),
        rng.uniform(0.1, 0.3, 3),
    )

    def after(kind, parameters, x, low, scale, **gradient):
        rbm = bf.make_rbm(parameters, kind, kind, negative_phase="exact", centering_rate=1.0, **gradient)
        for name, value in (("visible_offset", mu), ("hidden_offset", lam)):
            if hasattr(rbm, name):
                getattr(rbm, name).assign(low + scale * value)
        for name, value in (("visible_variance", v), ("hidden_variance", w)):
            if hasattr(rbm, name):
                getattr(rbm, name).assign(scale**2 * value)
        rbm.compile(bf.sgd(0.05), run_eagerly=True)
        rbm.train_on_batch(x)
        return rbm, tf_wcd.evaluation.log_prob(rbm, x)

    for gradient, same in (({"standardized": True}, True), ({"centered": True}, False), ({}, False)):
        bits, first = after("bernoulli", p, X, 0.0, 1.0, **gradient)
        _, second = after("spin", spins_of(p), 2 * X - 1, -1.0, 2.0, **gradient)
        assert np.allclose(first, second, rtol=1e-5) == same
        if same:
            # With a rate of 1 the scales are those of the batch: all of the hidden units' variance, not that of their
            # means.
            h = bf.hidden_mean(p, X, "bernoulli")
            np.testing.assert_allclose(bits.visible_variance, X.var(0), rtol=1e-5)
            np.testing.assert_allclose(bits.hidden_variance, h.mean(0) * (1 - h.mean(0)), rtol=1e-5)


def test_standardised_training_and_files(tmp_path):
    rbm = tf_wcd.RBMLayer(
        3, visible_type="gaussian", hidden_type="relu", negative_phase="pcd", standardized=True, seed=0
    )
    rbm.compile(keras.optimizers.SGD(0.002))
    x = np.random.default_rng(0).normal(size=(100, 4)) * [0.3, 1.0, 1.0, 2.0]
    rbm.fit(x, batch_size=50, epochs=3, verbose=0)
    rbm.save(tmp_path / "rbm.keras")
    again = keras.models.load_model(tmp_path / "rbm.keras")
    assert again.standardized
    np.testing.assert_array_equal(again.visible_variance, rbm.visible_variance)
    assert (np.diff(rbm.visible_variance.numpy())[[0, 2]] > 0).all()


def test_a_target_of_hidden_activity():
    p = bf.random_parameters(4, 3)
    h = bf.hidden_mean(p, X, "bernoulli").mean(0)
    plain = step(bf.make_rbm(p, negative_phase="exact"))
    rbm = bf.make_rbm(p, negative_phase="exact", activity_target=0.2, activity_cost=0.5)
    sparse = step(rbm)
    activity = 0.9 * 0.2 + 0.1 * h
    np.testing.assert_allclose(rbm.hidden_activity, activity, rtol=1e-5)
    np.testing.assert_allclose(sparse.c - plain.c, -0.1 * 0.5 * (activity - 0.2), rtol=1e-4, atol=1e-7)
    slope = 0.5 * np.outer(X.mean(0), activity - 0.2)
    np.testing.assert_allclose(sparse.W - plain.W, -0.1 * slope, rtol=1e-4, atol=1e-7)
    strong = tf_wcd.RBMLayer(5, activity_target=0.1, activity_cost=5.0, seed=0)
    strong.compile(keras.optimizers.SGD(0.05))
    strong.fit(X, batch_size=6, steps_per_epoch=500, verbose=0)
    assert np.abs(strong(X).numpy().mean(0) - 0.1).max() < 0.02
    with pytest.raises(ValueError, match=r"between 0 and 1 for 'bernoulli'.*activity_target=2"):
        tf_wcd.RBMLayer(5, activity_target=2)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: L2L1(-1), "strength=-1"),
        (lambda: GroupLasso(0.1, side="both"), "side='both'"),
        (lambda: ProximalL1(float("nan")), "strength=nan"),
    ],
)
def test_bad_arguments(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_the_exact_gradient_of_a_standardised_model():
    """That of the evaluation, which sums over hidden states, is the step of the exact phase, over visible ones."""
    rbm = bf.make_rbm(bf.random_parameters(4, 3), negative_phase="exact", standardized=True)
    rbm.visible_variance.assign([0.1, 0.2, 0.3, 0.4])
    rbm.hidden_variance.assign([0.3, 0.2, 0.1])
    exact = exact_gradient(rbm, tf.constant(X), tf.fill([6], 1 / 6))
    change = step(rbm)
    for name, value in (("W", exact.kernel), ("b", exact.visible_bias), ("c", exact.hidden_bias)):
        np.testing.assert_allclose(getattr(change, name), -0.1 * value, rtol=1e-4, atol=1e-6)
