"""Annealed importance sampling against exact sums."""

import warnings

import numpy as np
import pytest
import tensorflow as tf

import tf_wcd
from tests.support import brute_force as bf
from tests.support.annealing import assert_bracketed, two_modes
from tf_wcd.evaluation import annealed_log_partition, log_partition
from tf_wcd.evaluation.annealed import check_temperatures
from tf_wcd.evaluation.importance import bennett, effective_number, log_mean_error, log_mean_exp
from tf_wcd.sampling import can_sample_exactly, exact_sampler
from tf_wcd.sampling.annealing import anneal, base_log_partition


def gaussian_rbm(parameters, hidden_type="bernoulli", variances=None):
    unit = tf_wcd.units.Gaussian(learn_variance=variances is not None)
    rbm = bf.make_rbm(parameters, unit, hidden_type)
    if variances is not None:
        rbm.visible_parameters["log_variance"].assign(np.log(variances))
    return rbm


@pytest.mark.parametrize("pair", bf.UNIT_PAIRS)
def test_random_models_of_all_unit_types(pair):
    rbm = bf.make_rbm(bf.random_parameters(12, 10, seed=3, scale=0.4), *pair)
    result = annealed_log_partition(rbm, temperatures=500, seed=1)
    assert result.reverse_start == "exact"
    assert 0 < result.standard_error < 0.1
    assert_bracketed(result, log_partition(rbm))


def test_a_learned_variance():
    variances = np.array([0.5, 2.0, 1.0, 0.3, 1.5])
    rbm = gaussian_rbm(bf.random_parameters(5, 4, seed=2, scale=0.5), "spin", variances)
    assert_bracketed(annealed_log_partition(rbm, temperatures=500, seed=2), log_partition(rbm))


def test_twenty_random_models():
    """The exact value is within three standard errors of AIS at least 17 times of 20, and so often in the interval."""
    hits, inside, deviations = 0, 0, []
    for seed in range(20):
        rbm = bf.make_rbm(bf.random_parameters(12, 10, seed=100 + seed))
        result = annealed_log_partition(rbm, seed=seed)
        exact = log_partition(rbm)
        hits += abs(result.estimate - exact) <= 3 * result.standard_error
        deviations.append((result.estimate - exact) / result.standard_error)
        inside += result.lower <= exact <= result.upper
        assert result.lower < result.upper
        assert result.agrees
    assert hits >= 17
    assert inside >= 17
    # The stated error is the true one: the mean square of 20 standard normal numbers is 1 with sd 0.32.
    assert 0.2 < np.mean(np.square(deviations)) < 1 + 4 * 0.32


def test_a_trained_model():
    states, probabilities = tf_wcd.datasets.load("BS09")
    rbm = tf_wcd.RBMLayer(10, "spin", "spin", seed=0)
    rbm.compile(bf.sgd(0.02, momentum=0.9))
    rbm.fit(2 * states - 1, sample_weight=probabilities, batch_size=14, steps_per_epoch=3000, verbose=0)
    exact = log_partition(rbm)
    assert tf_wcd.evaluation.kl_divergence(rbm, 2 * states - 1, probabilities) < 0.5  # it is trained
    result = annealed_log_partition(rbm, data=2 * states - 1, seed=0)
    assert_bracketed(result, exact)


def test_the_weights_do_not_depend_on_how_they_are_computed():
    """One temperature step without any move is plain importance sampling: each weight is a ratio of probabilities."""
    p = bf.random_parameters(5, 3)
    rbm = bf.make_rbm(p, "spin", "bernoulli")
    machine = rbm.machine()
    base_bias = np.linspace(-0.5, 0.7, 5)
    x = bf.space("spin", 5)
    carried = anneal(
        machine,
        tf.constant(base_bias, tf.float32),
        tf.constant(x, tf.float32),
        tf.constant([0.0, 1.0]),
        tf.constant([1, 2], tf.uint32),
    )
    expected = -bf.free_energy(p, x, "bernoulli") - (x @ base_bias + 3 * np.log(2))
    np.testing.assert_allclose(carried.log_weights, expected, rtol=2e-6, atol=2e-6)
    np.testing.assert_allclose(carried.gains, [expected.mean()], rtol=2e-6)
    log_base = base_log_partition(machine, tf.constant(base_bias, tf.float32))
    np.testing.assert_allclose(log_base, bf.log_sum_exp(x @ base_bias) + 3 * np.log(2), rtol=1e-7)


