"""Balanced weights: by enumeration, the expected step tends to the exact gradient as the number of points grows."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import tf_wcd
from tests import brute_force as bf
from tf_wcd.negative_phases import BCD, CD, WCD
from tf_wcd.random import key_of
from tf_wcd.training.step import gradient_of, phases_of

PAIRS = [
    ("bernoulli", "bernoulli"),
    ("spin", "spin"),
    ("bernoulli", "spin"),
    (tf_wcd.units.Potts(3), "bernoulli"),
    ("gaussian", "spin"),
]
WEIGHTS = np.array([0.3, 1.2, 0.7])


def model(pair):
    initializer = keras.initializers.RandomNormal(stddev=1.5, seed=5)
    rbm = tf_wcd.RBMLayer(
        2, *pair, negative_phase="cd", kernel_initializer=initializer,
        visible_bias_initializer=initializer, hidden_bias_initializer=initializer,
    )  # fmt: skip
    rbm.build((None, 3))
    return rbm


def data(pair):
    unit = tf_wcd.units.get(pair[0])
    if not unit.finite:
        return np.array([[0.4, -1.0, 0.3], [1.2, 0.5, -0.7], [-0.3, 0.8, 0.9]], "float32")
    return unit.states_at(tf.constant([1, 0, 2]), 3).numpy()


def exact_negative(machine):
    """E[x h^T], E[x], E[h] under the model, by a sum over the hidden states."""
    wide = machine.cast("float64")
    hidden = wide.hidden.states_at(tf.range(wide.hidden.num_states(2)), 2, "float64")
    p = tf.nn.softmax(-wide.hidden_free_energy(hidden)).numpy()
    means = wide.visible.mean(wide.visible_field(hidden)).numpy()
    return np.concatenate([np.ravel(np.einsum("m,mi,mj->ij", p, means, hidden)), p @ means, p @ hidden.numpy()])


def negative(phases):
    w = tf.exp(phases.log_weights)
    hidden = phases.machine.hidden.mean(phases.points.hidden_field)
    kernel = tf.matmul(phases.points.visible, w[:, None] * hidden, transpose_a=True)
    parts = [tf.reshape(kernel, [-1]), tf.linalg.matvec(phases.points.visible, w, transpose_a=True)]
    return tf.concat([*parts, tf.linalg.matvec(hidden, w, transpose_a=True)], axis=0)


def mean_negative(rbm, phase, copies, repetitions, compiled=False):
    """Mean and standard error of the weighted negative phase over many keys, with each example ``copies`` times."""
    machine = rbm.machine()
    x = tf.repeat(tf.constant(data((rbm.visible_unit, rbm.hidden_unit))), copies, axis=0)
    weights = tf.repeat(tf.constant(WEIGHTS, tf.float32), copies)

    def run():
        def body(i, total, squares):
            key = key_of(tf.stack([tf.constant(7, tf.int64), tf.cast(i, tf.int64)]))
            g = tf.cast(negative(phases_of(machine, phase, x, weights, {}, key)), tf.float64)
            return i + 1, total + g, squares + g**2

        zero = tf.zeros([11], tf.float64)
        return tf.while_loop(lambda i, *_: i < repetitions, body, [tf.constant(0), zero, zero])

    _, total, squares = (tf.function(run, jit_compile=True) if compiled else run)()
    mean = total.numpy() / repetitions
    return mean, np.sqrt(np.maximum(squares.numpy() / repetitions - mean**2, 0) / repetitions)


@pytest.mark.parametrize(
    ("pair", "side", "steps"),
    [(pair, side, 1) for pair in PAIRS for side in ("hidden", "visible")]
    + [(PAIRS[2], side, 3) for side in ("hidden", "visible")],
    ids=str,
)
def test_weighted_means_tend_to_those_of_the_model(pair, side, steps):
    """With 600 points the error is hardly above the noise."""
    rbm = model(pair)
    mean, error = mean_negative(rbm, BCD(steps, side=side), copies=200, repetitions=30)
    assert np.all(np.abs(mean - exact_negative(rbm.machine())) < 4.5 * error + 5e-3)


def test_other_weights_do_not_tend_to_the_model():
    """The test above can fail: CD and WCD are far away, however many points there are."""
    rbm = model(("spin", "spin"))
    truth = exact_negative(rbm.machine())
    for other in (CD(), WCD()):
        mean, error = mean_negative(rbm, other, copies=200, repetitions=30)
        assert np.abs(mean - truth).max() > 10 * error.max() + 0.02


@pytest.mark.slow
@pytest.mark.parametrize("side", ["hidden", "visible"])
def test_the_bias_falls_as_one_over_the_number_of_points(side):
    rbm = model(("bernoulli", "spin"))
    truth = exact_negative(rbm.machine())
    biases = []
    for copies, repetitions in ((1, 2_000_000), (4, 2_000_000), (16, 1_000_000)):
        mean, error = mean_negative(rbm, BCD(side=side), copies, repetitions, compiled=True)
        bias = np.linalg.norm(mean - truth)
        assert bias > 5 * np.linalg.norm(error)  # it is measured, not noise
        biases.append(bias)
    slope = np.polyfit(np.log([3, 12, 48]), np.log(biases), 1)[0]
    assert -1.25 < slope < -0.75


@pytest.mark.parametrize("num_hidden", [2, 4])
@pytest.mark.parametrize("mixture", [True, False])
def test_weights_equal_their_definition(mixture, num_hidden):
    """P(h_m) / q(h_m) and P(y_m) / q(y_m) by brute force, normalised; with fewer and with more hidden units."""
    p = bf.random_parameters(3, num_hidden)
    machine = bf.make_rbm(p, "bernoulli", "spin").machine()
    x = data(("bernoulli", "spin"))
    visible, hidden = bf.space("bernoulli", 3), bf.space("spin", num_hidden)
    joint = np.exp(visible @ p.b[:, None] + (hidden @ p.c)[None] + visible @ p.W @ hidden.T)
    given_x = bf.conditional(x @ p.W + p.c, "spin", hidden)
    for side in ("hidden", "visible"):
        phases = phases_of(
            machine, BCD(side=side, mixture=mixture), tf.constant(x), None, {}, tf.constant([1, 2], tf.uint32)
        )
        h = [np.flatnonzero((hidden == row).all(1))[0] for row in phases.points.hidden.numpy()]
        y = [np.flatnonzero((visible == row).all(1))[0] for row in phases.points.visible.numpy()]
        if side == "hidden":
            own, target = given_x[:, h], joint.sum(0)[h]
        else:
            own, target = (joint[:, h] / joint[:, h].sum(0)).T[:, y], joint.sum(1)[y]
        q = own.mean(0) if mixture else np.diagonal(own)
        weights = target / q
        np.testing.assert_allclose(tf.exp(phases.log_weights), weights / weights.sum(), rtol=1e-4)


def test_ensembles_centring_saving_and_tempering(tmp_path):
    states, probabilities = tf_wcd.datasets.load("BS09")
    ensemble = tf_wcd.RBMEnsemble(9, count=2, negative_phase="bcd", centered=True, seed=0)
    ensemble.compile(keras.optimizers.SGD(0.05))
    history = ensemble.fit(states, sample_weight=probabilities, batch_size=14, steps_per_epoch=20, verbose=0)
    assert 0 < history.history["ess"][-1] <= 1
    assert np.abs(np.diff(ensemble.kernel.numpy(), axis=0)).max() > 0
    rbm = tf_wcd.RBMLayer(9, negative_phase=BCD(2, minimum_ess=0.9, side="visible"), seed=0)
    rbm.compile(keras.optimizers.SGD(0.05))
    assert rbm.fit(states, batch_size=14, epochs=5, verbose=0).history["ess"][-1] >= 0.9 - 1e-3
    rbm.save(tmp_path / "rbm.keras")
    again = keras.models.load_model(tmp_path / "rbm.keras").negative_phase
    assert again.get_config() == {"gibbs_steps": 2, "side": "visible", "minimum_ess": 0.9, "mixture": True}


def test_no_steps_weigh_the_examples_themselves():
    """WCD_0: the gradient of the log of the batch's relative probabilities, by automatic differentiation."""
    p = bf.random_parameters(3, 2)
    rbm = bf.make_rbm(p, negative_phase=WCD(gibbs_steps=0))
    x = tf.constant(bf.space("bernoulli", 3)[[0, 3, 5, 6]], tf.float32)
    target = tf.constant([0.1, 0.2, 0.3, 0.4])
    with tf.GradientTape() as tape:
        loss = -tf.reduce_sum(target * tf.nn.log_softmax(-rbm.free_energy(x)))
    truth = tape.gradient(loss, rbm.kernel.value)
    phases = rbm.update(x, target, {}, tf.constant([1, 2], tf.uint32))
    np.testing.assert_allclose(gradient_of(phases).kernel, truth * float(tf.reduce_mean(target)), atol=1e-6)
    for phase in (CD, BCD):
        with pytest.raises(ValueError, match="gibbs_steps=0"):
            phase(gibbs_steps=0)


def test_bad_arguments():
    with pytest.raises(ValueError, match="side='both'"):
        BCD(side="both")
    rbm = tf_wcd.RBMLayer(
        2,
        negative_phase=tf_wcd.NegativePhase(
            tf_wcd.negative_phases.points.PersistentChains(), tf_wcd.negative_phases.weights.BalancedWeights()
        ),
    )
    rbm.compile("sgd", run_eagerly=True)
    with pytest.raises(ValueError, match="density is known"):
        rbm.fit(np.eye(3), verbose=0)
