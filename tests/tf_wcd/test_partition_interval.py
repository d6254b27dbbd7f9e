"""Intervals of log Z: from weights with a known answer, from annealing, and from what a model has watched."""

import math

import numpy as np
import pytest

import tf_wcd
from tests.support import brute_force as bf
from tests.support import dbn_enumeration as de
from tf_wcd.evaluation import log_partition, log_partition_interval, online_log_partition, variational_bound
from tf_wcd.evaluation.directions import summarise
from tf_wcd.evaluation.partition_interval import LogPartitionInterval, _narrower

NO_EXACT_SAMPLES = "tf_wcd.evaluation.model_samples.can_sample_exactly"


def weights(spread, chains=100, seed=0, shift=0.0):
    """Gaussian log weights of the ratio e^0 in both directions; the reverse estimate is ``shift`` too high."""
    rng = np.random.default_rng(seed)
    forward = rng.normal(-(spread**2) / 2, spread, chains)
    reverse = -rng.normal(spread**2 / 2, spread, chains) - shift
    return forward, reverse


def summary(forward, reverse, tolerance=0.2):
    return summarise(forward, reverse, 10.0, origin="exact", temperatures=100, tolerance=tolerance, rounding=1e-7)


@pytest.mark.parametrize("spread", [0.01, 0.5, 1.0, 3.0, 10.0])
@pytest.mark.parametrize("shift", [0.0, -3.0, 3.0])
def test_intervals_are_ordered_and_cover_what_they_say(spread, shift):
    for seed in range(20):
        result, problems = summary(*weights(spread, seed=seed, shift=shift))
        assert result.lower < result.upper
        assert result.lower <= result.bridge <= result.upper
        for value, error in (
            (result.estimate, result.standard_error),
            (result.reverse_estimate, result.reverse_standard_error),
        ):
            assert result.lower <= value - 2 * error < value + 2 * error <= result.upper
        assert result.agrees == (not problems)


def test_the_interval_holds_as_often_as_it_says():
    """Of 200 sets of weights with moderate spreads, more than nine of ten intervals have the truth in them."""
    results = [summary(*weights(0.3 + 0.01 * seed, seed=seed))[0] for seed in range(200)]
    assert np.mean([r.lower <= 10.0 <= r.upper for r in results]) > 0.9
    # That of the bridge alone: 95 % with a standard deviation of 1.5 %.
    near = [abs(r.bridge - 10.0) <= 2 * r.bridge_standard_error for r in results]
    assert np.mean(near) > 0.95 - 4 * 0.016


def test_each_problem_is_named_and_more_temperatures_are_asked_for_where_they_help():
    good, problems = summary(*weights(0.3))
    assert good.agrees
    assert not problems
    assert good.reason.startswith("The two directions agree")
    apart, problems = summary(*weights(0.3, shift=1.0))
    assert [each.too_short for each in problems] == [True]
    assert "nats apart" in apart.reason
    wrong, problems = summary(*weights(0.3, shift=-1.0))
    assert [each.too_short for each in problems] == [False]
    assert "should be the higher one" in wrong.reason
    assert wrong.upper >= wrong.estimate + (wrong.estimate - wrong.reverse_estimate)
    noisy, problems = summary(*weights(2.5, shift=-3.0))
    assert any(each.too_short for each in problems)
    assert "effective sample size" in noisy.reason
    # A wider tolerance forgives a gap.
    assert summary(*weights(0.3, shift=1.0), tolerance=2.0)[0].agrees


def test_a_bridge_that_both_directions_miss_is_named_and_covered():
    """Forward weights without any spread; of the reverse ones a single one has nearly all the weight."""
    forward, reverse = np.zeros(100), np.concatenate([np.full(99, -10.0), [5.0]])
    result, problems = summary(forward, reverse)
    assert abs(result.estimate - 10) < 1e-6
    assert abs(result.reverse_estimate - (10 - 5 + math.log(100))) < 0.01
    assert result.upper == result.bridge > 14  # by hand: 100 sigmoid(-r) = 99 sigmoid(r - 10) + sigmoid(r + 5) at 4.3
    assert "the bridge of 14.3" in result.reason
    assert all(each.too_short for each in problems)


# Models


@pytest.fixture(scope="module")
def model():
    rbm = bf.make_rbm(bf.random_parameters(9, 7, seed=4, scale=0.5), "spin", "bernoulli")
    return rbm, log_partition(rbm)


def test_exact_where_it_can_be(model):
    rbm, exact = model
    result = log_partition_interval(rbm)
    assert (result.method, result.standard_error) == ("exact", 0.0)
    assert result.lower == result.estimate == result.upper == exact


def test_annealed_otherwise(model):
    rbm, exact = model
    result = log_partition_interval(rbm, max_units=0, seed=0)
    assert result.method == "annealed"
    assert abs(result.estimate - exact) < 4 * result.standard_error
    assert result.upper - result.estimate == pytest.approx(2 * result.standard_error)
    assert result.estimate - result.lower == pytest.approx(2 * result.standard_error)
    assert "Bennett's bridge" in result.reason
    assert "two directions agree" in result.reason


