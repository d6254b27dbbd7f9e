"""The whole way: train on Bars and Stripes, publish, serve, and compare the samples with the exact distribution."""

import keras
import numpy as np
import pytest

import tf_wcd
from serving import SamplerClient, publish
from tests.brute_force import index_of
from tests.serving.conftest import running
from tests.tf_wcd.test_export import chi_square_z


def serve_and_compare(problem, hidden, epochs, gibbs_steps, count, tmp_path):
    states, probabilities = tf_wcd.datasets.load(problem)
    spins = 2 * states - 1
    initializer = keras.initializers.RandomNormal(stddev=0.1, seed=0)
    rbm = tf_wcd.RBMLayer(
        hidden, visible_type="spin", hidden_type="spin", kernel_initializer=initializer, negative_phase="wcd", seed=0
    )
    schedule = keras.optimizers.schedules.PolynomialDecay(0.01, 2000 * epochs, 0.0)
    rbm.compile(keras.optimizers.SGD(schedule, momentum=0.9))
    rbm.fit(
        spins,
        sample_weight=probabilities,
        batch_size=len(spins),
        steps_per_epoch=2000,
        epochs=epochs,
        verbose=0,
    )
    publish(rbm, tmp_path / "rbm", gibbs_steps=gibbs_steps)
    n = states.shape[1]
    space = 2.0 * ((np.arange(2**n)[:, None] >> np.arange(n - 1, -1, -1)) & 1) - 1
    exact = np.exp(tf_wcd.evaluation.log_prob(rbm, space))
    kl = tf_wcd.evaluation.kl_divergence(rbm, spins, probabilities)
    with (
        running(tmp_path / "rbm") as connection,
        SamplerClient(f"127.0.0.1:{connection.port}", "rbm", timeout=600) as c,
    ):
        samples = np.concatenate(list(c.stream(count, seed=1)))
    counts = np.bincount(index_of(samples > 0), minlength=2**n)
    z = chi_square_z(counts, exact / exact.sum())
    print(f"{problem}: KL of the model {kl:.4f}, {count} samples after {gibbs_steps} steps, chi-square z = {z:.2f}")
    return z


def test_samples_of_a_trained_model(tmp_path):
    assert abs(serve_and_compare("BS09", 12, epochs=1, gibbs_steps=300, count=5000, tmp_path=tmp_path)) < 4


@pytest.mark.slow
def test_100000_samples_of_bars_and_stripes(tmp_path):
    assert abs(serve_and_compare("BS16", 32, epochs=5, gibbs_steps=1000, count=100_000, tmp_path=tmp_path)) < 4
