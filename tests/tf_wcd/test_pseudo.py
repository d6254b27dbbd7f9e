"""Pseudo-likelihood against conditional probabilities from the whole distribution."""

import keras
import numpy as np
import pytest

import tf_wcd
from tests.support import brute_force as bf
from tf_wcd.evaluation import PseudoLogLikelihood, pseudo_log_likelihood
from tf_wcd.evaluation import pseudo as pseudo_module


def long_way(p, pair):
    """All states, and sum_j log P(x_j | rest) of each, by sums over the whole distribution."""
    states, probabilities = bf.visible_distribution(p, *pair)
    of = {tuple(x): q for x, q in zip(states, probabilities, strict=True)}
    values = []
    for x in states:
        total = 0.0
        for j in range(len(x)):
            other = x.copy()
            other[j] = sum(bf.VALUES[pair[0]]) - x[j]
            total += np.log(of[tuple(x)] / (of[tuple(x)] + of[tuple(other)]))
        values.append(total)
    return states, np.array(values)


@pytest.mark.parametrize("pair", bf.BINARY_PAIRS)
def test_equals_brute_force(pair):
    p = bf.random_parameters(6, 4, seed=1)
    states, expected = long_way(p, pair)
    value = pseudo_log_likelihood(bf.make_rbm(p, *pair), states)
    assert value.dtype == np.float64
    np.testing.assert_allclose(value, expected, rtol=1e-5)


def test_strong_weights_stay_finite():
    p = bf.random_parameters(5, 4, seed=2, scale=30.0)
    states, _ = long_way(p, ("bernoulli", "bernoulli"))
    value = pseudo_log_likelihood(bf.make_rbm(p), states)
    free = bf.free_energy(p, states, "bernoulli")
    flipped = np.array([[free[bf.index_of(np.abs(x - np.eye(5)))]] for x in states])[:, 0]
    np.testing.assert_allclose(value, -np.logaddexp(0, free[:, None] - flipped).sum(1), rtol=1e-4, atol=1e-4)


class Charged(tf_wcd.units.Bernoulli):
    """A unit of two values with a base energy."""

    def base_energy(self, states):
        return 2.0 * states


@pytest.mark.parametrize("visible", ["spin", Charged()], ids=str)
@pytest.mark.parametrize(
    "hidden",
    [
        tf_wcd.units.Potts(2),
        tf_wcd.units.Mixed([("spin", 2), ("bernoulli", 4)]),
        tf_wcd.units.Gaussian(learn_variance=True),
    ],
    ids=str,
)
def test_units_of_several_columns_and_base_energies(visible, hidden):
    """Against the differences of free energies with each unit flipped."""
    normal = keras.initializers.RandomNormal(stddev=0.7, seed=3)
    rbm = tf_wcd.RBMLayer(6, visible, hidden, kernel_initializer=normal, visible_bias_initializer=normal)
    rbm.build((None, 6))
    for variable in rbm.hidden_parameters.values():
        variable.assign(np.linspace(-0.5, 0.5, 6))
    low, high = rbm.visible_unit.values
    x = np.random.default_rng(0).choice([low, high], (5, 6)).astype("float32")
    expected = np.zeros(5)
    for unit in range(6):
        flipped = x.copy()
        flipped[:, unit] = low + high - x[:, unit]
        expected -= np.logaddexp(0, (rbm.free_energy(x) - rbm.free_energy(flipped)).numpy())
    np.testing.assert_allclose(pseudo_log_likelihood(rbm, x), expected, rtol=1e-4)
    many = pseudo_log_likelihood(rbm, x, bits=20_000, seed=0)
    np.testing.assert_allclose(many, expected, rtol=0.05)


def test_chunks(monkeypatch):
    p = bf.random_parameters(6, 4)
    states, expected = long_way(p, ("spin", "bernoulli"))
    monkeypatch.setattr(pseudo_module, "CHUNK_ROWS", 9)
    np.testing.assert_allclose(pseudo_log_likelihood(bf.make_rbm(p, "spin"), states), expected, rtol=1e-5)