def test_bounds_are_on_their_sides():
    """With few temperatures AIS is too low and reverse AIS too high, and the bridge is between; and it warns."""
    rbm = bf.make_rbm(bf.random_parameters(60, 12, seed=5, scale=0.5), "spin", "spin")
    with pytest.warns(UserWarning, match=r"forward and .* in reverse.*more temperatures"):
        result = annealed_log_partition(rbm, temperatures=3, seed=0)
    exact = log_partition(rbm)
    assert result.log_weights.mean() < exact < result.reverse_log_weights.mean()
    assert result.estimate < exact < result.reverse_estimate
    assert result.estimate < result.bridge < result.reverse_estimate
    assert abs(result.bridge - exact) < min(exact - result.estimate, result.reverse_estimate - exact)
    assert 1 <= result.effective_sample_size < 4  # a few of the 100 chains have nearly all the weight
    assert not result.agrees
    assert "effective sample size" in result.reason


def test_the_number_of_temperatures_is_doubled_until_both_directions_agree():
    rbm = bf.make_rbm(bf.random_parameters(60, 12, seed=5, scale=0.7), "spin", "spin")
    exact = log_partition(rbm)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        result = annealed_log_partition(rbm, seed=0)
    assert result.agrees
    assert result.temperatures in (200, 400, 800)
    assert abs(result.reverse_estimate - result.estimate) < 0.2 + 2 * np.hypot(
        result.standard_error, result.reverse_standard_error
    )
    assert min(result.effective_sample_size, result.reverse_effective_sample_size) >= 20
    assert_bracketed(result, exact)
    half = result.temperatures // 2
    with pytest.warns(UserWarning, match=rf"with {half} temperatures leaves log Z open"):
        short = annealed_log_partition(rbm, budget=half, seed=0)
    assert (short.temperatures, short.agrees) == (half, False)
    assert short.lower < exact < short.upper
    with pytest.warns(UserWarning, match=r"with 50 temperatures.*forward chains have an effective sample size"):
        assert annealed_log_partition(rbm, budget=50, seed=0, reverse=False).upper == np.inf


def test_reverse_chains_that_do_not_start_from_the_model_are_found_out():
    """Two deep modes; the reverse chains are all put into the lesser one, and cannot leave it."""
    rbm, exact = two_modes()
    with pytest.warns(UserWarning, match=r"should be the higher one.*did not start from samples.*interval was widened"):
        result = annealed_log_partition(rbm, initial=-np.ones((100, 8)), burn_in=10, seed=0)
    assert result.reverse_start == "initial"
    assert abs(result.estimate - exact) < 4 * result.standard_error
    # The lesser mode has 6 % of the probability, and gets more of the forward chains.
    assert result.reverse_estimate < exact - 0.5
    assert not result.agrees
    assert result.lower < result.reverse_estimate < exact < result.upper
    # It reaches as far above the forward estimate as the reverse one is below it: it does not say that it knows.
    assert result.upper > 2 * result.estimate - result.reverse_estimate


def test_exchange_brings_reverse_chains_to_both_modes(monkeypatch):
    """From data of the lesser mode alone, where plain chains would stay; without steps they do."""
    rbm, exact = two_modes(depth=1.0)
    monkeypatch.setattr("tf_wcd.evaluation.model_samples.can_sample_exactly", lambda machine: False)
    arguments = {"data": -np.ones((5, 8)), "base": np.full(8, 0.2), "seed": 1}
    result = annealed_log_partition(rbm, **arguments, burn_in=500)
    assert result.reverse_start == "pt"
    assert result.agrees
    assert "if their starts (pt) are samples of the model" in result.reason
    assert_bracketed(result, exact)
    with pytest.warns(UserWarning, match=r"should be the higher one"):
        wrong = annealed_log_partition(rbm, **arguments, burn_in=0)
    assert wrong.reverse_start == "data"
    assert wrong.lower < exact < wrong.upper


