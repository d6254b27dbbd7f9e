"""Ensembles: every member learns as a model of its own."""

import keras
import numpy as np
import pandas
import pytest

import tf_wcd
from tests.support import brute_force as bf

pytestmark = pytest.mark.xla

STATES, PROBABILITIES = tf_wcd.datasets.load("BS09")
SPINS = 2 * STATES - 1
RATES = [0.1, 0.02, 0.004]


def ensemble(**kwargs):
    made = tf_wcd.RBMEnsemble(
        7, **{"learning_rates": RATES, "initial_stddev": [0.5, 0.1, 0.01], "visible_type": "spin", "seed": 3, **kwargs}
    )
    schedule = keras.optimizers.schedules.PolynomialDecay(1.0, 60, 0.1)
    made.compile(keras.optimizers.SGD(schedule, momentum=0.9), jit_compile=False)
    return made


def fit(model, **kwargs):
    return model.fit(
        SPINS,
        **{
            "sample_weight": PROBABILITIES,
            "batch_size": 14,
            "steps_per_epoch": 20,
            "epochs": 3,
            "verbose": 0,
            **kwargs,
        },
    )


@pytest.mark.parametrize("centered", [False, True])
def test_members_learn_as_single_models_do(centered):
    """The exact gradient leaves nothing to chance: members and single models take the same path."""
    together = ensemble(negative_phase="exact", centered=centered)
    together.build((None, 9))
    starts = [together.member(i) for i in range(3)]
    fit(together)
    for i, (start, rate) in enumerate(zip(starts, RATES, strict=True)):
        schedule = keras.optimizers.schedules.PolynomialDecay(rate, 60, 0.1 * rate)
        start.compile(keras.optimizers.SGD(schedule, momentum=0.9), jit_compile=False)
        fit(start)
        for name in ("kernel", "visible_bias", "hidden_bias"):
            np.testing.assert_allclose(getattr(together.member(i), name), getattr(start, name), atol=2e-5)


def test_expected_step_of_members_equals_single_models():
    """CD with learning rate zero measures the same mean loss; members have noise of their own."""
    for phase in ("wcd", "wpcd"):
        alike = tf_wcd.RBMEnsemble(4, count=400, initial_stddev=0.0, negative_phase=phase, visible_type="spin", seed=1)
        alike.compile(bf.sgd(0.1), jit_compile=False)
        alike.fit(SPINS, batch_size=14, steps_per_epoch=3, verbose=0)
        kernels = alike.visible_bias.numpy()
        assert len(np.unique(kernels.round(6), axis=0)) > 390  # 400 different paths from one start
        singles = []
        for seed in range(8):
            rbm = tf_wcd.RBMLayer(4, visible_type="spin", negative_phase=phase, kernel_initializer="zeros", seed=seed)
            rbm.compile(bf.sgd(0.1), jit_compile=False)
            for _ in range(3):
                rbm.train_on_batch(SPINS)
            singles.append(rbm.visible_bias.numpy())
        error = kernels.std(0) * np.sqrt(1 / 400 + 1 / 8)
        assert np.all(np.abs(kernels.mean(0) - np.mean(singles, 0)) < 5 * error)


def test_exact_evaluation_of_all_members():
    together = ensemble(hidden_type="spin")
    kl = tf_wcd.callbacks.ExactKL(SPINS, PROBABILITIES)
    history = fit(together, callbacks=[kl]).history
    divergences = tf_wcd.evaluation.kl_divergence(together, SPINS, PROBABILITIES)
    log_z = tf_wcd.evaluation.log_partition(together)
    assert divergences.shape == log_z.shape == (3,)
    for i in range(3):
        assert divergences[i] == pytest.approx(
            tf_wcd.evaluation.kl_divergence(together.member(i), SPINS, PROBABILITIES)
        )
        assert log_z[i] == pytest.approx(tf_wcd.evaluation.log_partition(together.member(i)))
    assert history["kl"][-1] == divergences.min()
    assert kl.history[-1][1].shape == (3,)


