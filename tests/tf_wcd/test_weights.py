"""Weights of negative points."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import tf_wcd
from tf_wcd.negative_phases import WCD, WPCD, NegativePhase
from tf_wcd.negative_phases.points import PersistentChains
from tf_wcd.negative_phases.weights import (
    UniformWeights,
    effective_sample_size,
    resampled,
    systematic_indices,
    tempered_log_weights,
)

LOG_WEIGHTS = tf.nn.log_softmax(tf.constant(np.random.default_rng(0).normal(size=(3, 40)) * [[0.1], [2], [30]]))


@pytest.mark.parametrize("minimum", [0.1, 0.5, 0.9])
def test_tempering_keeps_the_wished_size_and_no_more(minimum):
    before = effective_sample_size(LOG_WEIGHTS).numpy()
    tempered = tempered_log_weights(LOG_WEIGHTS, minimum)
    after = effective_sample_size(tempered).numpy()
    np.testing.assert_allclose(tf.reduce_logsumexp(tempered, axis=-1), 0, atol=1e-12)
    expected = np.maximum(before, minimum * 40)
    # The power is known to 2^-16; steep weights turn that into a relative error of a few thousandths.
    np.testing.assert_allclose(after, expected, rtol=5e-3)
    assert np.all(after >= minimum * 40 - 1e-9)


def test_tempered_weights_are_a_power_of_the_weights():
    tempered = tempered_log_weights(LOG_WEIGHTS, 0.5).numpy()
    for before, after in zip(LOG_WEIGHTS.numpy(), tempered, strict=True):
        slope, intercept = np.polyfit(before, after, 1)
        np.testing.assert_allclose(after, slope * before + intercept, atol=1e-9)
        assert 0 <= slope <= 1


def test_weights_with_enough_points_stay_as_they_are():
    np.testing.assert_allclose(tempered_log_weights(LOG_WEIGHTS[:1], 0.5), LOG_WEIGHTS[:1], atol=1e-12)


def test_one_means_equal_weights():
    np.testing.assert_allclose(tempered_log_weights(LOG_WEIGHTS, 1.0), np.full((3, 40), -np.log(40)), atol=1e-9)


@pytest.mark.parametrize("phase", [WCD, WPCD])
def test_layer_trains_with_tempered_weights(phase, tmp_path):
    rng = np.random.default_rng(1)
    x = (rng.random((50, 60)) < rng.random(60)).astype("float32")
    fractions = []
    for minimum in (0.0, 0.4):
        rbm = tf_wcd.RBMLayer(30, negative_phase=phase(minimum_ess=minimum), seed=0)
        rbm.compile("sgd")
        history = rbm.fit(x, batch_size=50, epochs=20, verbose=0)
        fractions.append(min(history.history["ess"]))
    assert fractions[0] < 0.4 <= fractions[1] + 1e-3
    rbm.save(tmp_path / "rbm.keras")
    assert keras.models.load_model(tmp_path / "rbm.keras").negative_phase.weights.minimum_ess == 0.4


@pytest.mark.parametrize("value", [-0.1, 1.1, True, "half"])
def test_bad_minimum(value):
    with pytest.raises(ValueError, match="`minimum_ess` must be a number from 0 to 1"):
        WPCD(minimum_ess=value)


def test_systematic_resampling_draws_each_point_as_often_as_its_weight_says():
    weights = np.exp(LOG_WEIGHTS.numpy())
    numbers = (np.arange(200) + 0.5) / 200
    counts = np.zeros_like(weights)
    for number in numbers:
        indices = systematic_indices(LOG_WEIGHTS, tf.fill([3], tf.constant(number, "float64"))).numpy()
        drawn = np.stack([np.bincount(row, minlength=40) for row in indices])
        assert np.all(np.abs(drawn - 40 * weights) < 1 + 1e-9)
        counts += drawn / len(numbers)
    np.testing.assert_allclose(counts, 40 * weights, atol=1 / 200 + 1e-9)


def test_resampled_points_are_those_of_the_indices():
    points = tf.random.stateless_normal([3, 40, 2], seed=[0, 1], dtype="float64")
    number = tf.constant([0.1, 0.5, 0.9], "float64")
    indices = systematic_indices(LOG_WEIGHTS, number)
    expected = np.take_along_axis(points.numpy(), indices.numpy()[..., None], axis=1)
    np.testing.assert_array_equal(resampled(points, LOG_WEIGHTS, number), expected)


def test_sources_and_rules_have_metrics():
    class Chains(PersistentChains):
        def metrics(self, state):
            return {"on": tf.reduce_mean(state["visible"])}

    class Ages(UniformWeights):
        def initial_state(self, machine, state, key):
            return {"age": tf.zeros([1])}

        def before(self, machine, state, key):
            return {**state, "age": state["age"] + 1}

        def metrics(self, state):
            return {"age": state["age"][0]}

    rbm = tf_wcd.RBMLayer(3, negative_phase=NegativePhase(Chains(), Ages()), seed=0)
    rbm.compile("sgd")
    history = rbm.fit(np.eye(4, dtype="float32"), batch_size=2, epochs=3, verbose=0).history
    assert history["age"] == [2, 4, 6]
    np.testing.assert_allclose(history["on"][-1], rbm.chain_states()["visible"].mean(), rtol=1e-6)
