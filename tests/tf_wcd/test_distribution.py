"""An RBM as a TFP distribution: probabilities and samples against the sums written out."""

import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_probability as tfp

import tf_wcd
from tests.support import brute_force as bf
from tf_wcd.random import batch_source
from tf_wcd.sampling.exact import choose

N = 100_000
SHAPES = [(5, 3), (3, 5)]  # the hidden side enumerated, and the visible one


def gaussian_log_density(p, hidden_type, x):
    """The mixture of Gaussians that a Gaussian RBM is, and its weights and centres."""
    h = bf.space(hidden_type, len(p.c))
    centres = p.b + h @ p.W.T
    log_weights = h @ p.c + 0.5 * (centres**2).sum(1)
    log_weights = log_weights - bf.log_sum_exp(log_weights)
    log_normal = -0.5 * (((x[:, None] - centres) ** 2).sum(-1) + x.shape[1] * np.log(2 * np.pi))
    return bf.log_sum_exp(log_weights + log_normal, 1), np.exp(log_weights), centres


@pytest.mark.parametrize("pair", bf.BINARY_PAIRS)
@pytest.mark.parametrize("shape", SHAPES)
def test_log_prob_samples_and_mean_of_binary_units(pair, shape):
    p = bf.random_parameters(*shape)
    states, probabilities = bf.visible_distribution(p, *pair)
    model = bf.make_rbm(p, *pair).distribution()
    np.testing.assert_allclose(model.log_prob(states.astype("float32")), np.log(probabilities), atol=2e-6)
    np.testing.assert_allclose(model.mean(), probabilities @ states, atol=1e-6)
    assert model.exact_samples
    samples = model.sample(N, seed=1).numpy()
    assert set(np.unique(samples)) == set(bf.VALUES[pair[0]])
    distance, floor = bf.total_variation(np.bincount(bf.index_of(samples), minlength=len(states)), probabilities)
    assert distance < 2 * floor  # independent exact samples are at the floor


@pytest.mark.parametrize("hidden_type", ["bernoulli", "spin"])
def test_log_prob_samples_and_mean_of_gaussian_units(hidden_type):
    p = bf.random_parameters(2, 3)
    rbm = bf.make_rbm(p, "gaussian", hidden_type)
    model = rbm.distribution()
    x = np.random.default_rng(0).normal(size=(20, 2)).astype("float32")
    log_density, weights, centres = gaussian_log_density(p, hidden_type, x.astype("float64"))
    np.testing.assert_allclose(model.log_prob(x), log_density, atol=1e-5)
    np.testing.assert_allclose(model.mean(), weights @ centres, atol=1e-5)
    samples = model.sample(N, seed=1).numpy().astype("float64")
    second = np.eye(2) + np.einsum("k,ki,kj->ij", weights, centres, centres)
    products = samples[:, :, None] * samples[:, None, :]
    for got, expected in ((samples, weights @ centres), (products, second)):
        assert np.all(np.abs(got.mean(0) - expected) < 4 * got.std(0) / np.sqrt(N))
    # A density on all of space: gradients flow, and samplers of real variables can use it.
    _, gradient = tfp.math.value_and_gradient(model.log_prob, tf.constant(x))
    by_hand = p.b - x + bf.hidden_mean(p, x.astype("float64"), hidden_type) @ p.W.T
    np.testing.assert_allclose(gradient, by_hand, atol=1e-5)


def test_it_is_a_distribution_of_tfp():
    rbm = bf.make_rbm(bf.random_parameters(5, 3))
    model = rbm.distribution(name="toy")
    assert isinstance(model, tfp.distributions.Distribution)
    assert (model.event_shape, model.batch_shape, model.dtype) == ([5], [], tf.float32)
    assert model.event_shape_tensor().numpy().tolist() == [5]
    assert model.batch_shape_tensor().numpy().tolist() == []
    assert model.reparameterization_type == tfp.distributions.NOT_REPARAMETERIZED
    assert model.name == "toy"
    assert model.parameters["gibbs_steps"] == 1000
    assert model.sample(seed=0).shape == [5]
    assert model.sample([2, 3], seed=0).shape == [2, 3, 5]
    assert model.log_prob(model.sample([2, 3], seed=0)).shape == [2, 3]
    assert model.log_prob(np.zeros(5, "float32")).shape == []
    np.testing.assert_allclose(model.prob(np.zeros(5)), np.exp(tf_wcd.evaluation.log_prob(rbm, np.zeros((1, 5)))[0]))
    shifted = model.copy(log_partition=0.0)
    np.testing.assert_allclose(shifted.log_prob(np.zeros(5)), -rbm.free_energy(np.zeros((1, 5)))[0], rtol=1e-6)
    assert tfp.distributions.Independent(tfp.distributions.Sample(model, 4)).sample(seed=0).shape == [4, 5]
    assert "toy" in repr(model)


def test_seeds():
    model = bf.make_rbm(bf.random_parameters(5, 3)).distribution()
    first = model.sample(100, seed=1).numpy()
    np.testing.assert_array_equal(first, model.sample(100, seed=1))
    np.testing.assert_array_equal(model.sample(9, seed=tf.constant([1, 2])), model.sample(9, seed=tf.constant([1, 2])))
    assert (first != model.sample(100, seed=2).numpy()).any()
    assert (model.sample(100).numpy() != model.sample(100).numpy()).any()


