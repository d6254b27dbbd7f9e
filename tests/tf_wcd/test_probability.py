"""What goes through TensorFlow Probability, against its own functions and against sums written out."""

import collections
import dataclasses

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_probability as tfp

import tf_wcd
from tests.support import brute_force as bf
from tf_wcd.distribution import ParzenDistribution, TableDistribution
from tf_wcd.enumeration import smaller_side
from tf_wcd.evaluation import exact

tfd = tfp.distributions
RNG = np.random.default_rng(0)
SAMPLES = RNG.normal(0.3, 1.0, (70, 3)).astype("float32")
POINTS = RNG.normal(0.5, 0.8, (2, 9, 3)).astype("float32")
STATES, TARGET = bf.space("bernoulli", 5)[3:20].astype("float32"), RNG.dirichlet(np.full(17, 0.7))


def mixture(sigma):
    """The same as TFP has it, one component for each sample."""
    return tfd.MixtureSameFamily(
        tfd.Categorical(logits=np.zeros(len(SAMPLES))),
        tfd.MultivariateNormalDiag(SAMPLES.astype("float64"), np.full(3, sigma)),
    )


@pytest.mark.parametrize("sigma", [0.2, 1.5])
def test_parzen_windows_are_tfps_mixture(sigma, monkeypatch):
    monkeypatch.setattr("tf_wcd.distribution.parzen.CHUNK", 32)  # three chunks, the last one padded
    ours, theirs = ParzenDistribution(SAMPLES, sigma), mixture(sigma)
    assert isinstance(ours, tfd.Distribution)
    assert (ours.batch_shape, ours.event_shape) == (theirs.batch_shape, theirs.event_shape)
    expected = theirs.log_prob(POINTS.astype("float64"))
    np.testing.assert_allclose(ours.log_prob(POINTS), expected, rtol=2e-5)
    np.testing.assert_allclose(tf.function(ours.log_prob)(POINTS), expected, rtol=1e-6)
    wide = ParzenDistribution(SAMPLES, sigma, dtype="float64")
    np.testing.assert_allclose(wide.log_prob(POINTS.astype("float64")), expected, rtol=1e-9)
    np.testing.assert_allclose(ours.mean(), theirs.mean(), rtol=1e-5)
    np.testing.assert_allclose(ours.variance(), theirs.variance(), rtol=1e-5)
    gradient = tfp.math.value_and_gradient(theirs.log_prob, tf.constant(POINTS, tf.float64))[1]
    for log_prob in (ours.log_prob, tf.function(ours.log_prob)):
        np.testing.assert_allclose(
            tfp.math.value_and_gradient(log_prob, tf.constant(POINTS))[1], gradient, rtol=1e-4, atol=1e-5
        )


def test_draws_from_parzen_windows():
    windows, n = ParzenDistribution(SAMPLES, 0.5), 50_000
    drawn = windows.sample(n, seed=1).numpy().astype("float64")
    assert windows.sample([2, 4], seed=1).shape == [2, 4, 3]
    deviation = drawn.std(0) / np.sqrt(n)
    assert np.all(np.abs(drawn.mean(0) - windows.mean()) < 4.5 * deviation)
    squares = np.square(drawn - windows.mean())
    assert np.all(np.abs(squares.mean(0) - windows.variance()) < 4.5 * squares.std(0) / np.sqrt(n))


def test_a_table_is_a_distribution():
    table = TableDistribution(STATES, TARGET)
    np.testing.assert_allclose(table.log_prob(STATES), np.log(TARGET), rtol=1e-5)
    whole = table.prob(bf.space("bernoulli", 5).astype("float32")).numpy()
    assert whole.sum() == pytest.approx(1, rel=1e-6)
    assert (whole > 0).sum() == 17
    np.testing.assert_allclose(table.mean(), TARGET @ STATES, rtol=1e-6)
    assert float(table.entropy()) == pytest.approx(-(TARGET * np.log(TARGET)).sum(), rel=1e-6)
    drawn = table.sample(20_000, seed=1).numpy()
    counts = (drawn[:, None] == STATES[None]).all(-1).mean(0)
    assert np.all(np.abs(counts - TARGET) < 4.5 * np.sqrt(TARGET * (1 - TARGET) / 20_000))
    with pytest.raises(ValueError, match="some of them equal"):
        TableDistribution([[0, 1], [0, 1]], [0.5, 0.5])


