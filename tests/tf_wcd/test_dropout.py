"""Dropout of hidden units: the expected update is the mean over all masks of those of the smaller machines."""

import itertools

import keras
import numpy as np
import pytest
import tensorflow as tf

import tf_wcd
from tests.support import brute_force as bf
from tf_wcd.random import key_of
from tf_wcd.training.dropout import with_dropout
from tf_wcd.training.step import gradient_of

RATE = 0.3
P = bf.random_parameters(4, 3, seed=3)
X = np.array([[1, 0, 0, 1], [0, 1, 1, 1], [0, 0, 1, 0]], "float64")
WEIGHTS = np.array([0.5, 0.3, 0.2])


def key(number):
    return key_of(tf.constant([5, number], tf.int64))


def smaller(p, mask):
    """The machine with the hidden units of a mask alone."""
    kept = np.array(mask, bool)
    return bf.Parameters(p.W[:, kept], p.b, p.c[kept])


def cd_step(p, visible_type, hidden_type):
    """Expected CD_1 step: all hidden states of each example, all reconstructions of each of these."""
    states, hidden = bf.space(visible_type, len(p.b)), bf.space(hidden_type, len(p.c))
    first = bf.conditional(X @ p.W + p.c, hidden_type, hidden)
    second = bf.conditional(hidden @ p.W.T + p.b, visible_type, states)
    return bf.difference(
        bf.moments(p, X, WEIGHTS, hidden_type), bf.moments(p, states, WEIGHTS @ first @ second, hidden_type)
    )


def expected_step(visible_type="bernoulli", hidden_type="bernoulli"):
    total = [np.zeros_like(part) for part in P]
    for mask in itertools.product((0, 1), repeat=len(P.c)):
        chance = np.prod([1 - RATE if present else RATE for present in mask])
        step = cd_step(smaller(P, mask), visible_type, hidden_type)
        kept = np.array(mask, bool)
        total[0][:, kept] += chance * step.W
        total[1] += chance * step.b
        total[2][kept] += chance * step.c
    return bf.Parameters(*total)


@pytest.mark.parametrize("centered", [False, True])
@pytest.mark.parametrize("hidden_type", ["bernoulli", "spin"])
def test_the_expected_step_is_the_mean_over_all_masks(hidden_type, centered):
    rbm = bf.make_rbm(P, hidden_type=hidden_type, negative_phase="cd", hidden_dropout=RATE, centered=centered)
    rows, copies = np.repeat(X, 500, axis=0).astype("float32"), 500
    weights = np.repeat(WEIGHTS / WEIGHTS.mean(), copies).astype("float32")

    @tf.function
    def step(number):
        update = rbm.update(tf.constant(rows), tf.constant(weights), {}, key_of(tf.stack([5, number])), training=True)
        return gradient_of(update)[:3]

    steps = [step(tf.constant(number, tf.int64)) for number in range(200)]
    for got, expected in zip(zip(*steps, strict=True), expected_step(hidden_type=hidden_type), strict=True):
        got = np.array(got, "float64")
        error = got.std(axis=0) / np.sqrt(len(got))
        # The gradient goes downhill, the step of `cd_step` uphill.
        assert (np.abs(got.mean(axis=0) + expected) < 4 * error + 1e-6).all()
    if not centered:
        without = cd_step(P, "bernoulli", hidden_type)
        assert np.abs(expected_step(hidden_type=hidden_type).W - without.W).max() > 0.02  # it is another step


def test_a_row_is_that_of_the_machine_with_its_units():
    machine = with_dropout(bf.make_rbm(P).machine(), tf.constant(X, tf.float32), RATE, key(1))
    masks = machine.hidden.mask.numpy()
    assert 0 < masks.mean() < 1
    energies = machine.free_energy(tf.constant(X, tf.float32)).numpy()
    for x, mask, energy in zip(X, masks, energies, strict=True):
        np.testing.assert_allclose(energy, bf.free_energy(smaller(P, mask), x[None], "bernoulli")[0], rtol=1e-5)


