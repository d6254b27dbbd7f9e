"""Parzen windows against TensorFlow Probability and float64."""

import numpy as np
import pytest
import tensorflow_probability as tfp

from tests.support import brute_force as bf
from tf_wcd.evaluation import parzen as parzen_module
from tf_wcd.evaluation import parzen_bandwidth, parzen_log_likelihood


def mixture_log_prob(samples, test, sigma):
    """log-density of each test point, by TFP in float64."""
    n, d = samples.shape
    distribution = tfp.distributions.MixtureSameFamily(
        tfp.distributions.Categorical(logits=np.zeros(n)),
        tfp.distributions.MultivariateNormalDiag(samples.astype("float64"), np.full(d, float(sigma))),
    )
    return distribution.log_prob(test.astype("float64")).numpy()


def long_way(samples, test, sigma):
    """The same in NumPy, from differences: no cancellation."""
    samples, test = samples.astype("float64"), test.astype("float64")
    squares = np.square(test[:, None] - samples[None]).sum(-1)
    log_sums = bf.log_sum_exp(-0.5 * squares / sigma**2, 1)
    return log_sums - np.log(len(samples)) - 0.5 * samples.shape[1] * np.log(2 * np.pi * sigma**2)


def points(n, m, d, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(0.3, 1.0, (n, d)), rng.normal(0.5, 0.8, (m, d))


@pytest.mark.parametrize("sigma", [0.1, 0.7, 5.0])
def test_agrees_with_tfp(sigma):
    samples, test = points(300, 70, 5)
    expected = mixture_log_prob(samples, test, sigma)
    np.testing.assert_allclose(expected, long_way(samples, test, sigma), rtol=1e-10)
    # float32: an error of 1e-6 of the squared norms (about 10), divided by 2 sigma^2.
    tolerance = 1e-5 / (2 * sigma**2) + 1e-5
    value = parzen_log_likelihood(samples, test, sigma, dtype="float32")
    assert isinstance(value, float)
    assert value == pytest.approx(expected.mean(), abs=tolerance)
    np.testing.assert_allclose(
        parzen_log_likelihood(samples, test, sigma, per_point=True, dtype="float32"), expected, rtol=0, atol=tolerance
    )
    wide = parzen_log_likelihood(samples, test, sigma, per_point=True, dtype="float64")
    np.testing.assert_allclose(wide, expected, rtol=1e-12, atol=1e-11)


def test_chunks_and_blocks_of_all_sizes(monkeypatch):
    """Chunks large and small, padded ones, and blocks of test points that do not divide their number."""
    monkeypatch.setattr(parzen_module, "LARGE", 64)
    monkeypatch.setattr(parzen_module, "SMALL", 8)
    samples, test = points(203, 57, 4)
    expected = long_way(samples, test, 0.5)
    for memory_limit in (1, 10_000, 8 * 4 * 4 * 64, 2**20):
        value = parzen_log_likelihood(samples, test, 0.5, per_point=True, memory_limit=memory_limit)
        np.testing.assert_allclose(value, expected, atol=5e-5)


def test_curve_in_one_pass():
    samples, test = points(2500, 40, 3)
    counts = [1, 2, 10, 127, 128, 129, 1024, 1500, 2400]
    curve = parzen_log_likelihood(samples, test, 0.4, counts=counts)
    assert curve.shape == (len(counts),)
    for count, value in zip(counts, curve, strict=True):
        assert value == pytest.approx(long_way(samples[:count], test, 0.4).mean(), abs=2e-5)
    both = parzen_log_likelihood(samples, test, [0.3, 0.4], counts=counts, per_point=True)
    assert both.shape == (2, len(counts), 40)
    np.testing.assert_allclose(both[1].mean(-1), curve, rtol=1e-6)


def test_several_sigmas():
    samples, test = points(300, 70, 5)
    sigmas = np.array([0.05, 0.5, 2.0, 30.0])
    values = parzen_log_likelihood(samples, test, sigmas)
    expected = [long_way(samples, test, sigma).mean() for sigma in sigmas]
    np.testing.assert_allclose(values, expected, rtol=1e-5)


def test_binary_data_are_exact():
    """On zeros and ones float32 has no error but in the final sums, whatever the type of the arrays."""
    rng = np.random.default_rng(0)
    means = rng.uniform(size=784)
    samples, test = ((rng.uniform(size=(n, 784)) < means).astype("uint8") for n in (400, 50))
    expected = long_way(samples, test, 0.2)
    for kind in ("uint8", "bool", "float32", "float64"):
        value = parzen_log_likelihood(samples.astype(kind), test.astype(kind), 0.2, per_point=True)
        np.testing.assert_allclose(value, expected, rtol=1e-6)


def test_grey_data_and_far_from_the_origin():
    rng = np.random.default_rng(0)
    samples, test = rng.uniform(size=(400, 784)), rng.uniform(size=(50, 784))
    expected = long_way(samples, test, 0.2).mean()
    # Squared norms about 65: the error of float32 is at most 6.5e-5 / (2 * 0.04).
    assert parzen_log_likelihood(samples, test, 0.2) == pytest.approx(expected, abs=1e-3)
    shifted = (a + 1000.0 for a in (samples, test))  # centring makes up for the shift
    assert parzen_log_likelihood(*shifted, 0.2) == pytest.approx(expected, abs=1e-3)
    scaled = (1e-4 * a + 0.003 for a in (samples, test))
    assert parzen_log_likelihood(*scaled, 0.2e-4) == pytest.approx(expected - 784 * np.log(1e-4), abs=1e-3)


def test_far_points_neither_overflow_nor_vanish():
    samples = np.array([[0.0, 0.0], [1e3, 0.0]])
    test = np.array([[-5e3, 0.0], [1e3, 1.0]])
    value = parzen_log_likelihood(samples, test, 0.1, per_point=True)
    np.testing.assert_allclose(value, long_way(samples, test, 0.1), rtol=1e-5)
    # A far first sample, then near ones: the running maximum moves by thousands.
    samples = np.concatenate([np.full((2000, 2), 100.0), np.zeros((10, 2))])
    np.testing.assert_allclose(
        parzen_log_likelihood(samples, np.zeros((1, 2)), 0.5), long_way(samples, np.zeros((1, 2)), 0.5)[0], rtol=1e-6
    )


def test_narrow_windows_get_float64():
    """In float32 the rounding of squared distances would be a thousand times sigma^2 here."""
    samples, test = points(200, 30, 3)
    samples, test = 100 * samples, 100 * test + 1e-3
    test[:20] = samples[:20] + 1e-3
    np.testing.assert_allclose(
        parzen_log_likelihood(samples, test, 1e-3, per_point=True), long_way(samples, test, 1e-3), rtol=1e-5
    )


def test_bandwidth_is_the_best_one():
    samples, validation = points(800, 200, 2, seed=1)
    sigma = parzen_bandwidth(samples, validation)
    mesh = sigma * np.array([0.9, 0.95, 1.0, 1.05, 1.1])
    assert np.argmax([long_way(samples, validation, s).mean() for s in mesh]) == 2
    assert parzen_bandwidth(samples, validation, sigmas=[3.0, sigma, 0.01]) == sigma


def test_bandwidth_moves_its_mesh():
    """Samples far wider, or far narrower, than the spread of the validation data suggests."""
    rng = np.random.default_rng(0)
    narrow = parzen_bandwidth(
        np.repeat(np.arange(50.0), 40)[:, None] + rng.normal(0, 1e-3, (2000, 1)),
        np.repeat(np.arange(50.0), 4)[:, None] + rng.normal(0, 1e-3, (200, 1)),
    )
    assert 1e-4 < narrow < 2e-3
    wide = parzen_bandwidth(np.zeros((5, 1)), 1e-2 * rng.normal(size=(500, 1)) + 7.0)
    assert wide == pytest.approx(7.0, rel=0.02)
    with pytest.warns(UserWarning, match=r"among the samples"):
        parzen_bandwidth(np.arange(20.0)[:, None], np.arange(20.0)[:, None])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"sigma": 0.0}, "Received: 0.0"),
        ({"sigma": [0.1, -1.0]}, "positive"),
        ({"sigma": np.nan}, "finite"),
        ({"sigma": "a"}, "Received: 'a'"),
        ({"samples": np.zeros((3, 4))}, r"`samples` must have 2 columns.*\(3, 4\)"),
        ({"samples": np.zeros((0, 2))}, r"`samples` is empty"),
        ({"samples": np.full((3, 2), np.nan)}, "NaN"),
        ({"test": np.zeros(2)}, r"`test`.*shape \(2,\)"),
        ({"test": np.array([["a", "b"]])}, "numbers"),
        ({"counts": [2, 1]}, r"Received: \[2, 1\]"),
        ({"counts": [0, 1]}, "at least 1"),
        ({"counts": [1, 4]}, "number of samples, 3"),
        ({"counts": [1.5]}, "integers"),
        ({"counts": []}, "integers"),
        ({"dtype": "float16"}, "dtype='float16'"),
        ({"memory_limit": 0}, "memory_limit=0"),
    ],
)
def test_bad_arguments(arguments, message):
    with pytest.raises(ValueError, match=message):
        parzen_log_likelihood(**{"samples": np.zeros((3, 2)), "test": np.zeros((2, 2)), "sigma": 1.0, **arguments})


def test_bad_arguments_of_the_bandwidth():
    with pytest.raises(ValueError, match=r"`validation`"):
        parzen_bandwidth(np.zeros((3, 2)), np.zeros(2))
    with pytest.raises(ValueError, match=r"positive"):
        parzen_bandwidth(np.zeros((3, 2)), np.zeros((2, 2)), sigmas=[0.0])
