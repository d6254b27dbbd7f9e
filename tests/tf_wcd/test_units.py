"""Unit types: their primitives against sums and integrals done the long way."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import tf_wcd
from tf_wcd import units

FIELDS = np.array([-3.0, -0.4, 0.0, 0.7, 2.5])


@pytest.mark.parametrize("name", ["bernoulli", "spin"])
def test_binary_primitives_equal_sums_over_the_states(name):
    unit = units.get(name)
    values = np.array(unit.values)
    weights = np.exp(FIELDS[:, None] * values)
    np.testing.assert_allclose(unit.cumulant(tf.constant(FIELDS)), np.log(weights.sum(1)), rtol=1e-12)
    np.testing.assert_allclose(
        unit.mean(tf.constant(FIELDS)), (weights * values).sum(1) / weights.sum(1), rtol=1e-12, atol=1e-15
    )


@pytest.mark.parametrize("unit", [units.Gaussian(), units.Gaussian(variance=2.5), units.Gaussian(variance=0.3)])
def test_gaussian_primitives_equal_integrals(unit):
    x = np.linspace(-40, 40, 400_001)
    base = unit.base_energy(tf.constant(x)).numpy()
    weights = np.exp(FIELDS[:, None] * x - base) * (x[1] - x[0])
    total = weights.sum(1)
    np.testing.assert_allclose(unit.cumulant(tf.constant(FIELDS)), np.log(total), rtol=1e-9)
    np.testing.assert_allclose(unit.mean(tf.constant(FIELDS)), (weights * x).sum(1) / total, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("unit", [units.Bernoulli(), units.Spin(), units.Gaussian(variance=2.5)])
def test_mean_is_the_derivative_of_the_cumulant(unit):
    field = tf.constant(FIELDS)
    with tf.GradientTape() as tape:
        tape.watch(field)
        total = tf.reduce_sum(unit.cumulant(field))
    np.testing.assert_allclose(tape.gradient(total, field), unit.mean(field), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("unit", [units.Bernoulli(), units.Spin(), units.Gaussian(variance=2.5)])
def test_the_field_of_a_mean_is_the_inverse_of_the_mean(unit):
    field = tf.constant(FIELDS)
    np.testing.assert_allclose(unit.field_of(unit.mean(field)), field, rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("unit", [units.Bernoulli(), units.Spin(), units.Gaussian(variance=2.5)])
def test_samples_have_the_mean_and_the_variance_of_the_unit(unit):
    n = 200_000
    uniform = tf.constant(np.random.default_rng(0).uniform(1e-9, 1 - 1e-9, (n, len(FIELDS))))
    field = tf.broadcast_to(tf.constant(FIELDS), [n, len(FIELDS)])
    drawn = unit.sample(field, uniform).numpy()
    mean = unit.mean(tf.constant(FIELDS)).numpy()
    if unit.values is None:
        variance = np.full(len(FIELDS), 2.5)
    else:
        assert set(np.unique(drawn)) == set(unit.values)
        low, high = unit.values
        variance = (mean - low) * (high - mean)
    assert np.all(np.abs(drawn.mean(0) - mean) < 4 * np.sqrt(variance / n))
    np.testing.assert_allclose(drawn.var(0), variance, rtol=0.05)


def test_extreme_fields_stay_finite():
    field = tf.constant([-1e5, -100.0, 0.0, 100.0, 1e5])
    for unit in (units.Bernoulli(), units.Spin()):
        assert np.isfinite(unit.cumulant(field)).all()
        low, high = unit.values
        np.testing.assert_allclose(unit.mean(field)[:2], low, atol=1e-30)
        np.testing.assert_allclose(unit.mean(field)[3:], high)
        # A state of probability zero never comes, whatever the random number.
        for u in (2.0**-24, 0.5, 1 - 2.0**-24):
            drawn = unit.sample(field, tf.fill([5], tf.constant(u)))
            assert drawn.numpy()[[0, 4]].tolist() == [low, high]


def test_unknown_unit_is_refused_by_name():
    with pytest.raises(ValueError, match=r"bernoulli.*Received: 'binary'"):
        units.get("binary")
    with pytest.raises(ValueError, match="Received: variance=-1"):
        units.Gaussian(variance=-1)


@pytest.mark.parametrize("base", ["bernoulli", "spin"])
def test_labelled_units_equal_sums_over_their_states(base):
    unit = units.Labelled(base, classes=3)
    own = np.array([[a, b] for a in units.get(base).values for b in units.get(base).values])
    states = np.array([[*pair, *label] for pair in own for label in np.eye(3)])
    field = np.array([[0.7, -0.4, 1.2, -0.3, 0.1], [-2.0, 0.3, 0.0, 2.0, -1.0]])
    weights = np.exp(field @ states.T)
    tensor = tf.constant(field)
    np.testing.assert_allclose(unit.total_cumulant(tensor), np.log(weights.sum(1)), rtol=1e-12)
    np.testing.assert_allclose(tf.reduce_sum(unit.cumulant(tensor), -1), np.log(weights.sum(1)), rtol=1e-12)
    probabilities = weights / weights.sum(1, keepdims=True)
    np.testing.assert_allclose(unit.mean(tensor), probabilities @ states, rtol=1e-12)
    np.testing.assert_allclose(unit.mean(unit.field_of(unit.mean(tensor))), unit.mean(tensor), rtol=1e-9)
    # Samples: every state as often as its probability says.
    n = 200_000
    rng = np.random.default_rng(0)
    for row, chances in zip(field, probabilities, strict=True):
        drawn = unit.sample(
            tf.broadcast_to(tf.constant(row), [n, 5]), tf.constant(rng.uniform(1e-9, 1 - 1e-9, (n, 5)))
        ).numpy()
        counts = np.array([(drawn == state).all(1).sum() for state in states])
        assert counts.sum() == n
        assert np.all(np.abs(counts / n - chances) < 4 * np.sqrt(chances * (1 - chances) / n) + 1e-9)


def test_labelled_units_are_saved_and_compared_by_their_settings():
    unit = units.Labelled("spin", 4)
    assert units.Labelled.from_config(unit.get_config()) == unit
    assert unit != units.Labelled("bernoulli", 4)
    for arguments, message in (
        (("binary", 3), r"Received: 'binary'"),
        (("spin", 1), r"Received: classes=1"),
        (("spin", 2.5), r"Received: classes=2.5"),
    ):
        with pytest.raises(ValueError, match=message):
            units.Labelled(*arguments)


@keras.saving.register_keras_serializable(package="tests")
class Coin(tf_wcd.units.Bernoulli):
    """A unit type of a user's own, without settings."""

    name = "coin"


def test_a_users_own_unit_type_without_settings_is_saved(tmp_path):
    rbm = tf_wcd.RBMLayer(3, visible_type=Coin(), hidden_type="spin", seed=np.int64(1))
    rbm.build((None, 2))
    rbm.save(tmp_path / "rbm.keras")
    assert type(keras.models.load_model(tmp_path / "rbm.keras").visible_unit) is Coin
    assert rbm.get_config()["hidden_type"] == "spin"


def test_states_are_told_from_expectations():
    """By the states that a unit lists, for units of one column and of several."""
    groups = tf.constant([[0.0, 1.0, 0.0, 0.5, 0.5, 0.0], [0.0, 0.0, 0.0, 1.0, 1.0, 0.0]])
    assert tf_wcd.units.Potts(3).are_states(groups).numpy().tolist() == [[True] * 3 + [False] * 3, [False] * 6]
    assert tf_wcd.units.get("spin").are_states(groups[:1, :4]).numpy().tolist() == [[False, True, False, False]]
    assert tf_wcd.units.get("gaussian").are_states(groups).numpy().all()
