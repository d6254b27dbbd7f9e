"""Trainings with Jarzynski's weights: the running log Z, its callback, and what goes on after a reload."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import tf_wcd
from tf_wcd.negative_phases import JPCD, NegativePhase
from tf_wcd.negative_phases.weights import JarzynskiWeights

STATES, PROBABILITIES = tf_wcd.datasets.load("BS09")
SPINS = {"visible_type": "spin", "hidden_type": "spin"}
X = (2 * STATES - 1).astype("float32")


@pytest.fixture(scope="module")
def runs():
    """Twenty trainings with seeds and rates of their own, as members of one ensemble."""
    phase = JPCD(observers=500)
    rates = np.linspace(0.003, 0.02, 20)
    ensemble = tf_wcd.RBMEnsemble(
        9, learning_rates=rates, initial_stddev=np.repeat([0.2, 0.3], 10), negative_phase=phase, seed=1, **SPINS
    )
    ensemble.compile(keras.optimizers.SGD(1.0))
    ensemble.fit(X, sample_weight=PROBABILITIES, batch_size=14, steps_per_epoch=100, epochs=3, verbose=0)
    return ensemble


def test_the_online_log_partition_of_twenty_trainings(runs):
    """Each within 4 standard errors of the exact one. With ten groups a z-score is Student's t with 9 degrees of
    freedom, t^2 has the mean 9/7 and the variance 5.3: the sum of 20 is in [6, 67], four standard deviations above
    the mean and, below it, as far as chi-square's 0.1 % quantile."""
    result, exact = tf_wcd.evaluation.online_log_partition(runs), tf_wcd.evaluation.log_partition(runs)
    z = (result.estimate - exact) / result.standard_error
    assert np.all(np.abs(exact - 18 * np.log(2)) > 1)  # the models have learned
    assert np.all(result.standard_error < 0.5)
    assert np.all(np.abs(z) < 4)
    assert 6 < np.sum(z**2) < 67


def test_the_logs_have_the_running_log_partition(runs):
    logs = runs.history.history
    exact = np.mean(tf_wcd.evaluation.log_partition(runs))
    assert logs["online_log_partition"][-1] == pytest.approx(exact, abs=0.5)
    assert 0 < logs["online_log_partition_error"][-1] < 0.3
    assert logs["resamplings"] == sorted(logs["resamplings"])
    assert 0 < logs["ess"][-1] <= 1


def test_members_keep_their_chains_and_observers(runs):
    member = runs.member(3)
    one, all_of_them = (tf_wcd.evaluation.online_log_partition(model) for model in (member, runs))
    assert one.estimate == pytest.approx(all_of_them.estimate[3], abs=1e-5)
    assert one.standard_error == pytest.approx(all_of_them.standard_error[3], rel=1e-4)


def layer(phase="jpcd", **kwargs):
    rbm = tf_wcd.RBMLayer(6, negative_phase=phase, seed=2, **SPINS, **kwargs)
    rbm.compile(keras.optimizers.SGD(0.1, momentum=0.5))
    return rbm


