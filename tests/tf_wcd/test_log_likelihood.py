"""The log-likelihood of data, exact or annealed, by the size of the model."""

import os
import pathlib

import keras
import numpy as np
import pytest

import tf_wcd
from tests.support import brute_force as bf
from tests.support.annealing import assert_bracketed
from tf_wcd.evaluation import annealed_log_partition, log_likelihood, log_prob


def test_log_likelihood_picks_its_method_by_size():
    rbm = bf.make_rbm(bf.random_parameters(12, 10, seed=7))
    x = rbm.sample(50, seed=0).numpy()
    exact = log_likelihood(rbm, x)
    assert (exact.method, exact.standard_error, exact.annealed) == ("exact", 0.0, None)
    np.testing.assert_allclose(exact.values, log_prob(rbm, x), rtol=1e-12)
    assert exact.mean == exact.lower == exact.upper == pytest.approx(exact.values.mean())
    annealed = log_likelihood(rbm, x, max_units=0, seed=0)
    assert annealed.method == "annealed"
    assert annealed.lower - 4 * annealed.annealed.upper_standard_error <= exact.mean
    assert exact.mean <= annealed.upper + 4 * annealed.standard_error
    assert abs(annealed.mean - exact.mean) <= 4 * annealed.standard_error
    assert annealed.log_partition == annealed.annealed.estimate
    large = tf_wcd.RBMLayer(30, seed=0)
    large.build((None, 28))
    assert log_likelihood(large, np.zeros((1, 28)), temperatures=20, burn_in=5).method == "annealed"


def test_bad_arguments_of_log_likelihood():
    rbm = bf.make_rbm(bf.random_parameters(5, 3))
    with pytest.raises(ValueError, match=r"max_units=26"):
        log_likelihood(rbm, np.ones((1, 5)), max_units=26)
    with pytest.raises(ValueError, match=r"0 or 1. Received: 0.5"):
        log_likelihood(rbm, np.full((1, 5), 0.5))
    with pytest.raises(ValueError, match=r"build"):
        annealed_log_partition(tf_wcd.RBMLayer(3))


def mnist():
    here = pathlib.Path(__file__).resolve().parents[2]
    path = pathlib.Path(os.environ.get("TF_WCD_DATA", here.parent / "shared" / "data")) / "mnist.npz"
    if not path.exists():
        pytest.skip(f"needs MNIST as {path.name} in the directory TF_WCD_DATA")
    with np.load(path) as archive:
        return [(archive[name] > 127).astype("float32").reshape(-1, 784) for name in ("x_train", "x_test")]


@pytest.mark.slow
def test_sixteen_hidden_units_on_mnist():
    """Exact and annealed test log-likelihood of a trained model agree within the stated error."""
    train, test = mnist()
    means = np.clip(train.mean(0), 0.01, 0.99)
    rbm = tf_wcd.RBMLayer(16, negative_phase="pcd", chains=100, seed=0)
    rbm.build((None, 784))
    rbm.visible_bias.assign(np.log(means / (1 - means)))
    rbm.compile(keras.optimizers.SGD(0.05))
    rbm.fit(train[:20_000], batch_size=100, epochs=2, verbose=0)
    exact = log_likelihood(rbm, test)
    assert exact.method == "exact"
    independent = float((test * np.log(means) + (1 - test) * np.log1p(-means)).sum(1).mean())
    assert exact.mean > independent + 20  # it has learned: independent pixels have -208
    annealed = log_likelihood(rbm, test, max_units=0, data=train, seed=0)
    assert annealed.annealed.reverse_start == "exact"
    assert annealed.standard_error < 0.2
    assert abs(annealed.mean - exact.mean) <= 4 * annealed.standard_error
    assert_bracketed(annealed.annealed, exact.log_partition)