def test_all_columns_of_a_unit_are_dropped_together():
    rbm = tf_wcd.RBMLayer(6, hidden_type=tf_wcd.units.Potts(3), negative_phase="cd", hidden_dropout=0.5, seed=0)
    rbm.build((None, 4))
    machine = with_dropout(rbm.machine(), tf.zeros([200, 4]), 0.5, key(2))
    masks = machine.hidden.mask.numpy().reshape(200, 2, 3)
    assert (masks == masks[..., :1]).all()
    assert 0.3 < masks.mean() < 0.7
    np.testing.assert_allclose(machine.free_energy(tf.zeros([200, 4])), -masks[..., 0].sum(1) * np.log(3), rtol=1e-5)


def fitted(epochs=2, **options):
    rbm = tf_wcd.RBMLayer(5, seed=0, **{"negative_phase": "cd", **options})
    rbm.compile(keras.optimizers.SGD(0.1))
    rbm.fit(np.repeat(X, 10, axis=0), batch_size=10, epochs=epochs, verbose=0)
    return rbm


def test_zero_changes_no_bit_and_evaluation_drops_nothing(tmp_path):
    plain, zero, dropped = fitted(), fitted(hidden_dropout=0.0), fitted(hidden_dropout=0.5)
    assert (plain.kernel.numpy() == zero.kernel.numpy()).all()
    assert (plain.kernel.numpy() != dropped.kernel.numpy()).any()
    loaded = fitted(epochs=1, hidden_dropout=0.5)
    loaded.save(tmp_path / "rbm.keras")
    loaded = keras.models.load_model(tmp_path / "rbm.keras")
    assert loaded.hidden_dropout == 0.5
    loaded.fit(np.repeat(X, 10, axis=0), batch_size=10, epochs=1, verbose=0)
    assert (loaded.kernel.numpy() == dropped.kernel.numpy()).all()  # stopped and resumed: the same masks
    zero.set_weights(dropped.get_weights())
    zero.seed_generator.state.assign(dropped.seed_generator.state)
    assert zero.evaluate(X, verbose=0) == dropped.evaluate(X, verbose=0)


def test_members_of_an_ensemble_have_masks_of_their_own():
    ensemble = tf_wcd.RBMEnsemble(4, count=2, initial_stddev=0.0, negative_phase="cd", hidden_dropout=0.5, seed=0)
    ensemble.compile(keras.optimizers.SGD(1.0))
    ensemble.fit(X, batch_size=3, epochs=1, verbose=0)
    update = ensemble.next_update(tf.constant(X, tf.float32), None)
    masks = update.machine.hidden.mask.numpy()
    assert masks.shape == (2, 3, 4)
    assert (masks[0] != masks[1]).any()
    assert ensemble.member(1).hidden_dropout == 0.5


def test_the_activity_of_a_target_is_that_of_all_units():
    rbm = fitted(epochs=0, hidden_dropout=0.9, activity_target=0.5, kernel_initializer="zeros")
    rbm.fit(X, batch_size=3, verbose=0)
    np.testing.assert_allclose(rbm.hidden_activity, 0.5, atol=1e-6)  # not 0.45 and a little


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"hidden_dropout": 1.0}, r"in \[0, 1\). Received: hidden_dropout=1.0"),
        ({"negative_phase": "pcd"}, "negative_phase='cd'. Received: PCD"),
        ({"negative_phase": "wcd"}, "negative_phase='cd'. Received: WCD"),
        ({"negative_phase": "exact"}, "negative_phase='cd'. Received: Exact"),
        ({"classes": 2, "objective": "hybrid"}, "Received: objective='hybrid'"),
        ({"hidden_type": "drelu"}, "Received: hidden_type='drelu'"),
    ],
)
def test_what_cannot_have_dropout_says_so(options, message):
    with pytest.raises(ValueError, match=message):
        tf_wcd.RBMLayer(3, **{"negative_phase": "cd", "hidden_dropout": 0.5, **options})
