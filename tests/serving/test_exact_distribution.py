"""The whole way: train on Bars and Stripes, publish, serve, and compare the samples with the exact distribution."""

import keras
import numpy as np
import pytest

import tf_wcd
from serving import SamplerClient, publish
from tests.serving.conftest import running
from tests.support.brute_force import index_of
from tests.tf_wcd.test_export import chi_square_z


def trained(problem, hidden, negative_phase, learning_rate, stddev, updates, constant=False):
    """A model, with its exact probability of every state."""
    states, probabilities = tf_wcd.datasets.load(problem)
    spins = 2 * states - 1
    initializer = keras.initializers.RandomNormal(stddev=stddev, seed=0)
    rbm = tf_wcd.RBMLayer(
        hidden,
        visible_type="spin",
        hidden_type="spin",
        kernel_initializer=initializer,
        negative_phase=negative_phase,
        seed=0,
    )
    falling = keras.optimizers.schedules.PolynomialDecay(learning_rate, updates, 0.0)
    rbm.compile(keras.optimizers.SGD(learning_rate if constant else falling, momentum=0.9))
    rbm.fit(spins, sample_weight=probabilities, batch_size=len(spins), steps_per_epoch=updates, epochs=1, verbose=0)
    n = states.shape[1]
    space = 2.0 * ((np.arange(2**n)[:, None] >> np.arange(n - 1, -1, -1)) & 1) - 1
    exact = np.exp(tf_wcd.evaluation.log_prob(rbm, space))
    kl = tf_wcd.evaluation.kl_divergence(rbm, spins, probabilities)
    return rbm, space, exact / exact.sum(), kl


def z_of(samples, exact):
    return chi_square_z(np.bincount(index_of(np.concatenate(list(samples)) > 0), minlength=len(exact)), exact)


@pytest.mark.parametrize(
    ("problem", "hidden", "updates", "gibbs_steps", "count"),
    [
        ("BS09", 12, 2000, 300, 5000),
        pytest.param("BS16", 32, 10_000, 1000, 100_000, marks=pytest.mark.slow),
    ],
)
def test_samples_of_a_model_that_mixes(problem, hidden, updates, gibbs_steps, count, tmp_path):
    """Chains that start from the data means come to the model's distribution, where they can: a model that is soft."""
    rbm, _, exact, kl = trained(problem, hidden, "wcd", 0.01, 0.1, updates)
    publish(rbm, tmp_path / "rbm", gibbs_steps=gibbs_steps, start=rbm.data_means)
    with (
        running(tmp_path / "rbm") as connection,
        SamplerClient(f"127.0.0.1:{connection.port}", "rbm", timeout=600) as client,
    ):
        z = z_of(client.stream(count, seed=1), exact)
    print(f"{problem}: KL of the model {kl:.4f}, {count} samples after {gibbs_steps} steps, chi-square z = {z:.2f}")
    assert abs(z) < 4


@pytest.mark.slow
@pytest.mark.parametrize(
    ("settings", "steps", "least_moved", "most_moved"),
    [
        # WCD_1 as in the demonstration: so sharp that no chain leaves its picture within any time that is of use.
        ((80, "wcd", 0.05, 1.0, 20_000), 100, 0.0, 0.01),
        # The exact gradient, stopped early: as good as the truth by eye, and chains still change their picture.
        ((16, "exact", 0.02, 0.1, 500, True), 500, 0.05, 0.5),
    ],
)
def test_100000_samples_of_a_well_trained_model(settings, steps, least_moved, most_moved, tmp_path):
    """Both models have a KL below 0.05. Their chains mix far too slowly to forget where they start: those of `sample`
    start from exact samples by themselves, those of `gibbs` are given some; after so many steps both must be exact."""
    rbm, space, exact, kl = trained("BS16", *settings)
    assert kl < 0.05
    publish(rbm, tmp_path / "rbm", gibbs_steps=steps)
    publish(rbm, tmp_path / "means", gibbs_steps=steps, start=rbm.data_means)
    count, rows = 100_000, 2000
    drawn = np.random.default_rng(2).choice(len(space), count, p=exact)
    with (
        running(tmp_path / "rbm") as connection,
        SamplerClient(f"127.0.0.1:{connection.port}", "rbm", timeout=600) as client,
    ):
        samples = [
            client.gibbs(space[drawn[i : i + rows]], steps, seed=np.arange(i, i + rows)) for i in range(0, count, rows)
        ]
        sampled = z_of(client.stream(count, seed=1), exact)
    with (
        running(tmp_path / "means", model_name="means") as connection,
        SamplerClient(f"127.0.0.1:{connection.port}", "means", timeout=600) as client,
    ):
        unmixed = z_of(client.stream(10_000, seed=1), exact)
    patterns = 2 * tf_wcd.datasets.load("BS16")[0] - 1
    nearest = [np.argmax(np.asarray(x, "float32") @ patterns.T, 1) for x in (space[drawn], np.concatenate(samples))]
    moved = np.mean(nearest[0] != nearest[1])
    z = z_of(samples, exact)
    print(
        f"KL {kl:.4f}; {count} chains, {steps} steps from exact starts: {moved:.2%} changed their picture, "
        f"chi-square z = {z:.2f}; {count} of `sample`: z = {sampled:.2f}; 10000 from the data means: z = {unmixed:.1f}"
    )
    assert abs(z) < 4
    assert abs(sampled) < 4
    assert unmixed > 10
    assert least_moved <= moved <= most_moved
