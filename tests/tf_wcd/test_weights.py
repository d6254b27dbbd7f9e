"""Weights of negative points."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import tf_wcd
from tf_wcd.negative_phases import WCD, WPCD
from tf_wcd.negative_phases.weights import effective_sample_size, tempered_log_weights

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