def test_a_member_that_is_not_a_number_leaves_the_others_alone():
    together = ensemble(hidden_type="spin")
    kl = tf_wcd.callbacks.ExactKL(SPINS, PROBABILITIES)
    fit(together)
    sound = tf_wcd.evaluation.kl_divergence(together, SPINS, PROBABILITIES)
    kernel = together.kernel.numpy()
    kernel[sound.argmin()] = np.nan
    together.kernel.assign(kernel)
    kl.set_model(together)
    logs = {}
    kl.on_epoch_end(0, logs)
    others = np.arange(3) != sound.argmin()
    divergences = kl.history[0][1]
    np.testing.assert_allclose(divergences[others], sound[others])
    assert np.isnan(divergences[~others]).all()
    assert logs["kl"] == divergences[others].min()


def test_what_evaluates_one_model_says_so():
    together = ensemble()
    together.build((None, 9))
    x = SPINS[:3]  # as many rows as members: nothing in the shapes would give it away
    for call in (
        lambda: tf_wcd.evaluation.log_likelihood(together, x),
        lambda: tf_wcd.evaluation.annealed_log_partition(together),
        lambda: tf_wcd.evaluation.pseudo_log_likelihood(together, x),
        lambda: tf_wcd.mcmc.BlockGibbs(together),
        lambda: tf_wcd.mcmc.replica_exchange(together, [1.0, 0.5]),
    ):
        with pytest.raises(ValueError, match=r"ensemble.member\(index\).*Received: an ensemble of 3 members"):
            call()


def test_initial_kernels_have_their_own_spread():
    made = tf_wcd.RBMEnsemble(200, initial_stddev=[1.0, 0.1, 0.0], seed=0)
    made.build((None, 50))
    np.testing.assert_allclose(made.kernel.numpy().std((1, 2)), [1.0, 0.1, 0.0], rtol=0.03)


@pytest.mark.parametrize("phase", ["wcd", "pcd"])
def test_save_and_go_on(phase, tmp_path):
    together = ensemble(negative_phase=phase)
    fit(together)
    together.save(tmp_path / "ensemble.keras")
    loaded = keras.models.load_model(tmp_path / "ensemble.keras")
    for model in (together, loaded):
        fit(model)
    for a, b in zip(together.variables, loaded.variables, strict=True):
        np.testing.assert_array_equal(a.numpy(), b.numpy())
    assert together(SPINS).shape == (3, 14, 7)


def test_mini_batches_and_chains():
    together = ensemble(negative_phase="wpcd", chains=5)
    fit(together, batch_size=4, steps_per_epoch=None)
    assert together.chain_variables["visible"].shape == (3, 5, 9)
    assert together.member(1).chain_variables["visible"].shape == (5, 9)
    np.testing.assert_array_equal(together.member(1).chain_variables["visible"], together.chain_variables["visible"][1])


def test_bad_arguments():
    with pytest.raises(ValueError, match=r"count=3, lengths \[2\]"):
        tf_wcd.RBMEnsemble(4, count=3, learning_rates=[0.1, 0.2])
    with pytest.raises(ValueError, match="count=0"):
        tf_wcd.RBMEnsemble(4, count=0)
    with pytest.raises(ValueError, match="initial_stddev"):
        tf_wcd.RBMEnsemble(4, count=3, kernel_initializer="zeros")
    made = ensemble()
    made.build((None, 9))
    with pytest.raises(ValueError, match="index=3"):
        made.member(3)


def test_predictions_of_several_batches_are_those_of_each_member():
    frame = pandas.DataFrame(np.random.default_rng(0).integers(0, 2, (10, 3)), columns=list("abc"))
    ensemble = tf_wcd.RBMEnsemble(2, count=3, initial_stddev=1.0, seed=0)
    ensemble.compile("sgd", jit_compile=False)
    ensemble.fit(frame, verbose=0)
    expected = np.stack([ensemble.member(i)(frame) for i in range(3)])
    for rows in (4, 5, 10):  # with a smaller batch at the end, and without
        np.testing.assert_allclose(ensemble.predict(frame, batch_size=rows, verbose=0), expected, rtol=1e-5)
    np.testing.assert_allclose(ensemble.predict_on_batch(frame.to_numpy()), expected, rtol=1e-5)
    assert ensemble.member(1).feature_names_in_.tolist() == ["a", "b", "c"]
