"""Normal densities on a half line, far out on both sides, in both precisions."""

import numpy as np
import pytest
import scipy.special
import tensorflow as tf

from tf_wcd.units import half_line
from tf_wcd.xla import compiled

FIELDS = np.concatenate([-np.geomspace(1e6, 1e-3, 60), [0.0], np.geomspace(1e-3, 1e6, 60)])
TOLERANCE = {"float32": 2e-6, "float64": 1e-12}


def truth(field):
    """Log-integral and mean of each field: by functions of SciPy, and on the left by a sum over nodes of Laguerre."""
    y, weights = np.polynomial.laguerre.laggauss(120)
    scale = np.maximum(-field, 4.0)
    terms = weights * np.exp(-(y**2) / (2 * scale[:, None] ** 2))
    total = terms.sum(1)
    near = np.maximum(field, -4.0)
    log_integral = near**2 / 2 + 0.5 * np.log(2 * np.pi) + scipy.special.log_ndtr(near)
    left = field < -4
    return (
        np.where(left, np.log(total / scale), log_integral),
        np.where(left, (terms @ y) / total / scale, near + np.exp(-log_integral)),
    )


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_cumulant_and_mean(dtype):
    field = tf.constant(FIELDS, dtype)
    log_integral, mean = truth(field.numpy().astype("float64"))
    # Where the logarithm passes through 0 its error is that of its argument.
    np.testing.assert_allclose(
        half_line.log_integral(field), log_integral, rtol=TOLERANCE[dtype], atol=TOLERANCE[dtype]
    )
    np.testing.assert_allclose(half_line.mean(field), mean, rtol=TOLERANCE[dtype])


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_quantiles_in_the_far_tail(dtype):
    """P(x > quantile) against log_ndtr in double precision; in the far tail, against its continued fraction."""
    field = np.concatenate([-np.geomspace(1e5, 0.1, 40), np.linspace(0, 6, 13)]).astype(dtype)
    uniform = (np.array([0, 1, 100, 2**20, 2**22, 2**23 - 1000, 2**23 - 2, 2**23 - 1]) + 0.5) / 2**23
    f, u = (a.ravel() for a in np.meshgrid(field, uniform))
    drawn = half_line.sample(tf.constant(f, dtype), tf.constant(u, dtype)).numpy().astype("float64")
    assert (drawn >= 0).all()
    f = f.astype("float64")

    def log_survival(x):
        near = scipy.special.log_ndtr(f - x) - scipy.special.log_ndtr(f)
        t = np.maximum(-f, 20.0)
        far = -x * (t + x / 2) - np.log((t + x + half_line._fraction(t + x, 50)) / (t + half_line._fraction(t, 50)))
        return np.where(f > -20, near, far)

    tolerance = {"rtol": 2e-5, "atol": 4e-7} if dtype == "float32" else {"rtol": 5e-8, "atol": 0}
    np.testing.assert_allclose(np.exp(log_survival(drawn)), 1 - u, **tolerance)


def test_samples_have_the_moments_of_the_density():
    n = 200_000
    field = np.array([-30.0, -9.0, -3.0, 0.0, 2.0], "float32")
    uniform = tf.random.stateless_uniform([n, 5], [0, 1], 2.0**-24, 1 - 2.0**-24)
    drawn = half_line.sample(tf.broadcast_to(tf.constant(field), [n, 5]), uniform).numpy().astype("float64")
    mean, variance = (f(tf.constant(field, tf.float64)).numpy() for f in (half_line.mean, half_line.variance))
    assert np.all(np.abs(drawn.mean(0) - mean) < 4 * np.sqrt(variance / n))
    np.testing.assert_allclose(drawn.var(0), variance, rtol=0.03)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_fields_of_means(dtype):
    mean = tf.constant(np.geomspace(0.011, 1e4, 50), dtype)
    np.testing.assert_allclose(half_line.mean(half_line.field_of(mean)), mean, rtol=50 * TOLERANCE[dtype])
    assert np.isfinite(half_line.field_of(tf.constant([0.0, 1e-30], dtype))).all()


def test_compiled_and_with_gradients():
    """Through XLA the same, and gradients are finite at all fields."""

    def all_of(field, uniform):
        with tf.GradientTape(persistent=True) as tape:
            tape.watch(field)
            cumulant = half_line.log_integral(field)
            mean = half_line.mean(field)
        return (
            cumulant, mean, half_line.sample(field, uniform), tape.gradient(cumulant, field), tape.gradient(mean, field)
        )  # fmt: skip

    arguments = tf.constant(FIELDS, "float32"), tf.fill([len(FIELDS)], 0.3)
    for plain, fast in zip(all_of(*arguments), compiled(all_of, jit_compile=True)(*arguments), strict=True):
        assert np.isfinite(plain).all()
        np.testing.assert_allclose(fast, plain, rtol=1e-5, atol=1e-6)