def test_starts_that_are_not_samples_of_the_model_leave_a_wide_interval(monkeypatch):
    """Two modes; reverse chains start from the lesser one, of 6 % of the probability, which they are slow to leave.

    States that were passed are what the chains start from. Where the library chooses, a population takes their place.
    """
    monkeypatch.setattr(NO_EXACT_SAMPLES, lambda machine: False)
    p = bf.Parameters(np.full((8, 6), 2.0), np.full(8, 0.1), np.full(6, 0.1))
    rbm = bf.make_rbm(p, "spin", "spin")
    exact, widths = log_partition(rbm), []
    for initial in (-np.ones((100, 8)), None):
        for seed in range(2):
            arguments = {"base": np.full(8, 0.2), "burn_in": 1, "initial": initial, "seed": seed}
            result = log_partition_interval(rbm, -np.ones((5, 8)), max_units=0, **arguments)
            assert result.lower < exact < result.upper
            assert result.standard_error == pytest.approx(0.25 * (result.upper - result.lower))
            assert "covers" in result.reason
            widths.append(result.upper - result.lower)
    assert min(widths[:2]) > 1
    assert np.mean(widths[2:]) < 1


@pytest.fixture(scope="module")
def watched():
    """A model of two modes that has trained with its own past, and its log Z."""
    states = np.repeat([[1, 1, 1, 1, 1, 1], [0, 0, 0, 0, 0, 1]], [12, 20], axis=0).astype("float32")
    rbm = tf_wcd.RBMLayer(5, negative_phase="ptt", chains=100, seed=0)
    rbm.compile(bf.sgd(0.2), jit_compile=False)
    rbm.fit(states, batch_size=32, steps_per_epoch=400, verbose=0)
    return rbm, states, log_partition(rbm)


def test_a_ladder_gives_samples_and_log_z(watched, monkeypatch):
    rbm, states, exact = watched
    monkeypatch.setattr(NO_EXACT_SAMPLES, lambda machine: False)
    annealed = tf_wcd.evaluation.annealed_log_partition(rbm, data=states, seed=0)
    assert annealed.reverse_start == "ptt"
    assert annealed.agrees
    assert abs(annealed.reverse_estimate - exact) < 4 * annealed.reverse_standard_error
    result = log_partition_interval(rbm, states, max_units=0, seed=0)
    assert abs(result.estimate - exact) < 4 * result.standard_error
    online = online_log_partition(rbm)
    assert 4.6 * online.standard_error < annealed.upper - annealed.lower  # what the ladder says is more precise
    assert (result.method, result.estimate) == ("online", online.estimate)
    assert result.upper - result.estimate == pytest.approx(2.3 * online.standard_error)
    assert f"agrees (annealed: {annealed.bridge:.2f} between" in result.reason


def test_a_running_log_z_that_knows_nothing_is_left_out(watched, monkeypatch):
    rbm, states, _ = watched
    nothing = tf_wcd.evaluation.OnlineLogPartition(0.0, math.inf)
    monkeypatch.setattr("tf_wcd.evaluation.partition_interval.known_log_partition", lambda rbm: nothing)
    result = log_partition_interval(rbm, states, max_units=0, seed=0)
    assert result.method == "annealed"
    assert "error of inf nats and is left out" in result.reason


def test_of_two_intervals_the_narrower_or_one_that_covers_both():
    annealed = LogPartitionInterval(10.0, 9.0, 11.0, 0.5, "annealed", "By annealing.")
    online = LogPartitionInterval(10.6, 10.4, 10.8, 0.1, "online", "By watching.")
    both = _narrower(annealed, online)
    assert (both.estimate, both.lower, both.upper, both.method) == (10.6, 10.4, 10.8, "online")
    assert "agrees (annealed: 10.00 between 9.00 and 11.00)" in both.reason
    far = LogPartitionInterval(14.0, 13.5, 14.5, 0.25, "annealed", "By annealing.")
    for pair in ((far, online), (online, far)):
        both = _narrower(*pair)
        assert (both.lower, both.upper, both.method) == (10.4, 14.5, "online")
        assert both.standard_error == pytest.approx(4.1 / 4)
        assert "disagree" in both.reason


def test_bad_arguments():
    rbm = bf.make_rbm(bf.random_parameters(5, 3))
    with pytest.raises(ValueError, match="max_units=-1"):
        log_partition_interval(rbm, max_units=-1)
    with pytest.raises(ValueError, match="reverse=False"):
        log_partition_interval(rbm, reverse=False)


def test_the_bound_of_a_stack_has_log_z_bracketed(monkeypatch):
    """The top RBM's chains start from states drawn given the examples, and end on the right side."""
    dbn = de.make_dbn((5, 6, 4), labels=3)
    x = bf.space("bernoulli", 5)
    exact = variational_bound(dbn, x)
    monkeypatch.setattr(NO_EXACT_SAMPLES, lambda machine: False)
    for given in (None, np.arange(32) % 3):
        result = variational_bound(dbn, x, given, max_units=0, burn_in=50)
        log_z = result.annealed
        assert (log_z.reverse_start, log_z.agrees) == ("pt", True)
        assert abs(log_z.bridge - exact.log_partition) < 4 * log_z.bridge_standard_error
        assert log_z.lower < result.log_partition < log_z.upper
        assert result.lower == pytest.approx(result.mean + result.log_partition - log_z.upper)
        assert result.lower < result.mean
