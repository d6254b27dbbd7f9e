"""Samples of Deep Belief Networks against their enumerated distributions, and classification by free energy."""

import numpy as np
import pytest
import tensorflow as tf

from tests.support import brute_force as bf
from tests.support import dbn_enumeration as de

N = 40_000


def assert_follows(samples, probabilities):
    counts = np.bincount(bf.index_of(samples), minlength=len(probabilities))
    distance, floor = bf.total_variation(counts, probabilities)
    assert distance < 4 * floor, (distance, floor)
    return floor


@pytest.mark.parametrize("unit", ["bernoulli", "spin"])
@pytest.mark.parametrize("sizes", [(4, 3, 3), (3, 4, 2, 3), (4, 3)])
def test_samples_follow_the_enumerated_distribution(unit, sizes):
    dbn = de.make_dbn(sizes, unit, scale=0.6)
    samples = dbn.sample(N, gibbs_steps=60, seed=1).numpy()
    truth = de.data_distribution(dbn, unit)
    floor = assert_follows(samples, truth)
    # The test can fail: one pass down with the biases of the data left out is further away than allowed.
    other = de.make_dbn(sizes, unit, scale=0.6, seed=5)
    assert 0.5 * np.abs(de.data_distribution(other, unit) - truth).sum() > 8 * floor


@pytest.mark.parametrize("unit", ["bernoulli", "spin"])
def test_class_conditional_samples_follow_the_enumerated_distribution(unit):
    dbn = de.make_dbn((4, 3, 4), unit, labels=3, seed=2, scale=1.0 if unit == "bernoulli" else 0.6)
    classes = [de.class_distribution(dbn, label, unit) for label in range(3)]
    for label, truth in enumerate(classes):
        floor = assert_follows(dbn.sample(N, gibbs_steps=60, labels=label, seed=label).numpy(), truth)
        for other in classes[:label]:
            assert 0.5 * np.abs(other - truth).sum() > 8 * floor
    # Without labels all classes come, in the model's own proportions.
    assert_follows(dbn.sample(N, gibbs_steps=60, seed=7).numpy(), de.data_distribution(dbn, unit))
    # A label for each row, as numbers or one-hot.
    labels = np.arange(N) % 3
    mixed = dbn.sample(N, gibbs_steps=60, labels=labels, seed=8).numpy()
    for label, truth in enumerate(classes):
        assert_follows(mixed[labels == label], truth)
    np.testing.assert_array_equal(mixed, dbn.sample(N, gibbs_steps=60, labels=np.eye(3)[labels], seed=8))


def test_a_labelled_rbm_alone_is_a_dbn_too():
    dbn = de.make_dbn((4, 3), labels=3)
    assert_follows(dbn.sample(N, gibbs_steps=60, labels=2, seed=0).numpy(), de.class_distribution(dbn, 2))
    joint = de.top_joint(dbn, "bernoulli")
    x = bf.space("bernoulli", 4)
    np.testing.assert_allclose(np.exp(dbn.label_log_prob(x)), joint / joint.sum(1, keepdims=True), rtol=2e-5)


def test_untied_generative_weights_are_those_that_generate():
    dbn = de.make_dbn((4, 3, 3))
    before = de.data_distribution(dbn)
    dbn.untie()
    np.testing.assert_allclose(de.data_distribution(dbn), before)
    dbn.generative.kernels[0].assign(bf.random_parameters(4, 3, seed=9).W)
    truth = de.data_distribution(dbn)
    floor = assert_follows(dbn.sample(N, gibbs_steps=60, seed=1).numpy(), truth)
    assert 0.5 * np.abs(truth - before).sum() > 8 * floor


def test_probabilities_are_the_means_of_the_samples():
    dbn = de.make_dbn((5, 3, 3))
    means = dbn.sample(N, gibbs_steps=20, probabilities=True, seed=3).numpy()
    states = dbn.sample(N, gibbs_steps=20, seed=3).numpy()
    assert set(np.unique(states)) == {0, 1}
    assert ((means > 0) & (means < 1)).all()
    assert np.abs((states - means).mean(0)).max() < 4 * 0.5 / np.sqrt(N)
    # Given its mean a state is a coin of its own: it is the mean of the same draw.
    assert np.corrcoef(states[:, 0], means[:, 0])[0, 1] > 0.05


