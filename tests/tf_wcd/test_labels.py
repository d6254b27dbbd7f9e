"""Labels on one RBM: probabilities, gradients and samples against enumeration."""

import numpy as np
import pytest
import tensorflow as tf

import tf_wcd
from tests.support import brute_force as bf
from tf_wcd.negative_phases import Batch, Points
from tf_wcd.random import key_of
from tf_wcd.training.gradient import Offsets, phase_difference
from tf_wcd.training.objectives import label_gradient, label_log_prob, phases_without_points
from tf_wcd.training.step import gradient_of

CLASSES, COLUMNS, HIDDEN = 3, 4, 3
PAIRS = [("bernoulli", "spin"), ("spin", "bernoulli")]
P = bf.random_parameters(COLUMNS + CLASSES, HIDDEN, seed=3)
LABELS = np.array([2, 0, 1, 1, 0])
WEIGHTS = np.array([0.3, 1.2, 0.7, 2.0, 0.1])
SOFT = np.array([[0.2, 0.5, 0.3], [1, 0, 0], [0, 0.25, 0.75], [0, 1, 0], [0.1, 0.1, 0.8]])


def make(visible="bernoulli", hidden="bernoulli", dtype="float64", parameters=P, **options):
    rbm = tf_wcd.RBMLayer(HIDDEN, visible, hidden, classes=CLASSES, dtype=dtype, seed=1, **options)
    rbm.build((None, COLUMNS))
    bf.set_parameters(rbm, parameters)
    return rbm


def log_weights(p, visible, hidden, x=None):
    """-F of each x with each label, [rows, classes], by a sum over all hidden states; all x if none are given."""
    x = bf.space(visible, COLUMNS) if x is None else x
    rows = [np.hstack([x, np.tile(row, (len(x), 1))]) for row in np.eye(CLASSES)]
    return np.stack([bf.log_sum_exp(-bf.energy(p, r, bf.space(hidden, HIDDEN)), 1) for r in rows], axis=1)


def log_softmax(values):
    return values - bf.log_sum_exp(values, 1)[:, None]


def five_rows(visible):
    low, high = bf.VALUES[visible]
    return np.where(np.random.default_rng(0).random((5, COLUMNS)) < 0.5, low, high)


@pytest.mark.parametrize("pair", PAIRS)
def test_probabilities_and_energies(pair):
    rbm, x = make(*pair), bf.space(pair[0], COLUMNS)
    found = log_weights(P, *pair)
    np.testing.assert_allclose(rbm.label_log_prob(x), log_softmax(found), rtol=1e-10)
    np.testing.assert_allclose(rbm.free_energy(x), -bf.log_sum_exp(found, 1), rtol=1e-10)
    joint = [rbm.with_labels(x, np.full(16, label)) for label in range(CLASSES)]
    np.testing.assert_allclose(np.stack([rbm.free_energy(rows) for rows in joint], 1), -found, rtol=1e-10)
    exact = np.stack([tf_wcd.evaluation.log_prob(rbm, rows) for rows in joint], 1)
    np.testing.assert_allclose(exact, found - bf.log_sum_exp(found), rtol=1e-8)

    hidden = bf.space(pair[1], HIDDEN)
    weights = sum(np.exp(-bf.energy(P, rows, hidden)) for rows in joint)
    means = weights @ hidden / weights.sum(1, keepdims=True)
    np.testing.assert_allclose(rbm(x), means, rtol=1e-9)
    np.testing.assert_allclose(rbm.predict(x, verbose=0), means, rtol=1e-9)
    assert rbm.reconstruct(x).shape == (16, COLUMNS)
    assert rbm.reconstruct(joint[0]).shape == (16, COLUMNS + CLASSES)
    assert (rbm.num_visible, rbm.data_width) == (COLUMNS + CLASSES, COLUMNS)
    with pytest.raises(ValueError, match=r"7 columns.*3 for the label: see `with_labels`. Received: shape \(16, 4\)"):
        rbm.energy(x, hidden[:16])


def phases(rbm, labels, visible="bernoulli"):
    rows = np.hstack([five_rows(visible), np.eye(CLASSES)[labels] if labels.ndim == 1 else labels])
    return phases_without_points(rbm.machine(), tf.constant(rows), tf.constant(WEIGHTS), {})


