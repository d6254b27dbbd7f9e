"""Models with rectified, double rectified, Gaussian and binomial units: training, normalisers, files, networks."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import tf_wcd
from tests.support import quadrature as quad
from tf_wcd import units
from tf_wcd.normaliser import coupling
from tf_wcd.training.step import gradient_of, phases_of


def data(unit, rows=200):
    """Two clusters of rows, which a model of independent units does not know."""
    rng = np.random.default_rng(0)
    cluster = rng.integers(0, 2, rows)[:, None] == np.array([0, 1, 0, 1])
    if unit in ("gaussian", "relu"):
        return np.abs(np.where(cluster, 2.0, 0.3) + 0.3 * rng.normal(size=cluster.shape)).astype("float32")
    if unit == "binomial":
        return rng.binomial(5, np.where(cluster, 0.8, 0.2)).astype("float32")
    return (rng.random(cluster.shape) < np.where(cluster, 0.9, 0.1)).astype("float32")


MODELS = [
    ("bernoulli", "relu", "wcd", True),
    ("relu", "bernoulli", "pcd", False),
    ("binomial", "drelu", "bcd", True),
    ("gaussian", "gaussian", "cd", True),
]


@pytest.mark.parametrize(("visible", "hidden", "phase", "centered"), MODELS)
def test_training_raises_the_exact_likelihood(visible, hidden, phase, centered, tmp_path):
    x = data(visible)
    kind = units.Binomial(5) if visible == "binomial" else visible
    rbm = tf_wcd.RBMLayer(
        3, kind, hidden, negative_phase=phase, centered=centered, seed=0,
        kernel_initializer=keras.initializers.RandomNormal(stddev=0.2, seed=1),
    )  # fmt: skip
    rbm.compile(keras.optimizers.SGD(0.02, momentum=0.8))
    rbm.start_at_means(x)
    before = tf_wcd.evaluation.log_prob(rbm, x).mean()
    rbm.fit(x, batch_size=50, steps_per_epoch=600, verbose=0)
    after = tf_wcd.evaluation.log_prob(rbm, x).mean()
    assert after > before + 0.2
    if hidden == "drelu":
        assert all(np.abs(v.numpy() - v.numpy()[0]).max() > 0 for v in rbm.hidden_parameters.values())
    rbm.save(tmp_path / "rbm.keras")
    again = keras.models.load_model(tmp_path / "rbm.keras")
    assert again.visible_unit == rbm.visible_unit
    np.testing.assert_array_equal(again.free_energy(x), rbm.free_energy(x))


def test_members_of_an_ensemble_are_as_alone():
    """Learned parameters have the leading axis, too: energies of members are those of the layers made of them."""
    x = data("binomial")
    ensemble = tf_wcd.RBMEnsemble(
        2, visible_type=units.Binomial(5), hidden_type="drelu", learning_rates=[0.02, 0.05], centered=True, seed=1
    )
    ensemble.compile(keras.optimizers.SGD(1.0))
    ensemble.fit(x, batch_size=50, epochs=3, verbose=0)
    every = tf_wcd.evaluation.log_prob(ensemble, x)
    for i in range(2):
        member = ensemble.member(i)
        assert (member.hidden_parameters["threshold"].numpy() != 0).all()
        np.testing.assert_allclose(tf_wcd.evaluation.log_prob(member, x), every[i], rtol=1e-6)


def test_balanced_weights_are_consistent():
    """BCD's step of many points is the exact one, for rectified hidden and binomial visible units."""
    m = quad.model(("binomial", "relu"))
    machine = quad.make_rbm(m).machine()
    nodes, log_weights, log_z = quad.log_weights(m)
    x = tf.constant(np.repeat(nodes, 120, axis=0))
    key = tf.constant([1, 2], tf.uint32)
    found = phases_of(machine, tf_wcd.negative_phases.BCD(), x, None, {}, key)
    exact = phases_of(machine, tf_wcd.negative_phases.get("exact"), x, None, {}, key)
    np.testing.assert_allclose(tf.exp(exact.log_weights), np.exp(log_weights - log_z), rtol=1e-9)
    plain = phases_of(machine, tf_wcd.negative_phases.CD(), x, None, {}, key)
    wished, balanced, biased = (gradient_of(phases).kernel.numpy() for phases in (exact, found, plain))
    assert np.abs(balanced - wished).max() < 0.05 * np.abs(wished).max()
    assert np.abs(biased - wished).max() > 0.1 * np.abs(wished).max()


