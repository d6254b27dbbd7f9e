"""The variational bound against sums over all paths, the identity of the transposed layer, and what training does."""

import math

import numpy as np
import pytest

import tf_wcd
from tests.support import brute_force as bf
from tests.support import dbn_enumeration as de
from tf_wcd.evaluation import variational_bound


@pytest.mark.parametrize("unit", ["bernoulli", "spin"])
@pytest.mark.parametrize("sizes", [(4, 3, 2), (3, 2, 3, 2), (4, 3)])
@pytest.mark.parametrize("labels", [0, 3])
def test_the_exact_bound_equals_the_sum_over_all_paths(unit, sizes, labels):
    dbn = de.make_dbn(sizes, unit, labels=labels)
    if len(sizes) > 2:
        dbn.untie()
        dbn.generative.kernels[0].assign_add(0.1 * bf.random_parameters(*sizes[:2], seed=8).W)
    x = bf.space(unit, sizes[0])
    result = variational_bound(dbn, x)
    assert (result.method, result.log_partition_method, result.standard_error) == ("exact", "exact", 0.0)
    np.testing.assert_allclose(result.values, de.bound(dbn, x, unit), rtol=1e-6)
    # It bounds the likelihood from below, and touches it where the stack is a single RBM.
    gap = np.log(de.data_distribution(dbn, unit)) - result.values
    assert gap.min() > (0 if len(sizes) > 2 else -1e-6)
    if len(sizes) == 2:
        assert np.abs(gap).max() < 1e-6
    if labels:
        given = np.arange(len(x)) % labels
        expected = [de.bound(dbn, row[None], unit, label)[0] for row, label in zip(x, given, strict=True)]
        np.testing.assert_allclose(variational_bound(dbn, x, given).values, expected, rtol=1e-6)


@pytest.mark.parametrize("labels", [0, 3])
def test_sampled_and_annealed_bounds_agree_with_the_exact_one(labels):
    dbn = de.make_dbn((5, 4, 4), labels=labels)
    x = bf.space("bernoulli", 5)
    given = np.arange(32) % 3 if labels else None
    exact = variational_bound(dbn, x, given)
    sampled = variational_bound(dbn, x, given, exact=False, samples=400, seed=3)
    assert sampled.method == "sampled"
    assert 0 < sampled.standard_error < 0.05
    assert abs(sampled.mean - exact.mean) < 4 * sampled.standard_error
    assert sampled.lower == sampled.mean
    annealed = variational_bound(dbn, x, given, max_units=0, chains=500, temperatures=300)
    assert annealed.log_partition_method == "annealed"
    assert annealed.annealed.upper == pytest.approx(annealed.mean + annealed.log_partition - annealed.lower)
    assert abs(annealed.mean - exact.mean) < 4 * annealed.standard_error + 1e-4


def test_the_same_seed_gives_the_same_bound():
    dbn = de.make_dbn((5, 4, 4))

    def bound(seed):
        return variational_bound(
            dbn, np.eye(5), exact=False, samples=2, max_units=0, chains=20, temperatures=50, burn_in=5, seed=seed
        )

    same, other, chance = [bound(3), bound(3)], bound(3 + 2**32), bound(None)
    assert same[0].mean == same[1].mean
    for result in (other, chance):
        assert result.log_partition != same[0].log_partition
        assert (result.values + result.log_partition != same[0].values + same[0].log_partition).any()


def two_layers(unit="bernoulli", **kwargs):
    """A trained-looking RBM, and a second one of the transposed shape on top of it."""
    below = bf.make_rbm(bf.random_parameters(5, 4, seed=3), unit, unit, name="below")
    above = tf_wcd.RBMLayer(5, unit, unit, name="above", seed=1, **kwargs)
    dbn = tf_wcd.DBN([below, above])
    dbn.build((None, 5))
    return dbn