def fit(rbm, **kwargs):
    return rbm.fit(X, batch_size=14, epochs=4, verbose=0, **kwargs).history


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A layer after four epochs with validation, and its file."""
    rbm = layer(JPCD(gibbs_steps=2, chains=30, observers=45, resample_below=0.99))
    callback = tf_wcd.callbacks.OnlineLikelihood(X)
    history = fit(rbm, callbacks=[callback])
    path = tmp_path_factory.mktemp("trained") / "rbm.keras"
    rbm.save(path)
    return rbm, history, path, callback


def test_observers_come_in_whole_groups(trained):
    rbm, history, _, _ = trained
    shapes = {name: value.shape for name, value in rbm.chain_states().items()}
    assert shapes == {
        "visible": (30, 9),
        "energy": (30, 1),
        "hidden": (30, 6),
        "log_weights": (30, 1),
        "resamplings": (),
        "observer_visible": (50, 9),
        "observer_free_energy": (50, 1),
        "observer_log_weights": (50, 1),
        "observer_log_partition": (10, 1),
    }
    assert history["resamplings"][-1] == rbm.chain_states()["resamplings"] > 0
    np.testing.assert_allclose(np.exp(rbm.chain_states()["log_weights"]).sum(), 1, rtol=1e-5)


def test_the_callback_logs_the_validation_log_likelihood(trained):
    rbm, history, _, callback = trained
    exact = tf_wcd.evaluation.log_prob(rbm, X).mean()
    error = history["val_log_likelihood_error"][-1]
    assert 0 < error < 0.5
    assert abs(history["val_log_likelihood"][-1] - exact) < 4 * error
    assert [epoch for epoch, *_ in callback.history] == [0, 1, 2, 3]
    known = tf_wcd.evaluation.online_log_partition(rbm)
    assert history["val_log_likelihood_error"][-1] == known.standard_error
    expected = -tf.reduce_mean(rbm.free_energy(X)) - known.estimate
    np.testing.assert_allclose(history["val_log_likelihood"][-1], expected, rtol=1e-6)


def test_a_training_goes_on_after_a_reload_to_the_same_bits(trained):
    rbm, _, path, _ = trained
    again = keras.models.load_model(path)
    assert again.negative_phase.get_config() == rbm.negative_phase.get_config()
    for model in (rbm, again):
        fit(model)
    for name, value in rbm.chain_states().items():
        np.testing.assert_array_equal(again.chain_states()[name], value, err_msg=name)
    np.testing.assert_array_equal(again.kernel, rbm.kernel)


def test_parameters_changed_by_hand_are_followed(trained):
    """log Z at the parameters as they are now: also those that no update has made."""
    again = keras.models.load_model(trained[2])
    again.kernel.assign(0.5 * again.kernel + 0.1)
    again.visible_bias.assign(again.visible_bias + np.linspace(-0.5, 0.5, 9))
    result = tf_wcd.evaluation.online_log_partition(again)
    assert abs(result.estimate - tf_wcd.evaluation.log_partition(again)) < 4 * result.standard_error
    again.compile(keras.optimizers.SGD(0.0))
    again.fit(X, batch_size=14, verbose=0)  # weighted anew, and moved
    result = tf_wcd.evaluation.online_log_partition(again)
    assert abs(result.estimate - tf_wcd.evaluation.log_partition(again)) < 4 * result.standard_error


def test_chains_start_as_samples_of_a_model_with_a_large_kernel():
    """Annealed, not taken from the model without weights; 4 standard errors of 4000 chains."""
    rbm = layer(
        JPCD(chains=4000, observers=400), kernel_initializer=keras.initializers.RandomNormal(stddev=1.0, seed=3)
    )
    rbm.build((None, 9))
    rbm.visible_bias.assign(np.linspace(-1, 1, 9))
    rbm.prepare(14)
    machine = rbm.machine()
    space = tf_wcd.enumeration.all_states(machine.visible, 9)
    truth = -tf.reduce_sum(tf.nn.softmax(-machine.free_energy(space)) * tf.nn.log_softmax(-machine.free_energy(space)))
    log_p = -machine.free_energy(rbm.chain_states()["visible"]) - float(tf_wcd.evaluation.log_partition(rbm))
    error = float(tf.math.reduce_std(log_p)) / np.sqrt(4000)
    assert abs(float(tf.reduce_mean(-log_p) - truth)) < 4 * error
    result = tf_wcd.evaluation.online_log_partition(rbm)
    assert result.standard_error < 0.2
    assert abs(result.estimate - tf_wcd.evaluation.log_partition(rbm)) < 4 * result.standard_error


def test_started_chains_keep_the_observers():
    rbm = layer()
    rbm.start_chains(X[:5])
    states = rbm.chain_states()
    np.testing.assert_array_equal(states["visible"], X[:5])
    assert states["observer_visible"].shape == (100, 9)
    np.testing.assert_allclose(states["energy"][:, 0], rbm.energy(X[:5], states["hidden"]), rtol=1e-6)


def test_without_kernel_the_log_partition_is_exact():
    rbm = layer(kernel_initializer="zeros", visible_bias_initializer=keras.initializers.Constant(0.3))
    rbm.build((None, 9))
    rbm.prepare(14)
    result = tf_wcd.evaluation.online_log_partition(rbm)
    assert result.estimate == pytest.approx(tf_wcd.evaluation.log_partition(rbm), rel=1e-6)
    assert 0 < result.standard_error < 1e-4


def test_models_without_a_running_log_partition_say_what_to_do():
    rbm = layer(JPCD(observers=0))
    rbm.build((None, 9))
    with pytest.raises(ValueError, match="before its first `fit`"):
        tf_wcd.evaluation.online_log_partition(rbm)
    rbm.prepare(14)
    assert set(rbm.chain_variables) == {"visible", "hidden", "energy", "log_weights", "resamplings"}
    with pytest.raises(ValueError, match=r"negative_phase='jpcd'.*Received: JPCD with observers=0$"):
        tf_wcd.evaluation.online_log_partition(rbm)
    other = layer("pcd")
    with pytest.raises(ValueError, match=r"negative_phase='jpcd'.*annealed_log_partition.*Received: PCD"):
        fit(other, callbacks=[tf_wcd.callbacks.OnlineLikelihood(X)])


def test_bad_arguments():
    for wrong in (-0.1, 1.5, True, "half"):
        with pytest.raises(ValueError, match="`resample_below` must be a number from 0 to 1"):
            JPCD(resample_below=wrong)
    with pytest.raises(ValueError, match="`observers` must be an integer of at least 0"):
        JPCD(observers=-1)
    phase = NegativePhase(tf_wcd.negative_phases.points.Reconstructions(), JarzynskiWeights())
    with pytest.raises(ValueError, match="those of persistent chains"):
        fit(layer(phase))


def test_passes_that_end_with_a_smaller_batch():
    """14 states in batches of 5: the last one has 4, but there are always as many chains."""
    rbm = layer(JPCD(observers=200))
    rbm.fit(X, batch_size=5, epochs=20, verbose=0)
    result, exact = tf_wcd.evaluation.online_log_partition(rbm), tf_wcd.evaluation.log_partition(rbm)
    assert abs(exact - 15 * np.log(2)) > 0.5, "the model has learned"
    assert abs(result.estimate - exact) < 4 * result.standard_error
    assert rbm.chain_states()["visible"].shape == (5, 9)