VISIBLE = {
    "potts": (units.Potts(3), 6),
    "binomial": (units.Binomial(3), 3),
    "mixed": (units.Mixed([("spin", 1), (units.Potts(3), 3), (units.Binomial(2), 1)]), 5),
}


@pytest.mark.parametrize("name", VISIBLE)
def test_pseudo_likelihood(name, monkeypatch):
    """Each unit given the others, by sums over all states."""
    unit, columns = VISIBLE[name]
    normal = keras.initializers.RandomNormal(0.1, 0.7, seed=3)
    rbm = tf_wcd.RBMLayer(
        2, unit, "relu", dtype="float64", kernel_initializer=normal, visible_bias_initializer=normal,
        hidden_bias_initializer=normal,
    )  # fmt: skip
    rbm.build((None, columns))
    states = tf_wcd.enumeration.all_states(unit, columns, "float64").numpy()
    p = np.exp(tf_wcd.evaluation.log_prob(rbm, states))
    first = unit.describe_columns(columns).first
    expected = np.zeros(len(states))
    for start in np.unique(first):
        others = states[:, first != start]
        same = (others[:, None] == others[None]).all(-1)
        expected += np.log(p / (same @ p))
    found = tf_wcd.evaluation.pseudo_log_likelihood(rbm, states)
    np.testing.assert_allclose(found, expected, rtol=1e-9)
    monkeypatch.setattr("tf_wcd.evaluation.conditionals.MOST_NUMBERS", 1)
    machine = rbm.machine()
    one_by_one = tf_wcd.evaluation.conditionals.sum_over_units(machine, tf.constant(states[:4]))
    np.testing.assert_allclose(one_by_one, expected[:4], rtol=1e-9)
    rows = np.repeat(states[5:6], 4000, axis=0)
    values = tf_wcd.evaluation.pseudo_log_likelihood(rbm, rows, bits=2, seed=0)
    assert abs(values.mean() - expected[5]) < 4 * values.std() / np.sqrt(len(rows))


def real_rbm(kernel, visible="gaussian", hidden="gaussian", **kwargs):
    kernel = np.array(kernel, "float32")
    rbm = tf_wcd.RBMLayer(kernel.shape[1], visible, hidden, seed=0, **kwargs)
    rbm.build((None, kernel.shape[0]))
    rbm.kernel.assign(kernel)
    return rbm


def test_coupling_of_real_units():
    kernel = np.array([[0.5, -0.3], [0.2, 0.9]])
    norm = np.linalg.norm(kernel, 2)
    assert coupling(real_rbm(kernel).machine()) == pytest.approx(norm, rel=1e-6)
    wide = units.Gaussian(variance=4.0)
    assert coupling(real_rbm(kernel, wide).machine()) == pytest.approx(2 * norm, rel=1e-6)
    # Rectified units have no states where a negative weight would lower the energy.
    assert coupling(real_rbm(-np.abs(kernel) * 9, "relu", "relu").machine()) == 0
    positive = np.linalg.norm(np.maximum(kernel, 0), 2)
    assert coupling(real_rbm(kernel, "relu", "relu").machine()) == pytest.approx(positive, rel=1e-6)
    # A small variance on the negative side of a double rectified unit counts for little.
    sided = units.DReLU(negative_variance=1e-6)
    assert coupling(real_rbm(-np.abs(kernel), "relu", sided).machine()) < 0.01
    assert coupling(real_rbm(kernel, "bernoulli").machine()) == 0
    mixed = units.Mixed([("bernoulli", 1), ("gaussian", 1)])
    assert coupling(real_rbm(kernel, mixed).machine()) == pytest.approx(np.linalg.norm(kernel[1]), rel=1e-6)


@pytest.mark.parametrize("pair", [("gaussian", "gaussian"), ("relu", "relu"), ("gaussian", "relu")])
def test_weights_without_a_normaliser_are_refused(pair, tmp_path):
    rbm = real_rbm([[0.9, 0.4], [0.6, 0.8]], *pair)
    rbm.compile("sgd")
    message = f"finite normaliser.*Received: 1.*'{pair[0]}' visible and '{pair[1]}' hidden"
    for action in (
        lambda: rbm.fit(np.ones([4, 2]), verbose=0),
        lambda: rbm.sample(3),
        lambda: tf_wcd.evaluation.log_partition(rbm),
        lambda: rbm.export(tmp_path / "m"),
    ):
        with pytest.raises(ValueError, match=message):
            action()