@pytest.mark.parametrize("unit", ["bernoulli", "spin"])
def test_a_transposed_layer_leaves_the_bound_at_the_likelihood_of_the_rbm_below(unit):
    dbn = two_layers(unit)
    x = bf.space(unit, 5)
    alone = tf_wcd.evaluation.log_prob(dbn.rbms[0], x)
    assert abs(variational_bound(dbn, x).mean - alone.mean()) > 0.1
    dbn.initialize_transposed(1)
    np.testing.assert_allclose(variational_bound(dbn, x).values, alone, atol=1e-5)
    np.testing.assert_allclose(de.bound(dbn, x, unit), alone, atol=1e-5)
    np.testing.assert_allclose(np.log(de.data_distribution(dbn, unit)), alone, atol=1e-5)


def test_training_the_transposed_layer_never_lowers_the_bound():
    """The exact gradient on the exact distribution of its inputs climbs the bound, step by step."""
    dbn = two_layers(negative_phase="exact")
    dbn.initialize_transposed(1)
    x = bf.space("bernoulli", 5)[[3, 5, 9, 18, 30, 31]]
    target = np.array([0.3, 0.2, 0.2, 0.1, 0.1, 0.1])
    p = bf.parameters_of(dbn.rbms[0])
    inputs = bf.space("bernoulli", 4)
    weights = target @ bf.conditional(x @ p.W + p.c, "bernoulli", inputs)
    dbn.rbms[1].compile(bf.sgd(0.2))
    bounds = [float(target @ variational_bound(dbn, x).values)]
    for _ in range(30):
        dbn.rbms[1].fit(inputs, sample_weight=weights, batch_size=16, verbose=0)
        bounds.append(float(target @ variational_bound(dbn, x).values))
    assert np.diff(bounds).min() > 0
    assert bounds[-1] > bounds[0] + 0.04


def test_pre_training_on_samples_raises_the_bound():
    """The same through `pretrain`, with samples of the inputs and of the negative phase."""
    dbn = two_layers(negative_phase="pcd", chains=200)
    dbn.initialize_transposed(1)
    rows = np.repeat(bf.space("bernoulli", 5)[[3, 5, 9, 18, 30, 31]], [30, 20, 20, 10, 10, 10], axis=0)
    start = variational_bound(dbn, rows).mean
    for rbm in dbn.rbms:
        rbm.compile(bf.sgd(0.05))
    dbn.pretrain(rows, epochs=(0, 60), batch_size=100, inputs="samples", verbose=0)
    assert variational_bound(dbn, rows).mean > start + 0.03


def test_gaussian_data():
    rbm = bf.make_rbm(bf.random_parameters(3, 4), "gaussian", "bernoulli")
    dbn = tf_wcd.DBN([rbm, tf_wcd.RBMLayer(2, seed=0)])
    x = np.random.default_rng(0).normal(size=(20, 3))
    dbn.build((None, 3))
    # By hand: sum over h of Q (log N(x; mean, 1) - log Q + log P_top).
    p, h = bf.parameters_of(rbm), bf.space("bernoulli", 4)
    q = bf.conditional(x @ p.W + p.c, "bernoulli", h)
    mean = h @ p.W.T + p.b
    log_p = -0.5 * np.square(x[:, None] - mean[None]).sum(-1) - 1.5 * math.log(2 * math.pi)
    expected = (q * (log_p - np.log(q) + np.log(de.top_joint(dbn, "bernoulli")))).sum(1)
    np.testing.assert_allclose(variational_bound(dbn, x).values, expected, rtol=1e-5)


def test_bad_arguments():
    dbn = de.make_dbn((4, 13, 3))
    x = np.zeros((2, 4))
    for arguments, message in (
        ({"exact": True}, r"at most 12 units. Received: \[13\]"),
        ({"samples": 0}, r"Received: samples=0"),
        ({"seed": 1.5}, r"Received: seed=1.5"),
        ({"labels": [0, 1]}, r"no labels"),
    ):
        with pytest.raises(ValueError, match=message):
            variational_bound(dbn, x, **arguments)
    with pytest.raises(ValueError, match=r"states of 'bernoulli' units.*0.5"):
        variational_bound(dbn, x + 0.5)