def test_seeds_initial_states_and_labels_at_the_start():
    dbn = de.make_dbn((5, 4, 3), labels=2)
    np.testing.assert_array_equal(dbn.sample(6, gibbs_steps=3, seed=1), dbn.sample(6, gibbs_steps=3, seed=1))
    assert (dbn.sample(50, gibbs_steps=3, seed=1).numpy() != dbn.sample(50, gibbs_steps=3, seed=2).numpy()).any()
    assert (dbn.sample(50, gibbs_steps=3).numpy() != dbn.sample(50, gibbs_steps=3).numpy()).any()
    # No Gibbs step: up from the data and down again, which is the reconstruction of that row.
    row = np.array([1, 0, 1, 1, 0])
    p = bf.parameters_of(dbn.rbms[0])
    h = bf.space("bernoulli", 4)
    q = bf.conditional(row[None] @ p.W + p.c, "bernoulli", h)[0]
    truth = q @ bf.conditional(h @ p.W.T + p.b, "bernoulli", bf.space("bernoulli", 5))
    assert_follows(dbn.sample(N, gibbs_steps=0, initial=row, seed=0).numpy(), truth)


@pytest.mark.parametrize("unit", ["bernoulli", "spin"])
def test_labels_by_free_energy_equal_sums_over_the_hidden_states(unit):
    dbn = de.make_dbn((5, 3, 4), unit, labels=3)
    x = bf.space(unit, 5)
    p, q = (bf.parameters_of(rbm) for rbm in dbn.rbms)
    states = bf.hidden_mean(p, x, unit)
    hidden = bf.space(unit, 4)
    weights = np.stack(
        [
            bf.log_sum_exp(-bf.energy(q, np.hstack([states, np.tile(row, (len(states), 1))]), hidden), 1)
            for row in np.eye(3)
        ],
        axis=1,
    )
    expected = weights - bf.log_sum_exp(weights, 1)[:, None]
    np.testing.assert_allclose(dbn.label_log_prob(x), expected, rtol=1e-4, atol=1e-5)
    # Called on data, the model sums over the labels: E[h | x] = sum_y P(y | x) E[h | x, y].
    means = sum(
        np.exp(expected[:, [y]]) * bf.hidden_mean(q, np.hstack([states, np.tile(np.eye(3)[y], (len(states), 1))]), unit)
        for y in range(3)
    )
    np.testing.assert_allclose(dbn(tf.constant(x, tf.float32)), means, rtol=1e-4, atol=1e-5)


def test_bad_arguments_of_sampling():
    dbn, plain = de.make_dbn((5, 4, 3), labels=2), de.make_dbn((5, 4, 3))
    for model, arguments, message in (
        (dbn, {"num_samples": 0}, r"num_samples.*Received: num_samples=0"),
        (dbn, {"num_samples": 2, "gibbs_steps": -1}, r"Received: gibbs_steps=-1"),
        (dbn, {"num_samples": 2, "labels": 2}, r"0 .. 1. Received: 2 in row 0"),
        (dbn, {"num_samples": 2, "labels": [0, 1, 1]}, r"2 class numbers.*Received: shape \(3,\)"),
        (dbn, {"num_samples": 2, "initial": np.zeros((3, 5))}, r"one row or 2. Received: shape \(3, 5\)"),
        (dbn, {"num_samples": 2, "initial": np.zeros(4)}, r"5 columns.*Received: shape \(1, 4\)"),
        (dbn, {"num_samples": 2, "seed": 0.5}, r"Received: seed=0.5"),
        (plain, {"num_samples": 2, "labels": 0}, r"has no labels.*Received: labels"),
    ):
        with pytest.raises(ValueError, match=message):
            model.sample(**arguments)
    with pytest.raises(ValueError, match=r"has no labels.*Received: visible_type='bernoulli'"):
        plain.label_log_prob(np.zeros((1, 5)))
