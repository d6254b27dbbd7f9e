"""Warnings of what fits, is likely not meant, and would cost a user hours: each once, and none for ordinary use."""

import warnings

import keras
import numpy as np
import pytest
import tensorflow as tf

import tf_wcd

RNG = np.random.default_rng(0)
X = (RNG.random((60, 5)) < [0.1, 0.3, 0.5, 0.7, 0.9]).astype("float32")
REAL = RNG.normal(size=(200, 3)).astype("float32")


def compiled(rbm, rate=0.01):
    rbm.compile(keras.optimizers.SGD(rate), run_eagerly=True)
    return rbm


def said_by(call):
    """The texts of the warnings of a call."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        call()
    return [str(warning.message) for warning in caught if issubclass(warning.category, UserWarning)]


@pytest.mark.parametrize(
    "callback",
    [
        keras.callbacks.EarlyStopping("loss"),
        keras.callbacks.ReduceLROnPlateau("val_loss"),
        keras.callbacks.ModelCheckpoint("rbm.keras", monitor="loss", save_best_only=True),
    ],
)
def test_a_callback_that_watches_the_loss_is_named_once(callback, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rbm = compiled(tf_wcd.RBMLayer(3, seed=0))
    fit = lambda: rbm.fit(X, batch_size=60, validation_data=X, callbacks=callback, verbose=0)  # noqa: E731
    (text,) = said_by(fit)
    assert "pseudo_log_likelihood" in text
    assert text.endswith(f"Received: {type(callback).__name__}(monitor={callback.monitor!r})")
    assert said_by(fit) == []


def test_real_units_which_have_no_pseudo_likelihood_are_told_of_another_metric():
    rbm = compiled(tf_wcd.RBMLayer(2, visible_type="gaussian", seed=0), rate=1e-3)
    stop = keras.callbacks.EarlyStopping("loss")
    (text,) = said_by(lambda: rbm.fit(REAL, batch_size=60, callbacks=[stop], verbose=0))
    assert "AnnealedLikelihood(x_valid)" in text
    assert "monitor='log_likelihood', mode='max'" in text
    measure = tf_wcd.callbacks.AnnealedLikelihood(REAL)
    better = keras.callbacks.EarlyStopping("log_likelihood", mode="max")
    assert said_by(lambda: rbm.fit(REAL, batch_size=60, callbacks=[measure, better], verbose=0)) == []


def test_callbacks_that_watch_something_else_are_left_alone(tmp_path):
    measure = tf_wcd.callbacks.PseudoLikelihood(X)
    stop = keras.callbacks.EarlyStopping("pseudo_log_likelihood", mode="max")
    save = keras.callbacks.ModelCheckpoint(tmp_path / "rbm.keras")
    rbm = compiled(tf_wcd.RBMLayer(3, seed=0))
    assert said_by(lambda: rbm.fit(X, batch_size=60, epochs=2, callbacks=[measure, stop, save], verbose=0)) == []


def test_the_loss_of_a_discriminative_model_is_its_objective():
    rbm = compiled(tf_wcd.RBMLayer(3, classes=2, objective="discriminative", seed=0))
    stop = keras.callbacks.EarlyStopping("loss")
    assert said_by(lambda: rbm.fit(X, X[:, 0], batch_size=60, callbacks=[stop], verbose=0)) == []


def test_pre_training_warns_of_callbacks_for_the_whole_and_for_a_layer():
    dbn = tf_wcd.DBN([compiled(tf_wcd.RBMLayer(3, seed=0)), compiled(tf_wcd.RBMLayer(2, seed=1))])
    stop = keras.callbacks.EarlyStopping("loss")
    assert len(said_by(lambda: dbn.pretrain(X, batch_size=60, callbacks=[stop], verbose=0))) == 1
    assert len(said_by(lambda: dbn.pretrain(X, batch_size=60, epochs=2, layer_callbacks={1: stop}, verbose=0))) == 1


@pytest.mark.parametrize(
    ("x", "said"),
    [
        (REAL, ""),
        (0.3 * np.abs(REAL), ""),  # grey levels, say
        (REAL * [1, 1, 0], ""),  # a column that is constant
        (REAL[:1], ""),
        (REAL * [1, 1, 100], "tiny learning rates"),
        (REAL * 0.01, "standardised data"),
        (REAL + np.array([0, 30, 0]), "means up to 30"),
    ],
)
def test_gaussian_data_far_from_standardised(x, said):
    rbm = compiled(tf_wcd.RBMLayer(2, visible_type="gaussian", seed=0), rate=1e-6)
    texts = said_by(lambda: rbm.fit(x, batch_size=200, verbose=0))
    assert len(texts) == bool(said)
    assert said in "".join(texts)


def test_the_variance_of_a_unit_is_the_scale_of_its_data_and_mixed_units_look_at_their_own_columns():
    wide = tf_wcd.units.Gaussian(variance=1e4)
    assert wide.doubt(100 * REAL) == ""
    assert "standardised" in wide.doubt(REAL)
    holes = np.where(RNG.random(REAL.shape) < 0.2, np.nan, REAL)
    holes[:, 1] = np.nan
    gaussian = tf_wcd.units.get("gaussian")
    assert gaussian.doubt(holes) == ""
    assert "tiny learning rates" in gaussian.doubt(100 * holes)
    mixed = tf_wcd.units.Mixed([("bernoulli", 5), ("gaussian", 3)])
    assert mixed.doubt(np.hstack([X[:60], REAL[:60]])) == ""
    assert "means up to 30" in mixed.doubt(np.hstack([X[:60], REAL[:60] + 30]))


def test_chains_that_stay_as_few_as_the_first_batch_had_examples():
    rbm = compiled(tf_wcd.RBMLayer(3, negative_phase="pcd", seed=0))
    assert said_by(lambda: rbm.fit(X[:10], batch_size=10, verbose=0)) == []
    (text,) = said_by(lambda: rbm.fit(X, batch_size=50, verbose=0))
    assert "has 10 points" in text
    assert "`chains=100`" in text
    assert rbm.chain_states()["visible"].shape == (10, 5)
    assert said_by(lambda: rbm.fit(X, batch_size=19, verbose=0)) == []  # nearly as many
    asked_for = compiled(tf_wcd.RBMLayer(3, negative_phase="pcd", chains=10, seed=0))
    assert said_by(lambda: [asked_for.fit(X, batch_size=n, verbose=0) for n in (10, 50)]) == []


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_learning_rate_beyond_reason_is_divergence_for_binary_units_too(dtype):
    rbm = tf_wcd.RBMLayer(3, seed=0, dtype=dtype)
    rbm.compile(keras.optimizers.SGD(1e30))
    with pytest.raises(tf_wcd.DivergenceError, match=r"kernel.*larger than .*it was 1e\+30"):
        rbm.fit(X, batch_size=20, epochs=3, verbose=0)
    assert np.abs(rbm.kernel).max() < 1


def test_no_callback_sees_parameters_beyond_reason(monkeypatch):
    monkeypatch.setattr(tf_wcd.training.guard, "SECONDS_BETWEEN_CHECKS", 1e9)
    rbm, seen = compiled(tf_wcd.RBMLayer(3, seed=0), 1e30), []
    watch = keras.callbacks.LambdaCallback(on_epoch_end=lambda epoch, logs: seen.append(epoch))
    with pytest.raises(tf_wcd.DivergenceError):
        rbm.fit(X, batch_size=60, epochs=2, callbacks=[watch], verbose=0)
    assert seen == []


def test_large_parameters_of_real_units_are_no_divergence():
    """A variance of 1e-8 has biases of 1e8 times the means."""
    rbm = compiled(tf_wcd.RBMLayer(2, visible_type=tf_wcd.units.Gaussian(variance=1e-8), seed=0), 0.0)
    rbm.start_at_means(1e-4 * REAL + [1, 0, 0])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        rbm.fit(1e-4 * REAL + [1, 0, 0], batch_size=200, verbose=0)
    assert np.abs(rbm.visible_bias).max() > 1 / np.finfo("float32").eps


@pytest.mark.parametrize(
    "options", [{}, {"visible_type": tf_wcd.units.Gaussian(learn_variance=True)}, {"classes": 2}], ids=str
)
def test_fine_tuning_has_a_gradient_for_every_variable(options):
    rbm = tf_wcd.RBMLayer(4, seed=0, **options)
    network = keras.Sequential([keras.Input((5,)), rbm, keras.layers.Dense(2)])
    network.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True), jit_compile=False)
    before = [variable.numpy().copy() for variable in rbm.trainable_variables]
    assert said_by(lambda: network.fit(X, X[:, 0].astype(int), verbose=0)) == []
    moved = {
        variable.name: bool((variable.numpy() != old).any())
        for variable, old in zip(rbm.trainable_variables, before, strict=True)
    }
    assert moved["kernel"]
    if not options.get("classes"):  # with labels the biases of these count
        assert not moved["visible_bias"]


def test_the_gradient_of_what_is_not_used_is_zero_and_the_output_is_as_without_it():
    rbm = tf_wcd.RBMLayer(4, seed=0, visible_bias_initializer="ones")
    with tf.GradientTape() as tape:
        mean = rbm(X)
    np.testing.assert_array_equal(mean, tf.sigmoid(X @ rbm.kernel + rbm.hidden_bias))
    np.testing.assert_array_equal(tape.gradient(mean, rbm.visible_bias.value), np.zeros(5))