def test_starts_of_the_reverse_chains(monkeypatch):
    """Exchange from data or from random states, or samples that are passed, do as well on a model that mixes."""
    rbm = bf.make_rbm(bf.random_parameters(12, 10, seed=3, scale=0.4))
    exact = log_partition(rbm)
    monkeypatch.setattr("tf_wcd.evaluation.model_samples.can_sample_exactly", lambda machine: False)
    data = rbm.sample(60, seed=1).numpy()
    for arguments, origin in (({"data": data}, "pt"), ({}, "pt"), ({"initial": rbm.sample(100, seed=2)}, "initial")):
        result = annealed_log_partition(rbm, **arguments, temperatures=500, burn_in=100, seed=4)
        assert (result.reverse_start, result.temperatures) == (origin, 500)
        assert_bracketed(result, exact)


def test_base_model_and_temperatures_do_not_change_the_answer():
    rbm = bf.make_rbm(bf.random_parameters(8, 6, seed=1))
    exact = log_partition(rbm)
    for arguments in (
        {"base": np.full(8, 0.5)},
        {"base": np.array([0, 1, 0, 1, 0.5, 0.5, 1, 0])},  # clipped
        {"data": np.ones((3, 8))},
        {"temperatures": np.linspace(0, 1, 400) ** 2},
    ):
        assert_bracketed(annealed_log_partition(rbm, **{"temperatures": 400, **arguments}, seed=6), exact)


def test_independent_units_are_exact_up_to_rounding():
    p = bf.random_parameters(6, 5)
    rbm = bf.make_rbm(bf.Parameters(0 * p.W, 0 * p.b, p.c))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        result = annealed_log_partition(rbm, base=np.full(6, 0.5), seed=0)
    assert 0 < result.standard_error < 1e-5
    assert_bracketed(result, log_partition(rbm))


def test_forward_only():
    rbm = bf.make_rbm(bf.random_parameters(6, 5))
    both = annealed_log_partition(rbm, temperatures=50, seed=3)
    forward = annealed_log_partition(rbm, temperatures=50, seed=3, reverse=False)
    assert forward.estimate == both.estimate
    assert forward.upper == np.inf
    assert forward.reverse_start == "none"
    assert forward.reverse_log_weights.size == 0
    assert np.isnan(forward.bridge)
    assert forward.lower == forward.estimate - 2 * forward.standard_error
    assert "Only forward chains" in forward.reason


def test_seeds_and_groups_of_chains():
    rbm = bf.make_rbm(bf.random_parameters(6, 5), seed=0)
    first = annealed_log_partition(rbm, temperatures=50, seed=3)
    assert first.estimate == annealed_log_partition(rbm, temperatures=50, seed=3).estimate
    assert first.estimate != annealed_log_partition(rbm, temperatures=50, seed=4).estimate
    assert (
        annealed_log_partition(rbm, temperatures=50).estimate != annealed_log_partition(rbm, temperatures=50).estimate
    )
    # 33 chains of 11 units in groups of at most 10 rows.
    few = annealed_log_partition(rbm, chains=33, temperatures=50, seed=3, memory_limit=10 * 6 * 4 * 11)
    assert few.log_weights.shape == (33,)
    assert len(np.unique(few.log_weights)) == 33
    assert_bracketed(few, log_partition(rbm))


def test_evaluation_leaves_the_model_alone():
    rbm = bf.make_rbm(bf.random_parameters(6, 5), seed=0)
    before = [v.numpy().copy() for v in rbm.variables]
    annealed_log_partition(rbm, temperatures=20, seed=0)
    for value, variable in zip(before, rbm.variables, strict=True):
        np.testing.assert_array_equal(value, variable.numpy())


