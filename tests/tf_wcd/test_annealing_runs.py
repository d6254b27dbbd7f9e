"""Paths of temperatures that follow what was dissipated, and populations that are resampled along them."""

import warnings

import numpy as np
import pytest
import tensorflow as tf

from tests.support import brute_force as bf
from tests.support.annealing import assert_bracketed, two_modes
from tf_wcd.evaluation import annealed_log_partition, log_partition, log_prob
from tf_wcd.evaluation.spacing import respaced
from tf_wcd.programs import call_compiled
from tf_wcd.sampling.annealing import annealed_states, sample_base


def test_temperatures_lie_closer_where_more_is_dissipated():
    """Parts of the path that dissipate d with n steps each get steps in proportion to sqrt(d n)."""
    betas = np.linspace(0.0, 1.0, 401)
    middle = (betas[1:] + betas[:-1]) / 2
    friction = 1.0 + 24.0 * (middle > 0.5)  # five times as many temperatures in the second half
    for count in (50, 401):
        spaced = respaced(betas, friction, count)
        assert (spaced[0], spaced[-1], len(spaced)) == (0.0, 1.0, count)
        assert np.all(np.diff(spaced) > 0)
        assert np.mean(spaced > 0.5) == pytest.approx(5 / 6, abs=0.04)  # the edge is smoothed
    again = respaced(respaced(betas, friction, 401), np.ones(400), 401)  # what dissipates evenly stays as it is
    np.testing.assert_allclose(again, respaced(betas, friction, 401), atol=0.01)
    for nothing in (np.zeros(400), -np.ones(400)):
        np.testing.assert_allclose(respaced(betas, nothing, 21), np.linspace(0.0, 1.0, 21), atol=1e-12)


def test_closer_temperatures_bring_the_two_directions_together():
    """A model that changes at one place along the path: temperatures that follow it leave a smaller gap."""
    rbm = bf.make_rbm(bf.Parameters(np.full((40, 12), 0.3), np.full(40, 0.02), np.zeros(12)), "spin", "spin")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        found = annealed_log_partition(rbm, budget=200, chains=400, seed=3)
        even = annealed_log_partition(rbm, temperatures=200, chains=400, seed=3)

    def gap(result):
        return result.reverse_log_weights.mean() - result.log_weights.mean()

    assert found.temperatures == 200
    assert 0 < gap(found) < 0.7 * gap(even)
    assert_bracketed(found, log_partition(rbm))


def test_a_population_has_the_shares_of_modes_that_its_chains_do_not_cross():
    """By enumeration: resampled along the path, chains are samples of the model without a single step at it."""
    rbm, _ = two_modes(depth=1.0)
    machine, space = rbm.machine(), bf.space("spin", 8)
    probabilities = np.exp(log_prob(rbm, space))
    rows, base = 500, tf.constant(np.linspace(-0.3, 0.4, 8), tf.float32)
    betas, counts = tf.linspace(0.0, 1.0, 100), np.zeros(len(space))
    shares = []
    for i in range(20):
        start = sample_base(machine, base, rows, tf.constant([i, 1], tf.uint32))
        end = call_compiled(annealed_states, rbm, base, start, betas, tf.constant([i, 2], tf.uint32)).numpy()
        assert set(np.unique(end)) == {-1.0, 1.0}
        counts += np.bincount((end > 0) @ 2 ** np.arange(8)[::-1], minlength=len(space))
        shares.append(np.mean(end.sum(axis=1) > 0))
    positive = probabilities[space.sum(axis=1) > 0].sum() + 0.5 * probabilities[space.sum(axis=1) == 0].sum()
    assert 0.9 < positive < 0.98  # and the path begins with about as many chains on either side
    assert abs(np.mean(shares) - positive) < 4 * np.std(shares, ddof=1) / np.sqrt(20)
    found, likely = counts / counts.sum(), np.argsort(probabilities)[-3:]
    np.testing.assert_allclose(found[likely], probabilities[likely], atol=4 * np.std(shares) / np.sqrt(20) + 0.01)


def test_a_population_takes_the_place_of_starts_that_are_found_out(monkeypatch):
    """Two modes that neither Gibbs sampling nor a few steps of exchange cross; data of the lesser mode alone."""
    rbm, exact = two_modes(depth=1.5)
    monkeypatch.setattr("tf_wcd.evaluation.model_samples.can_sample_exactly", lambda machine: False)
    data = {"data": -np.ones((5, 8)), "base": np.full(8, 0.2)}
    result = annealed_log_partition(rbm, **data, burn_in=2, seed=1)
    assert result.reverse_start == "annealed"
    assert result.agrees
    assert "if their starts (annealed) are samples of the model" in result.reason
    assert_bracketed(result, exact)
