"""Training that diverges."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import tf_wcd

X = np.random.default_rng(0).normal(size=(200, 5)).astype("float32") * [1, 2, 3, 4, 5]


def gaussian(rate, **options):
    rbm = tf_wcd.RBMLayer(4, visible_type="gaussian", seed=0)
    rbm.compile(keras.optimizers.SGD(rate), **options)
    return rbm


@pytest.mark.parametrize("options", [{}, {"steps_per_execution": 1}, {"jit_compile": False}, {"run_eagerly": True}])
def test_a_rate_far_too_high_is_named_and_the_model_stays_finite(options):
    rbm = gaussian(100.0, **options)
    with pytest.raises(tf_wcd.DivergenceError, match=r"kernel.* between updates \d+ and \d+.*\(it was 100\)"):
        rbm.fit(X, batch_size=20, epochs=5, verbose=0)
    assert all(np.isfinite(variable.numpy()).all() for variable in rbm.variables)
    assert int(rbm.optimizer.iterations.numpy()) < 10


def test_data_sets_and_single_steps_are_guarded_too():
    rbm = gaussian(100.0)
    with pytest.raises(tf_wcd.DivergenceError):
        rbm.fit(tf.data.Dataset.from_tensor_slices(X).batch(20), epochs=5, verbose=0)


def test_updates_one_by_one_are_guarded_too(monkeypatch):
    rbm = gaussian(1e30)
    with pytest.raises(tf_wcd.DivergenceError, match="put back to update 0"):
        rbm.train_on_batch(X[:20])
    monkeypatch.setattr(tf_wcd.training.guard, "SECONDS_BETWEEN_CHECKS", 0.0)
    rbm.optimizer.learning_rate.assign(0.001)
    for _ in range(3):
        rbm.train_on_batch(X[:20])
    before = [variable.numpy().copy() for variable in rbm.variables]
    rbm.optimizer.learning_rate.assign(1e30)
    with pytest.raises(tf_wcd.DivergenceError, match=r"put back to update 3.*it was 1e\+30"):
        rbm.train_on_batch(X[:20])
    for variable, kept in zip(rbm.variables, before, strict=True):
        np.testing.assert_array_equal(variable, kept)


def test_between_two_looks_single_updates_cost_nothing_more(monkeypatch):
    monkeypatch.setattr(tf_wcd.training.guard, "SECONDS_BETWEEN_CHECKS", 1e9)
    rbm = gaussian(0.001)
    rbm.train_on_batch(X[:20])
    monkeypatch.setattr(tf_wcd.training.guard.DivergenceGuard, "check", lambda *_, **__: pytest.fail("a look too many"))
    rbm.train_on_batch(X[:20])
    assert int(rbm.optimizer.iterations) == 2


def test_the_model_goes_back_to_the_last_good_moment_and_no_later_callback_sees_the_bad_one(tmp_path):
    rbm = gaussian(0.001)
    rbm.fit(X, batch_size=20, epochs=2, verbose=0)
    before = [variable.numpy().copy() for variable in rbm.variables]
    rbm.optimizer.learning_rate.assign(1e6)
    seen = []
    watch = keras.callbacks.LambdaCallback(
        on_epoch_end=lambda epoch, logs: seen.append(all(np.isfinite(v.numpy()).all() for v in rbm.trainable_variables))
    )
    with pytest.raises(tf_wcd.DivergenceError, match="put back to update 20"):
        rbm.fit(X, batch_size=20, epochs=20, callbacks=[watch], verbose=0)
    assert all(seen)
    for variable, kept in zip(rbm.variables, before, strict=True):
        np.testing.assert_array_equal(variable, kept)
    # It can go on from there.
    rbm.optimizer.learning_rate.assign(0.001)
    rbm.fit(X, batch_size=20, epochs=1, verbose=0)


def test_no_callback_sees_what_the_last_update_of_an_epoch_has_done(tmp_path, monkeypatch):
    """The loss is measured before that update, and the epoch is over before it would be time for a look."""
    monkeypatch.setattr(tf_wcd.training.guard, "SECONDS_BETWEEN_CHECKS", 1e9)
    rbm = gaussian(0.001)
    high = keras.callbacks.LambdaCallback(
        on_epoch_begin=lambda epoch, logs: rbm.optimizer.learning_rate.assign(np.inf if epoch == 2 else 0.001)
    )
    save = keras.callbacks.ModelCheckpoint(tmp_path / "rbm.keras")
    with pytest.raises(tf_wcd.DivergenceError):
        rbm.fit(X, batch_size=200, epochs=5, callbacks=[high, save], verbose=0)
    saved = keras.models.load_model(tmp_path / "rbm.keras")
    assert int(saved.optimizer.iterations) == 2
    assert all(np.isfinite(variable.numpy()).all() for variable in saved.variables)


def test_a_model_that_was_restored_goes_back_to_what_was_restored(tmp_path):
    backup = keras.callbacks.BackupAndRestore(tmp_path, delete_checkpoint=False)
    good = gaussian(0.001)
    good.build((None, 5))
    good.fit(X, batch_size=20, epochs=2, callbacks=[backup], verbose=0)
    rbm = gaussian(0.001)
    rbm.build((None, 5))
    high = keras.callbacks.LambdaCallback(on_epoch_begin=lambda *_: rbm.optimizer.learning_rate.assign(1e6))
    with pytest.raises(tf_wcd.DivergenceError, match="put back to update 20"):
        rbm.fit(X, batch_size=20, epochs=5, callbacks=[backup, high], verbose=0)
    np.testing.assert_array_equal(rbm.kernel, good.kernel)


def test_layers_with_variables_of_the_same_names_are_all_put_back():
    """Both layers of a stack have a `kernel` and biases, and here even the same name."""
    layers = [tf_wcd.RBMLayer(4, visible_type="gaussian", seed=0, name="rbm"), tf_wcd.RBMLayer(3, seed=1, name="rbm")]
    dbn = tf_wcd.DBN(layers)
    for rbm, rate in zip(dbn.rbms, (0.001, 3e38), strict=True):
        rbm.compile(keras.optimizers.SGD(rate, momentum=0.5), run_eagerly=True)
    with pytest.raises(tf_wcd.DivergenceError, match="kernel"):
        dbn.pretrain(X, epochs=2, batch_size=50, verbose=0, start_at_means=False)
    assert [dbn.epochs_done(i) for i in range(2)] == [2, 0]
    for rbm in dbn.rbms:
        assert all(np.isfinite(v.numpy()).all() for v in (*rbm.variables, *rbm.optimizer.variables))
    assert np.any(dbn.rbms[0].visible_bias.numpy() != 0)
    np.testing.assert_array_equal(dbn.rbms[1].visible_bias, np.zeros(4))


def test_ordinary_training_is_left_alone():
    rbm = gaussian(0.001)
    history = rbm.fit(
        X,
        batch_size=20,
        epochs=3,
        verbose=0,
        callbacks=keras.callbacks.CallbackList([], model=rbm, add_history=True, epochs=3),
    )
    assert len(history.history["loss"]) == 3


def test_an_ensemble_goes_on_while_one_member_is_sound():
    def fit(rates):
        ensemble = tf_wcd.RBMEnsemble(4, learning_rates=rates, visible_type="gaussian", seed=0)
        ensemble.compile(keras.optimizers.SGD(1.0))
        ensemble.fit(X, batch_size=20, epochs=5, verbose=0)
        return ensemble

    kernels = fit([100.0, 0.001]).kernel.numpy()
    assert not np.isfinite(kernels[0]).all()
    assert np.isfinite(kernels[1]).all()
    with pytest.raises(tf_wcd.DivergenceError):
        fit([100.0, 200.0])