@pytest.mark.parametrize("pair", bf.BINARY_PAIRS)
@pytest.mark.parametrize("bits", [1, 3])
def test_random_bits_are_unbiased(pair, bits):
    p = bf.random_parameters(6, 4, seed=1)
    states, expected = long_way(p, pair)
    copies = 2000
    rbm = bf.make_rbm(p, *pair)
    values = pseudo_log_likelihood(rbm, np.repeat(states, copies, axis=0), bits=bits, seed=0).reshape(-1, copies)
    deviation = (values.mean(1) - expected) / (values.std(1) / np.sqrt(copies))
    assert np.all(np.abs(deviation) < 4.5)  # the largest of 64 normal numbers exceeds this once in 2000 times
    assert abs(np.mean(deviation)) < 4 / np.sqrt(len(states))


def test_seeds():
    rbm = bf.make_rbm(bf.random_parameters(6, 4), seed=0)
    x = bf.space("bernoulli", 6)
    first = pseudo_log_likelihood(rbm, x, bits=1, seed=1)
    np.testing.assert_array_equal(first, pseudo_log_likelihood(rbm, x, bits=1, seed=1))
    assert (first != pseudo_log_likelihood(rbm, x, bits=1, seed=2)).any()
    assert (pseudo_log_likelihood(rbm, x, bits=1) != pseudo_log_likelihood(rbm, x, bits=1)).any()


def test_metric_by_itself():
    p = bf.random_parameters(6, 4, seed=1)
    states, expected = long_way(p, ("bernoulli", "bernoulli"))
    weights = np.linspace(0.0, 1.0, len(states))
    metric = PseudoLogLikelihood(bf.make_rbm(p), bits=2000, seed=0)
    metric.update_state(states, sample_weight=weights)
    assert float(metric.result()) == pytest.approx((weights * expected).sum() / weights.sum(), rel=0.02)
    metric.reset_state()
    for _ in range(3):
        metric.update_state(states)
    assert float(metric.result()) == pytest.approx(expected.mean(), rel=0.02)


def test_metric_of_a_compiled_model():
    """In an autoencoder whose encoder is the RBM the targets are the visible states."""
    p = bf.random_parameters(6, 4, seed=1)
    states, expected = long_way(p, ("bernoulli", "bernoulli"))
    rbm = bf.make_rbm(p)
    model = keras.Sequential([rbm, keras.layers.Dense(6, activation="sigmoid")])
    model.compile("sgd", loss="mse", metrics=[PseudoLogLikelihood(rbm, bits=500, seed=0)])
    logs = model.evaluate(states, states, batch_size=16, verbose=0, return_dict=True)
    assert logs["pseudo_log_likelihood"] == pytest.approx(expected.mean(), rel=0.02)
    before = logs["pseudo_log_likelihood"]
    rbm.visible_bias.assign(p.b + 1.0)  # the compiled metric sees the present parameters
    assert model.evaluate(states, states, verbose=0, return_dict=True)["pseudo_log_likelihood"] != before


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"bits": 0}, "bits=0"),
        ({"bits": 1.5}, "bits=1.5"),
        ({"bits": 1, "seed": "a"}, "seed='a'"),
        ({"x": np.full((2, 4), 0.5)}, "0 or 1. Received: 0.5"),
        ({"x": np.zeros((2, 3))}, "4 columns"),
    ],
)
def test_bad_arguments(arguments, message):
    rbm = bf.make_rbm(bf.random_parameters(4, 3))
    with pytest.raises(ValueError, match=message):
        pseudo_log_likelihood(rbm, **{"x": np.zeros((2, 4)), **arguments})


def test_real_units_have_none():
    rbm = bf.make_rbm(bf.random_parameters(4, 3), "gaussian")
    with pytest.raises(ValueError, match=r"finitely many states. Received: visible_type='gaussian'"):
        pseudo_log_likelihood(rbm, np.zeros((2, 4)))
    with pytest.raises(ValueError, match=r"visible_type='gaussian'"):
        PseudoLogLikelihood(rbm)
    with pytest.raises(ValueError, match=r"build"):
        pseudo_log_likelihood(tf_wcd.RBMLayer(3), np.zeros((2, 4)))
