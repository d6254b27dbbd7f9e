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


# Potts units and several kinds side by side, against sums over all of their states

KINDS = {
    "potts": (units.Potts(3), 6),
    "mixed": (units.Mixed([("spin", 2), (units.Potts(3), 3), ("bernoulli", 1)]), 6),
    "labelled": (units.Labelled("spin", 3), 6),
}


@pytest.mark.parametrize("kind", KINDS)
def test_layers_of_finite_units_equal_sums_over_their_states(kind):
    unit, columns = KINDS[kind]
    states = unit.states_at(tf.range(unit.num_states(columns)), columns, "float64").numpy()
    assert len(np.unique(states, axis=0)) == len(states) == round(2 ** unit.bits(columns))
    assert unit.are_states(tf.constant(states)).numpy().all()
    assert unit.accepts(tf.constant(states)).numpy().all()
    field = np.random.default_rng(1).normal(size=(2, columns))
    weights = np.exp(field @ states.T)
    probabilities = weights / weights.sum(1, keepdims=True)
    tensor = tf.constant(field)
    np.testing.assert_allclose(unit.total_cumulant(tensor), np.log(weights.sum(1)), rtol=1e-12)
    np.testing.assert_allclose(tf.reduce_sum(unit.cumulant(tensor), -1), np.log(weights.sum(1)), rtol=1e-12)
    np.testing.assert_allclose(unit.mean(tensor), probabilities @ states, rtol=1e-12)
    np.testing.assert_allclose(unit.mean(unit.field_of(unit.mean(tensor))), unit.mean(tensor), rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(unit.entropy(tensor), -(probabilities * np.log(probabilities)).sum(1), rtol=1e-9)
    log_prob = unit.log_prob(tf.constant(states)[:, None, :], tensor[None])
    np.testing.assert_allclose(tf.transpose(log_prob), np.log(probabilities), rtol=1e-9)
    n = 100_000
    rng = np.random.default_rng(0)
    for row, chances in zip(field, probabilities, strict=True):
        uniform = tf.constant(rng.uniform(1e-9, 1 - 1e-9, (n, columns)))
        rows = tf.broadcast_to(tf.constant(row), [n, columns])
        drawn = unit.sample(rows, uniform).numpy()
        across = unit.sample_columns(tf.transpose(rows), tf.transpose(uniform))
        np.testing.assert_array_equal(tf.transpose(across), drawn)
        counts = np.array([(drawn == state).all(1).sum() for state in states])
        assert counts.sum() == n
        assert np.all(np.abs(counts / n - chances) < 4.5 * np.sqrt(chances * (1 - chances) / n) + 1e-9)


@pytest.mark.parametrize("kind", [*KINDS, "bernoulli", "gaussian"])
def test_padded_layers_do_the_same_in_their_own_columns(kind):
    unit, columns = KINDS.get(kind, (None, 5))
    if kind == "bernoulli":
        unit = units.Bernoulli()
    if kind == "gaussian":
        unit = units.Gaussian(learn_variance=True).bind({"log_variance": tf.constant([0.1, -0.4, 0.3, 0.0, 1.0])})
    padded = unit.padded(columns, 16)
    assert padded.width % 16 == 0
    field = np.random.default_rng(1).normal(size=(3, columns)).astype("float32")
    wide = np.zeros((3, padded.width), "float32")
    wide[:, padded.positions] = field
    np.testing.assert_allclose(
        padded.unit.mean(tf.constant(wide)).numpy()[:, padded.positions], unit.mean(tf.constant(field)), rtol=1e-6
    )


def test_parameters_of_parts_are_bound_to_their_parts():
    unit = units.Mixed([(units.Gaussian(learn_variance=True), 2), ("bernoulli", 1), (units.Gaussian(0.5, True), 1)])
    initial = unit.initial_parameters(4)
    assert {name: value.shape for name, value in initial.items()} == {"0_log_variance": (2,), "2_log_variance": (1,)}
    bound = unit.bind({"0_log_variance": tf.math.log([2.0, 3.0]), "2_log_variance": tf.math.log([5.0])})
    np.testing.assert_allclose(bound.mean(tf.ones([1, 4])), [[2, 3, 1 / (1 + np.exp(-1)), 5]], rtol=1e-6)
    # d base / d log variance is minus the base energy, of each part by itself.
    states = tf.constant([[1.0, 2.0, 1.0, 3.0], [0.5, 1.0, 0.0, 1.0]])
    gradients = bound.parameter_gradients(states, tf.constant([1.0, 2.0]))
    np.testing.assert_allclose(gradients["0_log_variance"], [-(1 / 4 + 2 * 0.25 / 4), -(4 / 6 + 2 / 6)], rtol=1e-6)
    np.testing.assert_allclose(gradients["2_log_variance"], [-(9 / 10 + 2 / 10)], rtol=1e-6)


def test_columns_that_do_not_fit_are_refused():
    for unit, columns, message in (
        (units.Potts(3), 7, r"'potts' unit takes 3 columns.*Received: 7 columns"),
        (units.Mixed([("spin", 2), (units.Potts(3), 3)]), 6, r"take 5 columns. Received: 6"),
        (units.Labelled("spin", 3), 2, r"at least 4 columns. Received: 2"),
    ):
        with pytest.raises(ValueError, match=message):
            unit.check_columns(columns)
        with pytest.raises(ValueError, match=message):
            tf_wcd.RBMLayer(2, visible_type=unit).build((None, columns))
    with pytest.raises(ValueError, match="At most one part"):
        units.Mixed([("spin", None), ("bernoulli", None)])
    with pytest.raises(ValueError, match=r"multiple of it. Received: 4 columns"):
        tf_wcd.RBMLayer(4, hidden_type=units.Potts(3))


def test_data_that_are_not_one_hot_are_refused():
    rbm = tf_wcd.RBMLayer(2, visible_type=units.Potts(3), seed=0)
    rbm.compile("sgd")
    good = np.eye(3, dtype="float32")[[0, 1, 2, 0]].reshape(2, 6)
    rbm.fit(good, verbose=0)
    bad = good.copy()
    bad[1, 3:] = 0
    received = r"Received: \[0.0, 0.0, 0.0\] at \[1, 3:6\] \(1 such units\)"
    with pytest.raises(ValueError, match=rf"sum 1 in each group of 3 columns.*{received}"):
        rbm.fit(bad, verbose=0)
    with pytest.raises(ValueError, match=r"sum 1 in each group of 3 columns.*row 1 of the batch, column 3: 0"):
        rbm.fit(tf.data.Dataset.from_tensors(bad), verbose=0)


def test_names_of_unit_types(names_as_before):
    units.register("half", lambda: units.Gaussian(variance=0.5))
    assert tf_wcd.RBMLayer(2, visible_type="half").visible_unit == units.Gaussian(variance=0.5)
    mixed = units.Mixed([("half", 2), (units.Potts(4), 4)])
    assert units.Mixed.from_config(mixed.get_config()) == mixed


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("side", ["visible", "hidden"])
def test_exact_likelihood_and_its_gradient_for_units_of_several_columns(kind, side):
    """log Z by brute force, and the exact phase's step against finite differences of the exact likelihood."""
    unit, columns = KINDS[kind]
    types = {"visible_type": unit, "hidden_type": "bernoulli"}
    if side == "hidden":
        types = {"visible_type": "spin", "hidden_type": unit}
    n_v, n_h = (columns, 3) if side == "visible" else (4, columns)
    initializer = keras.initializers.RandomNormal(stddev=0.6, seed=2)
    rbm = tf_wcd.RBMLayer(
        n_h, **types, negative_phase="exact", kernel_initializer=initializer,
        visible_bias_initializer=initializer, hidden_bias_initializer=initializer, dtype="float64",
    )  # fmt: skip
    rbm.build((None, n_v))
    visible, hidden = (
        u.states_at(tf.range(u.num_states(n)), n, "float64").numpy()
        for u, n in ((rbm.visible_unit, n_v), (rbm.hidden_unit, n_h))
    )
    W, b, c = (np.asarray(v) for v in (rbm.kernel, rbm.visible_bias, rbm.hidden_bias))
    joint = (visible @ b)[:, None] + (hidden @ c)[None] + visible @ W @ hidden.T
    log_z = np.log(np.exp(joint).sum())
    assert tf_wcd.evaluation.log_partition(rbm) == pytest.approx(log_z, rel=1e-9)
    np.testing.assert_allclose(rbm.free_energy(visible), -np.log(np.exp(joint).sum(1)), rtol=1e-9)
    x = visible[[1, 3]]
    before = W.copy()
    rbm.compile(keras.optimizers.SGD(1.0))
    likelihood = lambda: tf_wcd.evaluation.log_prob(rbm, x).mean()  # noqa: E731
    slopes = np.zeros_like(W)
    for place in np.ndindex(W.shape):
        values = []
        for change in (1e-5, -1e-5):
            moved = before.copy()
            moved[place] += change
            rbm.kernel.assign(moved)
            values.append(likelihood())
        slopes[place] = (values[0] - values[1]) / 2e-5
    rbm.kernel.assign(before)
    rbm.train_on_batch(x)
    np.testing.assert_allclose(rbm.kernel.numpy() - before, slopes, rtol=1e-4, atol=1e-7)


def test_hidden_units_with_learned_parameters_follow_the_likelihood():
    """Gaussian hidden units: the gradient of their log-variance against finite differences."""
    rng = np.random.default_rng(0)
    rbm = tf_wcd.RBMLayer(
        2, hidden_type=units.Gaussian(0.7, learn_variance=True), negative_phase="exact", dtype="float64",
        kernel_initializer=keras.initializers.RandomNormal(stddev=0.5, seed=1),
    )  # fmt: skip
    rbm.build((None, 3))
    x = rng.integers(0, 2, (4, 3)).astype("float64")
    variable = rbm.hidden_parameters["log_variance"]
    start, slopes = variable.numpy(), []
    for i in range(2):
        values = []
        for change in (1e-5, -1e-5):
            moved = start.copy()
            moved[i] += change
            variable.assign(moved)
            values.append(tf_wcd.evaluation.log_prob(rbm, x).mean())
        slopes.append((values[0] - values[1]) / 2e-5)
    variable.assign(start)
    rbm.compile(keras.optimizers.SGD(1.0))
    rbm.train_on_batch(x)
    np.testing.assert_allclose(variable.numpy() - start, slopes, rtol=1e-4)


def test_states_are_told_from_expectations():
    """By the states that a unit lists, for units of one column and of several."""
    groups = tf.constant([[0.0, 1.0, 0.0, 0.5, 0.5, 0.0], [0.0, 0.0, 0.0, 1.0, 1.0, 0.0]])
    assert tf_wcd.units.Potts(3).are_states(groups).numpy().tolist() == [[True] * 3 + [False] * 3, [False] * 6]
    assert tf_wcd.units.get("spin").are_states(groups[:1, :4]).numpy().tolist() == [[False, True, False, False]]
    assert tf_wcd.units.get("gaussian").are_states(groups).numpy().all()


def test_a_unit_is_held_whole_or_not_at_all():
    rbm = tf_wcd.RBMLayer(2, visible_type=units.Potts(3), seed=0)
    rbm.build((None, 6))
    start = [[1, 0, 0, 0, 1, 0]]
    with pytest.raises(ValueError, match="held in part"):
        rbm.sample(2, gibbs_steps=2, initial=start, clamp=[1, 0, 0, 0, 0, 0])
    drawn = rbm.sample(50, gibbs_steps=5, initial=start, clamp=[1, 1, 1, 0, 0, 0], seed=0).numpy()
    assert (drawn[:, :3] == [1, 0, 0]).all()
    assert (drawn.reshape(50, 2, 3).sum(-1) == 1).all()


def test_unit_types_without_a_configuration_are_told_apart():
    class Scaled(units.Bernoulli):
        def __init__(self, scale):
            self.scale = scale

    assert Scaled(1.0) != Scaled(3.0)
    assert units.Bernoulli() == units.Bernoulli()