@pytest.mark.parametrize("labels", [LABELS, SOFT], ids=["hard", "soft"])
@pytest.mark.parametrize("pair", PAIRS)
def test_the_gradient_of_labels_given_data(pair, labels):
    """The derivative of the enumerated -log P(y | x), weighted, by finite differences."""
    x = five_rows(pair[0])
    shares = np.eye(CLASSES)[labels] if labels.ndim == 1 else labels

    def loss(p):
        return -(WEIGHTS[:, None] / 5 * shares * log_softmax(log_weights(p, *pair, x))).sum()

    gradient = label_gradient(phases(make(*pair), labels, pair[0]))
    for name, part in zip("Wbc", (gradient.kernel, gradient.visible_bias, gradient.hidden_bias), strict=True):
        values = getattr(P, name)
        slopes = np.zeros_like(values)
        for place in np.ndindex(values.shape):
            step = np.zeros_like(values)
            step[place] = 1e-5
            up, down = (loss(P._replace(**{name: values + sign * step})) for sign in (1, -1))
            slopes[place] = (up - down) / 2e-5
        np.testing.assert_allclose(part, slopes, rtol=1e-7, atol=1e-9)
    assert not np.asarray(gradient.visible_bias)[:COLUMNS].any()


def test_the_gradient_of_learned_shapes():
    """Parameters of the units, by finite differences of the exact log-probabilities; those of data have none."""
    rbm = make(tf_wcd.units.Gaussian(learn_variance=True), "drelu")
    rng = np.random.default_rng(5)
    for variable in rbm.hidden_parameters.values():
        variable.assign_add(rng.normal(0, 0.2, variable.shape))
    parts = phases(rbm, LABELS)
    gradient = label_gradient(parts)

    def loss():
        rows = label_log_prob(rbm.machine(), parts.batch.visible[:, :COLUMNS]).numpy()
        return -(WEIGHTS / 5 * rows[np.arange(5), LABELS]).sum()

    for name, variable in rbm.hidden_parameters.items():
        values = variable.numpy()
        slopes = np.zeros_like(values)
        for place in np.ndindex(values.shape):
            step = np.zeros_like(values)
            step[place] = 1e-5
            variable.assign(values + step)
            up = loss()
            variable.assign(values - step)
            slopes[place] = (up - loss()) / 2e-5
            variable.assign(values)
        np.testing.assert_allclose(gradient.hidden_unit[name], slopes, rtol=1e-6, atol=1e-8)
    assert gradient.visible_unit.keys() == rbm.visible_parameters.keys() != set()
    assert not any(np.asarray(value).any() for value in gradient.visible_unit.values())


@pytest.mark.parametrize("standardized", [False, True])
def test_the_centred_gradient_of_labels(standardized):
    """It is the difference of two phases: the examples, and the examples with every label as weighted points."""
    rbm = make("spin", "bernoulli")
    parts = phases(rbm, LABELS, "spin")
    machine, batch = parts.machine, parts.batch
    x = five_rows("spin")
    points = tf.constant(np.hstack([np.repeat(x, CLASSES, axis=0), np.tile(np.eye(CLASSES), (5, 1))]))
    log_points = (batch.log_weights[:, None] + rbm.label_log_prob(x)).numpy().ravel()
    rng = np.random.default_rng(2)
    sizes = [COLUMNS + CLASSES, HIDDEN] * (2 if standardized else 1)
    offsets = Offsets(*(tf.constant(rng.random(size)) for size in sizes))
    expected = phase_difference(
        machine,
        Batch(machine, batch.visible, batch.log_weights),
        Points(points, machine.hidden_field(points)),
        tf.constant(log_points),
        parts.scale,
        offsets,
    )
    found = label_gradient(parts, offsets)
    for one, other in zip(found[:3], expected[:3], strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-12)
    for one, other in zip(found.data_means, expected.data_means, strict=True):
        assert (one is None) == (other is None)
        if one is not None:
            np.testing.assert_allclose(one, other, rtol=1e-9)


@pytest.mark.parametrize("centered", [False, True])
def test_hybrid_is_the_sum_of_its_parts(centered):
    parts = {}
    for objective in ("generative", "discriminative", "hybrid"):
        rbm = make("bernoulli", "spin", negative_phase="cd", centered=centered, objective=objective)
        rbm.generative_weight = 0.3
        rows = rbm.with_labels(five_rows("bernoulli"), LABELS)
        update = rbm.update(tf.constant(rows), tf.constant(WEIGHTS), {}, key_of(tf.constant([7, 0], tf.int64)))
        parts[objective] = rbm.gradient(update)
        if objective == "generative":
            for one, other in zip(parts[objective][:3], gradient_of(update, rbm.offsets())[:3], strict=True):
                np.testing.assert_array_equal(one, other)
    for joint, label, both in zip(*(part[:3] for part in parts.values()), strict=True):
        assert min(np.abs(joint).max(), np.abs(label).max()) > 0.01
        np.testing.assert_allclose(both, label + 0.3 * joint, rtol=1e-12)