@pytest.mark.parametrize("pair", bf.BINARY_PAIRS)
@pytest.mark.parametrize("shape", [(3, 5), (5, 3)])
def test_exact_samples_are_exact(pair, shape):
    """Whichever side is enumerated, the histogram of samples is as far from the truth as chance has it."""
    p = bf.random_parameters(*shape)
    n = 100_000
    machine = bf.make_rbm(p, *pair).machine()
    assert can_sample_exactly(machine)
    x = exact_sampler(machine).sample(n, tf.constant([5, 6], tf.uint32)).numpy()
    _, probabilities = bf.visible_distribution(p, *pair)
    counts = np.bincount(bf.index_of(x), minlength=len(probabilities))
    distance, floor = bf.total_variation(counts, probabilities)
    assert distance < 4 * floor


def test_importance_estimates():
    log_weights = np.log(np.array([1.0, 2.0, 3.0, 6.0])) + 1000.0
    assert log_mean_exp(log_weights) == pytest.approx(1000 + np.log(3))
    assert log_mean_error(log_weights) == pytest.approx(np.std([1, 2, 3, 6], ddof=1) / 2 / 3)
    assert effective_number(log_weights) == pytest.approx(12**2 / 50)


def test_bennett_on_works_with_a_known_answer():
    """Gaussian works of variance s^2 about r - s^2/2 forward, r + s^2/2 in reverse, are those of a ratio e^r."""
    rng = np.random.default_rng(0)
    ratio, spread = -3.0, 1.5
    errors = []
    for _ in range(50):
        forward = rng.normal(ratio - spread**2 / 2, spread, 200)
        reverse = -rng.normal(ratio + spread**2 / 2, spread, 300)
        estimate, error = bennett(forward, reverse)
        errors.append((estimate - ratio) / error)
    assert abs(np.mean(errors)) < 4 / np.sqrt(50)
    assert 0.6 < np.std(errors) < 1.4  # 1 with sd 0.1
    estimate, _ = bennett(np.full(5, 700.0), np.full(7, -900.0))  # no overlap at all: in the middle
    assert 700 < estimate < 900


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"chains": 1}, "chains=1"),
        ({"chains": 2.5}, "chains=2.5"),
        ({"temperatures": 1}, "temperatures=1"),
        ({"temperatures": True}, "Received: True"),
        ({"temperatures": "all"}, "\"auto\", an integer or a vector. Received: 'all'"),
        ({"budget": 1}, "budget=1"),
        ({"tolerance": 0}, "tolerance=0"),
        ({"temperatures": [0.0, 0.5]}, "increase from 0 to 1"),
        ({"temperatures": [0.0, 0.7, 0.6, 1.0]}, "increase from 0 to 1"),
        ({"temperatures": [[0.0, 1.0]]}, "vector"),
        ({"burn_in": -1}, "burn_in=-1"),
        ({"memory_limit": 0}, "memory_limit=0"),
        ({"seed": "a"}, "seed='a'"),
        ({"data": np.ones((3, 4))}, r"5 columns.*\(3, 4\)"),
        ({"data": 2 * np.ones((3, 5))}, r"`data`.*2.0"),
        ({"base": np.ones(4)}, r"`base`.*5 columns"),
        ({"base": np.ones((2, 5))}, r"one row.*\(2, 5\)"),
        ({"initial": np.ones((3, 5))}, r"100 chains.*\(3, 5\)"),
    ],
)
def test_bad_arguments(arguments, message):
    rbm = bf.make_rbm(bf.random_parameters(5, 3))
    with pytest.raises(ValueError, match=message):
        annealed_log_partition(rbm, **arguments)


def test_default_temperatures():
    betas = check_temperatures(1000)
    assert betas.shape == (1000,)
    assert betas[0] == 0
    assert betas[-1] == 1
    assert np.all(np.diff(betas) > 0)
    assert betas[1] > 1 - betas[-2]  # closer together near the model
