"""Negative phases as pairs of points and weights: composition, state of either, names, resampling."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import tf_wcd
from tests.support import brute_force as bf
from tf_wcd import negative_phases as phases
from tf_wcd.negative_phases.composition import start, weighted_points
from tf_wcd.negative_phases.points import PersistentChains, Reconstructions
from tf_wcd.negative_phases.weights import (
    DataWeights,
    ModelWeights,
    UniformWeights,
    effective_sample_size,
    resampled,
    systematic_indices,
)
from tf_wcd.random import key_of

X = (np.random.default_rng(0).random((20, 5)) < [0.2, 0.7, 0.5, 0.9, 0.4]).astype("float32")
KEY = tf.constant([3, 4], tf.uint32)


def trained(phase, **kwargs):
    rbm = tf_wcd.RBMLayer(4, negative_phase=phase, seed=1, **kwargs)
    rbm.compile(keras.optimizers.SGD(0.1))
    rbm.fit(X, batch_size=10, epochs=3, verbose=0)
    return rbm


@pytest.mark.parametrize(
    ("named", "pair"),
    [
        (phases.CD(2), (Reconstructions(2), DataWeights())),
        (phases.WCD(2, minimum_ess=0.4), (Reconstructions(2), ModelWeights(0.4))),
        (phases.PCD(2, chains=6), (PersistentChains(2, 6), UniformWeights())),
        (phases.WPCD(), (PersistentChains(), ModelWeights())),
    ],
)
def test_a_named_phase_is_its_pair(named, pair):
    composed = tf_wcd.NegativePhase(*pair)
    np.testing.assert_array_equal(trained(named).kernel, trained(composed).kernel)
    assert type(named).from_config(named.get_config()).get_config() == named.get_config()


def test_composed_phases_are_saved(tmp_path):
    rbm = trained(tf_wcd.NegativePhase(PersistentChains(2, chains=6), ModelWeights(0.25)))
    rbm.save(tmp_path / "rbm.keras")
    again = keras.models.load_model(tmp_path / "rbm.keras").negative_phase
    assert type(again) is tf_wcd.NegativePhase
    assert again.source.get_config() == {"gibbs_steps": 2, "chains": 6}
    assert again.weights.get_config() == {"minimum_ess": 0.25}


def test_the_default_rule_is_the_models():
    np.testing.assert_array_equal(trained(tf_wcd.NegativePhase(Reconstructions())).kernel, trained(phases.WCD()).kernel)


class Counted(phases.Weights):
    """Equal weights, and the number of updates in the state of the rule."""

    def initial_state(self, machine, state, key):
        return {"count": tf.zeros([1, 1])}

    def before(self, machine, state, key):
        return {**state, "count": state["count"] + 1}

    def log_weights(self, machine, batch, points, state):
        return tf.fill(tf.shape(points.visible)[:-1], -tf.math.log(10.0)), {**state, "count": state["count"] + 100}


class Metered(tf_wcd.NegativePhase):
    def metrics(self, state):
        return {"updates": tf.reduce_sum(state["count"])}


def test_rules_keep_state_beside_the_points(tmp_path):
    rbm = trained(Metered(PersistentChains(), Counted()))
    assert set(rbm.chain_variables) == {"count", "hidden", "visible"}
    assert float(rbm.chain_variables["count"].numpy()[0, 0]) == 6 * 101
    # A phase's scalars are in Keras' logs: those of the last update of each epoch.
    np.testing.assert_allclose(rbm.history.history["updates"], [202, 404, 606])
    # Chains of equal weight are those of PCD: the rule's random numbers are not those of the points.
    np.testing.assert_allclose(rbm.kernel, trained("pcd").kernel, atol=1e-6)


def test_weights_that_come_with_the_points_are_used_and_normalised():
    class Given(tf_wcd.NegativePhase):
        def points(self, machine, batch, state, key):
            weights = tf.math.log(tf.range(1.0, 1.0 + batch.visible.shape[0]))
            return phases.Points(batch.visible, batch.hidden_field, log_weights=weights + 7.0), state

    machine = bf.make_rbm(bf.random_parameters(5, 4)).machine()
    batch = phases.Batch(machine, tf.constant(X[:4]), tf.fill([4], -tf.math.log(4.0)))
    _, log_weights, state = weighted_points(Given(), machine, batch, {}, KEY)
    np.testing.assert_allclose(tf.exp(log_weights), np.arange(1, 5) / 10, rtol=1e-6)
    assert state == {}


def test_fields_of_data_and_points_are_the_same_by_one_product_or_two():
    machine = bf.make_rbm(bf.random_parameters(5, 4)).machine()
    one, two = (phases.Batch(machine, tf.constant(X[:4]), tf.zeros([4])) for _ in range(2))
    beside = one.hidden_field_beside(tf.constant(X[4:10]))
    assert one.joint
    np.testing.assert_allclose(one.hidden_field, two.hidden_field, rtol=1e-6)
    np.testing.assert_allclose(beside, two.hidden_field_beside(tf.constant(X[4:10])), rtol=1e-6)
    np.testing.assert_allclose(beside, machine.hidden_field(tf.constant(X[4:10])), rtol=1e-6)
    assert not two.joint


def test_chains_of_any_phase_with_visible_states_can_be_started():
    class Lazy(tf_wcd.NegativePhase):
        """Chains that stay where they are."""

        weights = UniformWeights()

        def initial_state(self, machine, batch_size, key):
            return {"visible": tf.zeros([batch_size, machine.num_visible]), "age": tf.zeros([1, 1])}

        def points(self, machine, batch, state, key):
            visible = state["visible"]
            return phases.Points(visible, machine.hidden_field(visible)), {**state, "age": state["age"] + 1}

    rbm = tf_wcd.RBMLayer(4, negative_phase=Lazy(), seed=0)
    rbm.start_chains(X[:7])
    rbm.compile("sgd")
    rbm.fit(X, batch_size=10, epochs=2, verbose=0)
    np.testing.assert_array_equal(rbm.chain_states()["visible"], X[:7])
    assert float(rbm.chain_states()["age"][0, 0]) == 4
    with pytest.raises(ValueError, match="no persistent chains"):
        tf_wcd.RBMLayer(4, negative_phase="cd").start_chains(X)


def test_names(names_as_before):
    assert type(tf_wcd.RBMLayer(3, negative_phase="CD").negative_phase) is phases.CD
    assert phases.name_of(phases.WPCD()) == "wpcd"
    phases.register("cd5", lambda gibbs_steps=5: phases.CD(gibbs_steps))
    assert tf_wcd.RBMLayer(3, negative_phase="cd5").negative_phase.source.gibbs_steps == 5
    assert tf_wcd.RBMLayer(3, negative_phase="cd5", gibbs_steps=2).negative_phase.source.gibbs_steps == 2
    with pytest.raises(ValueError, match=r"taken.*Received: 'wcd'"):
        phases.register("wcd", phases.CD)


def test_the_state_starts_the_same_from_a_number_or_from_states():
    machine = bf.make_rbm(bf.random_parameters(5, 4)).machine()
    key = key_of(tf.constant([1, 2], tf.int64))
    first = start(phases.PCD(), machine, key, 6)
    again = start(phases.PCD(), machine, key, visible=first["visible"])
    for name in ("visible", "hidden"):
        np.testing.assert_array_equal(first[name], again[name])


def test_systematic_resampling_is_unbiased_and_even():
    log_weights = tf.math.log(tf.constant([0.05, 0.4, 0.0, 0.3, 0.25]))
    uniforms = (np.arange(2000) + 0.5) / 2000
    counts = np.stack(
        [
            np.bincount(systematic_indices(log_weights, tf.constant(u, tf.float32)).numpy(), minlength=5)
            for u in uniforms
        ]
    )
    expected = 5 * np.exp(log_weights.numpy())
    np.testing.assert_allclose(counts.mean(0), expected, atol=2e-3)
    assert np.all(np.abs(counts - expected) < 1)  # floor or ceil, never more
    assert counts[:, 2].max() == 0


def test_resampled_points_of_each_member_are_its_own():
    values = tf.constant(np.arange(2 * 4 * 1).reshape(2, 4, 1), tf.float32)
    log_weights = tf.math.log(tf.constant([[1.0, 0.0, 0.0, 0.0], [0.0, 0.0, 0.5, 0.5]]))
    chosen = resampled(values, log_weights, tf.constant([0.5, 0.5]))[..., 0].numpy()
    np.testing.assert_array_equal(chosen, [[0, 0, 0, 0], [6, 6, 7, 7]])


def test_effective_sample_size_of_a_resampled_set_is_the_whole():
    uniform = tf.fill([8], -tf.math.log(8.0))
    assert float(effective_sample_size(uniform)) == pytest.approx(8)
