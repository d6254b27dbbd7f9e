"""Values that callbacks put into Keras' logs, for other callbacks to use."""

import keras
import numpy as np
import pytest

import tf_wcd
from tests.support import brute_force as bf

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


def test_pseudo_likelihood():
    cheap = tf_wcd.callbacks.PseudoLikelihood(STATES)
    full = tf_wcd.callbacks.PseudoLikelihood(STATES, every=2, bits=None)
    full.names = ("all_bits",)  # both in one run
    rbm = fit([cheap, full], epochs=4)
    assert [epoch for epoch, _ in cheap.history] == [0, 1, 2, 3]
    assert [epoch for epoch, _ in full.history] == [0, 1, 3]
    logs = rbm.history.history
    evaluate = tf_wcd.evaluation.pseudo_log_likelihood
    assert logs["all_bits"][-1] == evaluate(rbm, STATES).mean()
    assert logs["pseudo_log_likelihood"][-1] == evaluate(rbm, STATES, bits=1, seed=0).mean()
    assert logs["all_bits"][-1] > logs["all_bits"][0]


def test_annealed_likelihood_exact_and_estimated():
    exact = tf_wcd.callbacks.AnnealedLikelihood(STATES, every=2)
    estimated = tf_wcd.callbacks.AnnealedLikelihood(STATES, every=3, max_units=0, temperatures=100)
    estimated.names = ("estimate", "log_z", "error")
    rbm = fit([exact, estimated])
    logs = rbm.history.history
    assert [entry[0] for entry in exact.history] == [0, 1, 3, 5]
    assert [entry[0] for entry in estimated.history] == [0, 2, 5]
    log_prob = tf_wcd.evaluation.log_prob(rbm, STATES)
    assert logs["log_likelihood"][-1] == pytest.approx(log_prob.mean(), rel=1e-9)
    assert logs["log_partition"][-1] == tf_wcd.evaluation.log_partition(rbm)
    assert logs["log_partition_error"][-1] == 0
    assert logs["error"][-1] > 0
    assert abs(logs["estimate"][-1] - log_prob.mean()) < 4 * logs["error"][-1]
    assert logs["log_z"][-1] == pytest.approx(logs["log_partition"][-1], abs=4 * logs["error"][-1])


def test_parzen():
    parzen = tf_wcd.callbacks.Parzen(STATES, sigma=0.3, every=3, num_samples=200, gibbs_steps=20, seed=4)
    rbm = fit([parzen])
    assert [epoch for epoch, _ in parzen.history] == [0, 2, 5]
    samples = rbm.sample(200, gibbs_steps=20, seed=4)
    expected = tf_wcd.evaluation.parzen_log_likelihood(samples, STATES, 0.3)
    assert rbm.history.history["parzen_log_likelihood"][-1] == expected


def test_callbacks_do_not_change_the_training():
    plain = fit([])
    watched = fit(
        [
            tf_wcd.callbacks.ExactKL(STATES),
            tf_wcd.callbacks.PseudoLikelihood(STATES),
            tf_wcd.callbacks.AnnealedLikelihood(STATES, every=2, max_units=0, temperatures=20),
            tf_wcd.callbacks.Parzen(STATES, every=2, num_samples=10, gibbs_steps=2),
        ]
    )
    np.testing.assert_array_equal(plain.kernel.numpy(), watched.kernel.numpy())


def test_checkpoint_by_pseudo_likelihood(tmp_path):
    pseudo = tf_wcd.callbacks.PseudoLikelihood(STATES, bits=None)
    checkpoint = keras.callbacks.ModelCheckpoint(
        tmp_path / "best.keras", monitor="pseudo_log_likelihood", mode="max", save_best_only=True
    )
    fit([pseudo, checkpoint])
    best = keras.models.load_model(tmp_path / "best.keras")
    value = tf_wcd.evaluation.pseudo_log_likelihood(best, STATES).mean()
    assert value == pytest.approx(max(v for _, v in pseudo.history), rel=1e-6)


@pytest.mark.parametrize("name", ["PseudoLikelihood", "AnnealedLikelihood", "Parzen"])
def test_bad_arguments_of_the_others(name):
    make = getattr(tf_wcd.callbacks, name)
    with pytest.raises(ValueError, match=r"every=1.5"):
        make(STATES, every=1.5)
    with pytest.raises(ValueError, match=r"`x`.*9 columns|`x`.*shape|shape \(14, 8\)"):
        fit([make(STATES[:, :8])])


def test_bad_sigma():
    with pytest.raises(ValueError, match=r"sigma=0"):
        tf_wcd.callbacks.Parzen(STATES, sigma=0)
