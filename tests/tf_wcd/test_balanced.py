"""Balanced weights: by enumeration, the expected step tends to the exact gradient as the number of points grows."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import tf_wcd
from tests.support import brute_force as bf
from tests.support import importance
from tests.support.importance import PAIRS, check_density, drawn_sets, fitted_exponent, model
from tf_wcd.negative_phases import BCD, CD, WCD
from tf_wcd.training.step import gradient_of, phases_of

SIDES = ("hidden", "visible")
SOME_PAIRS = [PAIRS[i] for i in (0, 3, 9, 11, 17, 19, 24, 25, 26)]  # each kind of units on each side


def log_ratio(side):
    """log P / q of the first point of each set, from the definitions."""

    def ratio(machine, phases, log_z):
        wide, points = machine.cast("float64"), phases.points
        if side == "hidden":
            states, fields, unit = points.hidden, phases.batch.hidden_field, wide.hidden
        else:
            states, fields, unit = points.visible, points.visible_field, wide.visible
        states, fields = tf.cast(states[:, :1], "float64"), tf.cast(fields, "float64")
        energy = wide.hidden_free_energy(states) if side == "hidden" else wide.free_energy(states)
        density = tf.reduce_logsumexp(unit.log_prob(states, fields), axis=-1) - np.log(fields.shape[-2])
        return -energy[:, 0] - log_z - density

    return ratio


@pytest.mark.parametrize("pair", SOME_PAIRS, ids=importance.ids)
def test_weights_are_p_over_what_the_points_were_drawn_from(pair):
    """Means over many sets of 24 points: the plain ones have no bias, the normalised ones little."""
    rbm = model(pair)
    for side in SIDES:
        for steps in (1, 3):
            sets = drawn_sets(rbm, BCD(steps, side=side), 8, 1000, log_ratio(side))
            check_density(sets)
            error = sets.error.std(axis=0) / np.sqrt(len(sets.error))
            assert np.all(np.abs(sets.error.mean(axis=0)) < 4.5 * error + 0.06)


def test_other_weights_do_not_tend_to_the_model():
    """The test above can fail: CD and WCD are far away, however many points there are."""
    rbm = model(("spin", "spin"))
    for other in (CD(), WCD()):
        error = drawn_sets(rbm, other, 200, 30, lambda machine, phases, log_z: np.zeros(30)).error
        assert np.abs(error.mean(axis=0)).max() > 10 * error.std(axis=0).max() / np.sqrt(30) + 0.1


@pytest.mark.slow
@pytest.mark.parametrize("steps", [1, 3])
@pytest.mark.parametrize("side", SIDES)
def test_the_bias_falls_as_one_over_the_number_of_points(side, steps):
    """From 12 to 108 points, for every pair of units, with sample weights.

    Where a model happens to have hardly any bias in the first order, as many have after three steps, it is lost in
    noise, or first falls faster.
    """
    fits = {
        importance.ids(pair): fitted_exponent(model(pair), BCD(steps, side=side), log_ratio(side)) for pair in PAIRS
    }
    for pair, (slope, error) in fits.items():
        print(f"{pair}: {slope:.3f} +- {error:.3f}")
        assert not slope + 1 > 4 * error + 0.15, pair
    slopes = [slope for slope, _ in fits.values() if np.isfinite(slope)]
    print(f"{side} side, k = {steps}: {len(slopes)} of {len(fits)} measured, median {np.median(slopes):.3f}")
    assert len(slopes) >= (27 if steps == 1 else 8)
    if steps == 1:
        assert abs(np.median(slopes) + 1) < 0.07


@pytest.mark.parametrize("num_hidden", [2, 4])
@pytest.mark.parametrize("mixture", [True, False])
def test_weights_equal_their_definition(mixture, num_hidden):
    """P(h_m) / q(h_m) and P(y_m) / q(y_m) by brute force, normalised; with fewer and with more hidden units."""
    p = bf.random_parameters(3, num_hidden)
    machine = bf.make_rbm(p, "bernoulli", "spin").machine()
    x = bf.space("bernoulli", 3)[[1, 0, 2]].astype("float32")
    visible, hidden = bf.space("bernoulli", 3), bf.space("spin", num_hidden)
    joint = np.exp(visible @ p.b[:, None] + (hidden @ p.c)[None] + visible @ p.W @ hidden.T)
    given_x = bf.conditional(x @ p.W + p.c, "spin", hidden)
    for side in ("hidden", "visible"):
        phases = phases_of(
            machine, BCD(side=side, mixture=mixture), tf.constant(x), None, {}, tf.constant([1, 2], tf.uint32)
        )
        h = [np.flatnonzero((hidden == row).all(1))[0] for row in phases.points.hidden.numpy()]
        y = [np.flatnonzero((visible == row).all(1))[0] for row in phases.points.visible.numpy()]
        if side == "hidden":
            own, target = given_x[:, h], joint.sum(0)[h]
        else:
            own, target = (joint[:, h] / joint[:, h].sum(0)).T[:, y], joint.sum(1)[y]
        q = own.mean(0) if mixture else np.diagonal(own)
        weights = target / q
        np.testing.assert_allclose(tf.exp(phases.log_weights), weights / weights.sum(), rtol=1e-4)


def test_ensembles_centring_saving_and_tempering(tmp_path):
    states, probabilities = tf_wcd.datasets.load("BS09")
    ensemble = tf_wcd.RBMEnsemble(9, count=2, negative_phase="bcd", centered=True, seed=0)
    ensemble.compile(keras.optimizers.SGD(0.05), run_eagerly=True)
    history = ensemble.fit(states, sample_weight=probabilities, batch_size=14, steps_per_epoch=5, verbose=0)
    assert 0 < history.history["ess"][-1] <= 1
    assert np.abs(np.diff(ensemble.kernel.numpy(), axis=0)).max() > 0
    rbm = tf_wcd.RBMLayer(9, negative_phase=BCD(2, minimum_ess=0.9, side="visible"), seed=0)
    rbm.compile(keras.optimizers.SGD(0.05), run_eagerly=True)
    assert rbm.fit(states, batch_size=14, epochs=5, verbose=0).history["ess"][-1] >= 0.9 - 1e-3
    rbm.save(tmp_path / "rbm.keras")
    again = keras.models.load_model(tmp_path / "rbm.keras").negative_phase
    assert again.get_config() == {"gibbs_steps": 2, "side": "visible", "minimum_ess": 0.9, "mixture": True}


def test_no_steps_weigh_the_examples_themselves():
    """WCD_0: the gradient of the log of the batch's relative probabilities, by automatic differentiation."""
    p = bf.random_parameters(3, 2)
    rbm = bf.make_rbm(p, negative_phase=WCD(gibbs_steps=0))
    x = tf.constant(bf.space("bernoulli", 3)[[0, 3, 5, 6]], tf.float32)
    target = tf.constant([0.1, 0.2, 0.3, 0.4])
    with tf.GradientTape() as tape:
        loss = -tf.reduce_sum(target * tf.nn.log_softmax(-rbm.free_energy(x)))
    truth = tape.gradient(loss, rbm.kernel.value)
    phases = rbm.update(x, target, {}, tf.constant([1, 2], tf.uint32))
    np.testing.assert_allclose(gradient_of(phases).kernel, truth * float(tf.reduce_mean(target)), atol=1e-6)
    for phase in (CD, BCD):
        with pytest.raises(ValueError, match="gibbs_steps=0"):
            phase(gibbs_steps=0)


def test_bad_arguments():
    with pytest.raises(ValueError, match="side='both'"):
        BCD(side="both")
    rbm = tf_wcd.RBMLayer(
        2,
        negative_phase=tf_wcd.NegativePhase(
            tf_wcd.negative_phases.points.PersistentChains(), tf_wcd.negative_phases.weights.BalancedWeights()
        ),
    )
    rbm.compile("sgd", run_eagerly=True)
    with pytest.raises(ValueError, match="density is known"):
        rbm.fit(np.eye(3), verbose=0)
