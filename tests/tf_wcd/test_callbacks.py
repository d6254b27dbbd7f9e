"""ExactKL in Keras' logs, for other callbacks to use."""

import keras
import numpy as np
import pytest

import tf_wcd
from tests import brute_force as bf

STATES, PROBABILITIES = tf_wcd.datasets.load("BS09")


def fit(callbacks, epochs=6, **kwargs):
    rbm = tf_wcd.RBMLayer(6, seed=0, **kwargs)
    rbm.compile(bf.sgd(0.2), jit_compile=False)
    rbm.fit(
        STATES,
        sample_weight=PROBABILITIES,
        batch_size=14,
        steps_per_epoch=50,
        epochs=epochs,
        callbacks=callbacks,
        verbose=0,
    )
    return rbm


def test_values_and_frequency():
    kl = tf_wcd.callbacks.ExactKL(STATES, PROBABILITIES, every=3)
    rbm = fit([kl])
    logs = rbm.history.history
    assert [epoch for epoch, _, _ in kl.history] == [0, 2, 5]
    assert len(logs["kl"]) == 6
    assert logs["kl"][0] == logs["kl"][1]
    log_prob = tf_wcd.evaluation.log_prob(rbm, STATES)
    assert logs["kl"][-1] == pytest.approx(np.mean(np.log(1 / 14) - log_prob), rel=1e-9)
    assert logs["kl"][-1] == tf_wcd.evaluation.kl_divergence(rbm, STATES, PROBABILITIES)
    assert logs["mass"][-1] == pytest.approx(np.exp(log_prob).sum(), rel=1e-9)


def test_other_callbacks_can_use_it(tmp_path):
    kl = tf_wcd.callbacks.ExactKL(STATES)
    csv = keras.callbacks.CSVLogger(tmp_path / "log.csv")
    checkpoint = keras.callbacks.ModelCheckpoint(tmp_path / "best.keras", monitor="kl", mode="min", save_best_only=True)
    stop = keras.callbacks.EarlyStopping("kl", mode="min", baseline=0.0, patience=3)
    board = keras.callbacks.TensorBoard(tmp_path / "board")
    fit([kl, csv, checkpoint, stop, board], epochs=20)
    assert "kl" in (tmp_path / "log.csv").read_text().splitlines()[0]
    assert len(kl.history) == 3  # KL is never below zero, so patience ran out
    best = keras.models.load_model(tmp_path / "best.keras")
    assert tf_wcd.evaluation.kl_divergence(best, STATES, PROBABILITIES) == pytest.approx(
        min(v for _, v, _ in kl.history), rel=1e-6
    )
    assert list((tmp_path / "board").rglob("events*"))


def test_bad_arguments():
    with pytest.raises(ValueError, match=r"every=0"):
        tf_wcd.callbacks.ExactKL(STATES, every=0)
    with pytest.raises(ValueError, match=r"sum 14"):
        tf_wcd.callbacks.ExactKL(STATES, np.ones(14))
    with pytest.raises(ValueError, match=r"9 columns|shape"):
        fit([tf_wcd.callbacks.ExactKL(STATES[:, :8])])
    with pytest.raises(ValueError, match=r"Received: -1.0"):
        fit([tf_wcd.callbacks.ExactKL(2 * STATES - 1)])