def test_in_a_compiled_function():
    rbm = bf.make_rbm(bf.random_parameters(5, 3))
    x = bf.space("bernoulli", 5).astype("float32")

    @tf.function
    def compiled(n):
        model = rbm.distribution()
        return model.log_prob(x), model.sample(n, seed=1), model.mean()

    log_prob, samples, mean = compiled(tf.constant(7))
    eager = rbm.distribution()
    np.testing.assert_allclose(log_prob, eager.log_prob(x), rtol=1e-6)
    np.testing.assert_array_equal(samples, eager.sample(7, seed=1))
    np.testing.assert_allclose(mean, eager.mean(), rtol=1e-6)


def test_it_is_a_snapshot():
    rbm = bf.make_rbm(bf.random_parameters(5, 3))
    x = bf.space("bernoulli", 5).astype("float32")
    before = bf.make_rbm(bf.random_parameters(5, 3)).distribution().log_prob(x).numpy()
    model = rbm.distribution()
    rbm.kernel.assign_add(np.ones((5, 3)))
    np.testing.assert_array_equal(model.log_prob(x), before)
    assert np.abs(rbm.distribution().log_prob(x).numpy() - before).max() > 0.1


def test_states_that_no_unit_can_have():
    rbm = bf.make_rbm(bf.random_parameters(5, 3))
    with pytest.raises(tf.errors.InvalidArgumentError, match="'bernoulli' units are 0 or 1"):
        rbm.distribution().log_prob(np.full(5, 0.5, "float32"))
    assert np.isfinite(rbm.distribution(validate_args=False).log_prob(np.full(5, 0.5, "float32")))


def test_chains_where_enumeration_is_out_of_reach():
    """Independent units (no kernel): chains are exact after one step, and the mean of each unit is known."""
    rbm = tf_wcd.RBMLayer(30, kernel_initializer="zeros", visible_bias_initializer="random_normal", seed=0)
    rbm.build((None, 40))
    model = rbm.distribution(gibbs_steps=2)
    assert not model.exact_samples
    samples = model.sample(20_000, seed=3).numpy()
    np.testing.assert_array_equal(samples, model.sample(20_000, seed=3))
    expected = 1 / (1 + np.exp(-rbm.visible_bias.numpy()))
    assert np.all(np.abs(samples.mean(0) - expected) < 4.5 * samples.std(0) / np.sqrt(20_000))
    with pytest.raises(ValueError, match="annealed_log_partition"):
        model.log_prob(samples[:2])
    with pytest.raises(ValueError, match=r"40 visible x 30 hidden units. Take the mean of samples"):
        model.mean()
    # With log Z from elsewhere there is a log_prob.
    log_z = 30 * np.log(2) + np.logaddexp(0, rbm.visible_bias.numpy().astype("float64")).sum()
    known = rbm.distribution(log_partition=log_z).log_prob(samples[:5])
    by_hand = np.where(samples[:5] == 1, np.log(expected), np.log1p(-expected)).sum(1)
    np.testing.assert_allclose(known, by_hand, rtol=1e-5)


def test_many_states_are_drawn_with_their_probabilities():
    """Of 3 * 2^20 equal states, the numbers of a single draw of 23 bits would hit each third one more rarely."""
    n, states = 1_000_000, 3 * 2**20
    cumulative = tf.cumsum(tf.fill([states], tf.constant(1 / states, tf.float64)))
    drawn = choose(cumulative, n, batch_source(tf.constant([5, 6], tf.uint32)))
    thirds = np.bincount(drawn.numpy() % 3) / n
    assert np.all(np.abs(thirds - 1 / 3) < 4.5 * np.sqrt(2 / 9 / n))
    assert drawn.numpy().min() < 30 < states - 30 < drawn.numpy().max()


def test_a_machine_of_middle_size():
    """18 hidden units are enumerated in chunks: log Z, samples and mean agree with independent sums."""
    p = bf.random_parameters(100, 18, scale=0.1)
    rbm = bf.make_rbm(p)
    model = rbm.distribution()
    assert float(model.log_partition) == pytest.approx(tf_wcd.evaluation.log_partition(rbm), rel=1e-12)
    samples = model.sample(20_000, seed=1).numpy()
    mean = model.mean().numpy()
    assert np.all(np.abs(samples.mean(0) - mean) < 4.5 * samples.std(0) / np.sqrt(20_000))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"log_partition": np.nan}, "log_partition=nan"),
        ({"gibbs_steps": 0}, "gibbs_steps=0"),
        ({"gibbs_steps": 1.5}, "gibbs_steps=1.5"),
    ],
)
def test_bad_arguments(arguments, message):
    with pytest.raises(ValueError, match=message):
        bf.make_rbm(bf.random_parameters(5, 3)).distribution(**arguments)
    with pytest.raises(ValueError, match="does not know its number of visible units"):
        tf_wcd.RBMLayer(3).distribution()


def test_tfp_is_imported_only_when_it_is_needed():
    code = (
        "import sys, tf_wcd; assert 'tensorflow_probability' not in sys.modules; "
        "tf_wcd.mcmc.BlockGibbs, tf_wcd.distribution.RBMDistribution; assert 'tensorflow_probability' in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
    with pytest.raises(AttributeError, match="no attribute 'mcmcc'"):
        tf_wcd.mcmcc  # noqa: B018
