"""Samplers: chains that start from exact samples stay exact."""

import numpy as np
import pytest

from tests.support import brute_force as bf

pytestmark = pytest.mark.xla

N = 100_000


def exact_samples(p, pair, rng):
    states, probabilities = bf.visible_distribution(p, *pair)
    return states[rng.choice(len(states), N, p=probabilities)], probabilities


def assert_distribution(samples, probabilities):
    distance, floor = bf.total_variation(np.bincount(bf.index_of(samples), minlength=len(probabilities)), probabilities)
    assert distance < 4 * floor


@pytest.mark.parametrize("pair", bf.BINARY_PAIRS)
def test_gibbs_keeps_the_distribution_and_finds_it(pair):
    p = bf.random_parameters(5, 3)
    start, probabilities = exact_samples(p, pair, np.random.default_rng(0))
    rbm = bf.make_rbm(p, *pair)
    for steps in (1, 5):
        samples = rbm.sample(N, gibbs_steps=steps, initial=start, seed=1).numpy()
        assert set(np.unique(samples)) == set(bf.VALUES[pair[0]])
        assert_distribution(samples, probabilities)
        assert np.mean((samples != start).any(1)) > 0.5  # it did move
    assert_distribution(rbm.sample(N, gibbs_steps=100, seed=2).numpy(), probabilities)


@pytest.mark.parametrize("hidden_type", ["bernoulli", "spin"])
def test_gibbs_keeps_the_distribution_of_gaussian_units(hidden_type):
    p = bf.random_parameters(3, 2)
    h = bf.space(hidden_type, 2)
    log_weights = h @ p.c + 0.5 * ((p.b + h @ p.W.T) ** 2).sum(1)
    probabilities = np.exp(log_weights - bf.log_sum_exp(log_weights))
    rng = np.random.default_rng(0)
    chosen = h[rng.choice(4, N, p=probabilities)]
    start = p.b + chosen @ p.W.T + rng.normal(size=(N, 3))
    samples = (
        bf.make_rbm(p, "gaussian", hidden_type)
        .sample(N, gibbs_steps=3, initial=start, seed=1)
        .numpy()
        .astype("float64")
    )
    centres = p.b + h @ p.W.T
    mean = probabilities @ centres
    second = np.eye(3) + np.einsum("k,ki,kj->ij", probabilities, centres, centres)
    assert np.all(np.abs(samples.mean(0) - mean) < 4 * samples.std(0) / np.sqrt(N))
    products = samples[:, :, None] * samples[:, None, :]
    assert np.all(np.abs(products.mean(0) - second) < 4 * products.std(0) / np.sqrt(N))
    # The share of each hidden state, as the posterior of the samples has it.
    posterior = bf.conditional(samples @ p.W + p.c, hidden_type, h)
    assert np.all(np.abs(posterior.mean(0) - probabilities) < 4 * posterior.std(0) / np.sqrt(N))


@pytest.mark.parametrize("pair", [("bernoulli", "bernoulli"), ("spin", "spin")])
def test_clamped_units_stay_and_the_others_follow_their_conditional(pair):
    p = bf.random_parameters(5, 3)
    states, probabilities = bf.visible_distribution(p, *pair)
    low, high = bf.VALUES[pair[0]]
    held = np.array([1, 0, 0, 1, 0])
    value = np.array([high, low, low, low, low])
    fits = (states[:, [0, 3]] == value[[0, 3]]).all(1)
    conditional = np.where(fits, probabilities, 0) / probabilities[fits].sum()
    samples = bf.make_rbm(p, *pair).sample(N, gibbs_steps=60, initial=value, clamp=held, seed=4).numpy()
    assert np.all(samples[:, [0, 3]] == value[[0, 3]])
    assert_distribution(samples, conditional)


@pytest.mark.parametrize(("pair", "phase"), [(("bernoulli", "bernoulli"), "pcd"), (("spin", "bernoulli"), "wpcd")])
def test_persistent_chains_keep_the_distribution(pair, phase):
    """With a learning rate of zero the chains of training are a Gibbs sampler of a fixed model."""
    p = bf.random_parameters(4, 3)
    start, probabilities = exact_samples(p, pair, np.random.default_rng(0))
    rbm = bf.make_rbm(p, *pair, negative_phase=phase, gibbs_steps=2, seed=5)
    rbm.compile(bf.sgd(0.0))
    rbm.start_chains(start)
    rbm.fit(start[:10], batch_size=10, epochs=3, verbose=0)
    chains = rbm.chain_variables["visible"].numpy()
    assert_distribution(chains, probabilities)
    assert np.mean((chains != start).any(1)) > 0.5


def test_sample_is_reproducible_by_seed_and_new_without():
    rbm = bf.make_rbm(bf.random_parameters(6, 4), seed=0)
    first = rbm.sample(50, gibbs_steps=3, seed=7).numpy()
    np.testing.assert_array_equal(first, rbm.sample(50, gibbs_steps=3, seed=7))
    assert (first != rbm.sample(50, gibbs_steps=3, seed=8).numpy()).any()
    assert (rbm.sample(50, gibbs_steps=3).numpy() != rbm.sample(50, gibbs_steps=3).numpy()).any()
    again = bf.make_rbm(bf.random_parameters(6, 4), seed=0)
    other = bf.make_rbm(bf.random_parameters(6, 4), seed=0)
    np.testing.assert_array_equal(again.sample(50, gibbs_steps=3), other.sample(50, gibbs_steps=3))


def test_no_steps_returns_the_start():
    rbm = bf.make_rbm(bf.random_parameters(4, 3))
    start = bf.space("bernoulli", 4)
    np.testing.assert_array_equal(rbm.sample(16, gibbs_steps=0, initial=start, seed=0), start)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"num_samples": 0}, "num_samples=0"),
        ({"gibbs_steps": -1}, "gibbs_steps=-1"),
        ({"clamp": [1, 0, 0, 0]}, "initial=None"),
        ({"initial": [[0, 1, 0]]}, r"shape \(1, 3\)"),
        ({"initial": [[0, 1, 0, 5]]}, "5.0"),
        ({"initial": np.zeros((3, 4))}, r"shape \(3, 4\)"),
        ({"initial": np.zeros(4), "clamp": [1, 0]}, r"shape \(2,\)"),
        ({"initial": np.zeros(4), "clamp": [0.5, 0, 0, 0]}, "clamp.*Received: 0.5"),
        ({"seed": "a"}, "seed='a'"),
        ({"seed": 2**63}, "64 bits. Received: seed=9223372036854775808"),
    ],
)
def test_bad_arguments(arguments, message):
    rbm = bf.make_rbm(bf.random_parameters(4, 3))
    with pytest.raises(ValueError, match=message):
        rbm.sample(**{"num_samples": 2, **arguments})