def test_members_of_an_ensemble():
    ensemble = tf_wcd.RBMEnsemble(HIDDEN, count=2, initial_stddev=0.8, classes=CLASSES, hidden_type="drelu", seed=3)
    x = five_rows("bernoulli")
    probabilities, means, energies = ensemble.label_log_prob(x), ensemble(x), ensemble.free_energy(x)
    rows = ensemble.with_labels(x, LABELS)
    gradient = label_gradient(
        phases_without_points(
            ensemble.machine(), tf.constant(np.tile(rows, [2, 1, 1])), tf.constant(np.tile(WEIGHTS, [2, 1])), {}
        )
    )
    for number in range(2):
        rbm = ensemble.member(number)
        np.testing.assert_allclose(probabilities[number], rbm.label_log_prob(x), rtol=1e-5)
        np.testing.assert_allclose(means[number], rbm(x), rtol=1e-5)
        np.testing.assert_allclose(energies[number], rbm.free_energy(x), rtol=1e-5)
        own = label_gradient(phases_without_points(rbm.machine(), tf.constant(rows), tf.constant(WEIGHTS), {}))
        for one, other in zip(tf.nest.flatten(gradient), tf.nest.flatten(own), strict=True):
            if one is not None:
                np.testing.assert_allclose(one[number], other, rtol=1e-4, atol=1e-6)


def z_scores(samples, probabilities):
    """Deviations of the frequencies of all states, in standard errors."""
    numbers = (samples @ 2 ** np.arange(COLUMNS)[::-1]).astype(int)
    counts = np.bincount(numbers, minlength=16)
    expected = len(samples) * probabilities
    return (counts - expected) / np.sqrt(np.maximum(expected * (1 - probabilities), 1e-12))


def test_samples_given_labels():
    p = bf.random_parameters(COLUMNS + CLASSES, HIDDEN, seed=3)
    p.W[COLUMNS:] *= 3  # classes that differ
    rbm = make(dtype="float32", parameters=p)
    joint = np.exp(log_weights(p, "bernoulli", "bernoulli"))
    labels = np.repeat(np.arange(CLASSES), 5_000)
    samples = rbm.sample(15_000, gibbs_steps=30, labels=labels, seed=0).numpy()
    assert samples.shape == (15_000, COLUMNS)
    given = joint / joint.sum(0)
    assert min(np.abs(given[:, i] - given[:, i - 1]).sum() for i in range(CLASSES)) > 0.1
    for label in range(CLASSES):
        assert np.abs(z_scores(samples[labels == label], given[:, label])).max() < 4

    free = rbm.sample(15_000, gibbs_steps=30, seed=0).numpy()
    assert np.abs(z_scores(free, joint.sum(1) / joint.sum())).max() < 4

    start = np.array([1, 0, 0, 0])
    held = rbm.sample(15_000, gibbs_steps=30, initial=start, clamp=[1, 1, 0, 0], labels=2, seed=1).numpy()
    known = (bf.space("bernoulli", COLUMNS)[:, :2] == start[:2]).all(1) * joint[:, 2]
    assert np.abs(z_scores(held, known / known.sum())).max() < 4
    assert rbm.sample(4, gibbs_steps=0, initial=start, seed=1).numpy().tolist() == 4 * [start.tolist()]


def test_functions_of_states_ask_for_the_labels():
    rbm = tf_wcd.RBMLayer(3, classes=2, visible_shape=(2, 2), seed=0)
    rbm.build((None, 4))
    images = np.zeros([5, 2, 2])
    for x in (images, images.reshape(5, 4)):
        with pytest.raises(ValueError, match=r"6 columns.*2 for the label: see `with_labels`. Received: shape \(5, "):
            tf_wcd.evaluation.log_prob(rbm, x)
    assert tf_wcd.evaluation.log_prob(rbm, rbm.with_labels(images, np.zeros(5))).shape == (5,)