def test_training_stops_where_the_normaliser_ends():
    rbm = real_rbm([[0.1]], negative_phase="cd")
    rbm.compile(keras.optimizers.SGD(1.0, clipnorm=1.0))
    x = np.random.default_rng(0).normal(size=(100, 1)) * [[3.0]]  # a variance that the model has no room for
    with pytest.raises(tf_wcd.DivergenceError, match=r"finite normaliser.*put back"):
        rbm.fit(x, batch_size=100, steps_per_epoch=2, verbose=0)
    assert coupling(rbm.machine()) < 1


def test_real_units_that_do_not_say_how_they_fall_off():
    class Heavy(units.ReLU):
        name = "heavy"

        def tails(self, columns):
            return units.Unit.tails(self, columns)

    with pytest.raises(ValueError, match=r"Unit.tails.*Received: 'gaussian' visible and 'heavy'"):
        tf_wcd.RBMLayer(2, "gaussian", Heavy()).build((None, 3))
    tf_wcd.RBMLayer(2, "spin", Heavy()).build((None, 3))


def test_networks_of_any_unit_are_saved(tmp_path):
    """Copies of the weights with the mean of the units as activation."""
    lower = tf_wcd.RBMLayer(4, "gaussian", "drelu", seed=0)
    upper = tf_wcd.RBMLayer(3, "drelu", "relu", seed=0)
    dbn = tf_wcd.DBN([lower, upper])
    dbn.build((None, 5))
    lower.hidden_parameters["threshold"].assign([0.1, 0.2, -0.3, 0.4])
    network = dbn.autoencoder(share=False)
    x = np.random.default_rng(0).normal(size=(3, 5)).astype("float32")
    np.testing.assert_allclose(network.get_layer("encoder")(x), upper(lower(x)), rtol=1e-5)
    network.save(tmp_path / "network.keras")
    again = keras.models.load_model(tmp_path / "network.keras")
    np.testing.assert_array_equal(again(x), network(x))


def test_wrong_data_and_arguments():
    rbm = tf_wcd.RBMLayer(2, "relu", seed=0)
    rbm.compile("sgd")
    with pytest.raises(
        ValueError, match=r"at least 0 for 'relu' visible units; .*'gaussian'. Received: -1.0 at \[1, 0\]"
    ):
        rbm.fit(np.array([[0.0, 1.0], [-1.0, 2.0]]), verbose=0)
    counts = tf_wcd.RBMLayer(2, units.Binomial(5), seed=0)
    counts.compile("sgd")
    with pytest.raises(ValueError, match=r"in \[0, 5\].*Binomial\(9\).*Received: 9.0 at \[0, 1\]"):
        counts.fit(np.array([[0.0, 9.0]]), verbose=0)
    counts.build((None, 2))
    with pytest.raises(ValueError, match=r"integers from 0 to 5. Received: 0.5"):
        tf_wcd.evaluation.log_prob(counts, [[0.5, 1]])
    for make, message in (
        (lambda: units.Binomial(0), "Received: n=0"),
        (lambda: units.DReLU(positive_variance=-1), "positive_variance=-1"),
        (lambda: units.DReLU(threshold=np.inf), "threshold=inf"),
    ):
        with pytest.raises(ValueError, match=message):
            make()


@pytest.mark.parametrize("n", [3, 40])
def test_binomial_samples(n):
    """Both ways to count, each state as often as its probability says; no state of probability zero ever."""
    unit = units.Binomial(n)
    rows = 100_000
    field = tf.constant(np.tile([[-2.0, 0.3, 1.5]], [rows, 1]), tf.float32)
    uniform = tf_wcd.random.uniform(tf.constant([3, 4], tf.uint32), 0, [rows, 3])
    drawn = unit.sample(field, uniform).numpy()
    counts = np.arange(n + 1)
    for column, f in enumerate((-2.0, 0.3, 1.5)):
        p = np.exp(-unit.base_energy(tf.constant(counts, tf.float64)).numpy() + f * counts - n * np.logaddexp(0, f))
        assert p.sum() == pytest.approx(1, rel=1e-9)
        seen = np.bincount(drawn[:, column].astype(int), minlength=n + 1) / rows
        assert np.all(np.abs(seen - p) < 4.5 * np.sqrt(p * (1 - p) / rows) + 3e-5)
    ends = unit.sample(tf.constant([-1e5, 1e5]), tf.constant([1 - 2.0**-24, 2.0**-24]))
    assert ends.numpy().tolist() == [0, n]