@pytest.mark.parametrize("pair", bf.BINARY_PAIRS[:2])
def test_the_registered_divergence_is_the_exact_one(pair):
    rbm = bf.make_rbm(bf.random_parameters(5, 3), *pair)
    states = STATES if pair[0] == "bernoulli" else 2 * STATES - 1
    target = TARGET.copy()
    target[2], target[3] = 0.0, TARGET[2] + TARGET[3]  # a state without probability
    table = TableDistribution(states, target)
    _, model = bf.visible_distribution(bf.random_parameters(5, 3), *pair)
    listed = model[bf.index_of(states)]
    by_hand = (target[target > 0] * np.log(target[target > 0] / listed[target > 0])).sum()
    assert float(tfd.kl_divergence(table, rbm.distribution())) == pytest.approx(by_hand, rel=1e-5)
    assert by_hand == pytest.approx(tf_wcd.evaluation.kl_divergence(rbm, states, target), rel=1e-6)
    inside = tf.function(lambda: tfd.kl_divergence(table, rbm.distribution()))
    assert float(inside()) == pytest.approx(by_hand, rel=1e-5)


def test_log_z_by_tfps_log_add_exp_chunk_by_chunk():
    machine = bf.make_rbm(bf.random_parameters(6, 7)).machine().cast("float64")
    expected = exact.log_partition_of(machine)  # by tables of products
    for chunk in (1, 5, 64):
        np.testing.assert_allclose(exact._log_sum(smaller_side(machine), chunk), expected, rtol=1e-12)


GibbsResults = collections.namedtuple("GibbsResults", ["target_log_prob", "log_acceptance_correction", "seed"])


class AnnealedGibbs(tf_wcd.mcmc.BlockGibbs):
    """Our kernel at the inverse temperature of one of TFP's intermediate densities, as a proposal that is accepted.

    These densities are exp(-beta Energy(x, h)), so that the log of one at any state but those of energy zero tells
    beta.
    """

    def __init__(self, rbm, log_density):
        super().__init__(rbm)
        ones = tf.ones([1, rbm.num_visible]), tf.ones([1, rbm.units])
        self.beta = log_density(*ones)[0] / -rbm.energy(*ones)[0]

    def _machine(self):
        machine = super()._machine()
        names = ("kernel", "visible_bias", "hidden_bias")
        return dataclasses.replace(machine, **{name: self.beta * getattr(machine, name) for name in names})

    def bootstrap_results(self, state):
        results = super().bootstrap_results(state)
        return GibbsResults(results.target_log_prob, tf.zeros_like(results.target_log_prob), results.seed)

    def one_step(self, state, previous, seed=None):
        state, results = super().one_step(state, previous, seed)
        # Metropolis and Hastings' ratio of a Gibbs step is one.
        correction = previous.target_log_prob - results.target_log_prob
        return state, GibbsResults(results.target_log_prob, correction, results.seed)


def test_tfps_annealed_importance_sampling_with_our_kernel_finds_log_z():
    rbm = bf.make_rbm(bf.random_parameters(5, 3))
    chains = 2000
    shapes = [chains, 5], [chains, 3]
    start = [tf.cast(tf.random.stateless_uniform(shape, [1, i]) < 0.5, tf.float32) for i, shape in enumerate(shapes)]
    _, log_weights, _ = tfp.mcmc.sample_annealed_importance_chain(
        num_steps=40,
        proposal_log_prob_fn=lambda x, h: tf.zeros(tf.shape(x)[:-1]),
        target_log_prob_fn=lambda x, h: -rbm.energy(x, h),
        current_state=start,
        make_kernel_fn=lambda log_density: tfp.mcmc.MetropolisHastings(AnnealedGibbs(rbm, log_density)),
        seed=3,
    )
    weights = np.exp(log_weights.numpy().astype("float64"))
    log_z = np.log(weights.mean()) + 8 * np.log(2)
    error = weights.std() / weights.mean() / np.sqrt(chains)
    assert error < 0.02
    exactly = tf_wcd.evaluation.log_partition(rbm)
    assert abs(log_z - exactly) < 4 * error
    ours = tf_wcd.evaluation.annealed_log_partition(rbm, chains=500, temperatures=40, seed=0)
    assert abs(ours.estimate - exactly) < 4 * ours.standard_error
    # The check can fail: without Gibbs steps in between the weights tell less, and with a wrong one something else.
    assert np.abs(exactly - 8 * np.log(2)) > 10 * error
