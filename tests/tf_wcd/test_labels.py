"""Labels on one RBM: probabilities, gradients and samples against enumeration, and what Keras sees of them."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import tf_wcd
from tests.support import brute_force as bf
from tf_wcd.negative_phases import Batch, Points
from tf_wcd.random import key_of
from tf_wcd.training import inputs, sharing
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


# Training

RNG = np.random.default_rng(0)
Y = np.arange(150) % CLASSES
PATTERNS = np.array([[1, 1, 0, 0, 0, 1, 0, 1], [0, 1, 1, 0, 1, 0, 0, 1], [0, 0, 1, 1, 0, 1, 1, 0]])
X = np.where(RNG.random((150, 8)) < 0.15, 1 - PATTERNS[Y], PATTERNS[Y]).astype("float32")
OBJECTIVES = ("generative", "discriminative", "hybrid")


@pytest.fixture(scope="module")
def fitted():
    models = {}
    for objective in OBJECTIVES:
        rbm = tf_wcd.RBMLayer(
            6,
            negative_phase="pcd" if objective == "hybrid" else "cd",
            centered=objective != "generative",
            kernel_initializer=keras.initializers.RandomNormal(stddev=0.3, seed=0),
            classes=CLASSES,
            objective=objective,
            seed=0,
        )
        rbm.compile(keras.optimizers.SGD(0.3, momentum=0.5), jit_compile=False)
        rbm.before = accuracy(rbm)
        both = objective == "hybrid"
        validation = {"validation_data": (X[:70], Y[:70]), "validation_batch_size": 40} if both else {}
        rbm.history = rbm.fit(X, Y, batch_size=50, steps_per_epoch=300, epochs=2, verbose=0, **validation)
        models[objective] = rbm
    return models


def accuracy(rbm, rows=None):
    return (np.argmax(rbm.label_log_prob(X[:rows]), axis=1) == Y[:rows]).mean()


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_training_raises_the_accuracy(fitted, objective):
    rbm = fitted[objective]
    assert rbm.before < 0.6
    assert accuracy(rbm) > 0.85
    logs = rbm.history.history
    assert logs["accuracy"][-1] > 0.8  # of one batch
    assert ("ess" in logs) == (objective != "discriminative")


def test_accuracy_in_evaluation(fitted):
    rbm = fitted["hybrid"]
    # 70 examples in batches of 40: the second one counts less.
    assert rbm.history.history["val_accuracy"][-1] == pytest.approx(accuracy(rbm, 70), abs=1e-6)
    weights = np.random.default_rng(1).random(70)
    right = np.argmax(rbm.label_log_prob(X[:70]), axis=1) == Y[:70]
    found = rbm.evaluate(X[:70], Y[:70], sample_weight=weights, batch_size=40, return_dict=True, verbose=0)
    assert found["accuracy"] == pytest.approx((weights * right).sum() / weights.sum(), abs=1e-6)


def test_the_loss_of_labels(fitted):
    rbm = fitted["discriminative"]
    mean = {name: model.label_log_prob(X).numpy()[np.arange(len(X)), Y].mean() for name, model in fitted.items()}
    found = rbm.evaluate(X, Y, batch_size=len(X), verbose=0, return_dict=True)
    assert found["loss"] == pytest.approx(-mean["discriminative"], rel=1e-5)
    assert found == pytest.approx(rbm.test_on_batch(X, Y, return_dict=True))
    assert mean["generative"] < mean["hybrid"] < mean["discriminative"]  # what each one learns
    assert not rbm.chain_variables
    assert fitted["hybrid"].chain_variables["visible"].shape == (50, 8 + CLASSES)


def test_saved_and_loaded(fitted, tmp_path):
    rbm = fitted["hybrid"]
    rbm.save(tmp_path / "labels.keras")
    again = keras.models.load_model(tmp_path / "labels.keras")
    assert again.get_config() == rbm.get_config()
    assert (again.classes, again.objective, again.generative_weight) == (CLASSES, "hybrid", 0.01)
    np.testing.assert_array_equal(again.label_log_prob(X), rbm.label_log_prob(X))
    arguments = {"gibbs_steps": 5, "labels": 1, "seed": 3}
    np.testing.assert_array_equal(again.sample(6, **arguments), rbm.sample(6, **arguments))
    np.testing.assert_array_equal(again.chain_states()["visible"], rbm.chain_states()["visible"])


@pytest.mark.slow
def test_exported(fitted, tmp_path):
    rbm = fitted["hybrid"]
    rbm.export(tmp_path / "served", gibbs_steps=5, warmup=False)
    served = tf.saved_model.load(tmp_path / "served").signatures
    assert set(served) == {"serving_default", "sample", "gibbs", "clamp", "encode"}
    assert served["sample"](seed=tf.range(4, dtype=tf.int64))["visible"].shape == (4, 8)
    np.testing.assert_allclose(served["encode"](visible=tf.constant(X))["hidden"], rbm(X), atol=1e-4)


def test_options_tell_programs_apart(fitted):
    known = {sharing.signature(rbm) for rbm in fitted.values()}
    assert len(known - {None}) == 3
    rbm = fitted["hybrid"]
    rbm.generative_weight = 0.5
    assert sharing.signature(rbm) not in known
    rbm.generative_weight = 0.01


def test_up_down_training_is_generative():
    dbn = tf_wcd.DBN([tf_wcd.RBMLayer(4, classes=CLASSES, objective="hybrid")])
    dbn.compile("sgd")
    with pytest.raises(ValueError, match=r"up-down algorithm.*Received: objective='hybrid'"):
        dbn.fit(X, Y, verbose=0)
    np.testing.assert_allclose(dbn.label_log_prob(X), dbn.top.label_log_prob(X), rtol=1e-5)


# What is refused

BAD_LABELS = [
    (None, r"3 labels: pass `y`. Received: no labels"),
    (np.where(np.arange(150) == 7, 3, Y), r"in 0 .. 2. Received: 3 in row 7"),
    (np.where(np.arange(150) == 4, -1, Y), r"in 0 .. 2. Received: -1 in row 4"),
    (np.where(np.arange(150) == 9, 0.5, Y), r"in 0 .. 2. Received: 0.5 in row 9"),
    (np.where(np.arange(150) == 2, np.nan, Y), r"in 0 .. 2. Received: nan in row 2"),
    (Y[:5], r"150 class numbers.*Received: shape \(5,\)"),
    (np.array(["a"] * 150), r"150 class numbers.*Received: shape \(150,\), dtype <U1"),
    (np.full((150, 3), 0.5), r"sum 1 in each row. Received: \[0.5, 0.5, 0.5\] in row 0"),
]


@pytest.mark.parametrize(("y", "message"), BAD_LABELS)
def test_bad_labels(fitted, y, message):
    rbm = fitted["generative"]
    before = rbm.kernel.numpy()
    for run in (rbm.fit, rbm.evaluate):
        with pytest.raises(ValueError, match=message):
            run(X, y, verbose=0)
    if y is not None:
        with pytest.raises(ValueError, match=message):
            rbm.fit(X, Y, validation_data=(X, y), verbose=0)
    np.testing.assert_array_equal(rbm.kernel, before)


def test_bad_labels_of_streams():
    spec = tf_wcd.RBMLayer(4, classes=CLASSES).data_spec()
    bad = np.where(np.arange(150) == 67, 5, Y)
    batches = ((X[i : i + 50], bad[i : i + 50]) for i in range(0, 150, 50))
    for source, message in (
        (tf.data.Dataset.from_tensor_slices((X, bad)).batch(50), r"in 0 .. 2.*batch 1 .*row 17 .*maximum 5"),
        (batches, r"Labels of batch 1 .* in 0 .. 2. Received: 5 in row 17"),
    ):
        data = inputs.input_of(source, None, None, spec)
        with pytest.raises(ValueError, match=message):
            inputs.with_readable_errors(list, data.checked())
    with pytest.raises(ValueError, match="Received: no labels"):
        inputs.input_of(tf.data.Dataset.from_tensor_slices(X).batch(50), None, None, spec)


def test_labels_that_have_no_use():
    """Beside an array: what data sets yield is ignored, see `test_all_kinds_of_data_give_the_same_model`."""
    rbm = tf_wcd.RBMLayer(4, negative_phase="cd", seed=0)
    rbm.compile("sgd")
    for run in (rbm.fit, rbm.evaluate, rbm.train_on_batch, rbm.test_on_batch):
        with pytest.raises(ValueError, match=r"`y` has no use.*classes=.*Received: y of the type ndarray"):
            run(X, Y)
    with pytest.raises(ValueError, match="`y` has no use"):
        rbm.fit(X, validation_data=(X, Y))
    assert not rbm.built
    for run in (lambda: rbm.label_log_prob(X), lambda: rbm.with_labels(X, Y), lambda: rbm.sample(3, labels=1)):
        with pytest.raises(ValueError, match=r"has no labels.*classes=.*Received: "):
            run()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"classes": 1}, r"at least 2. Received: classes=1"),
        ({"classes": 2, "objective": "best"}, r"'hybrid'\]. Received: objective='best'"),
        ({"objective": "hybrid"}, r"give `classes`, too. Received: classes=None"),
        ({"classes": 2, "generative_weight": 0}, r"positive number. Received: generative_weight=0"),
        ({"classes": 2, "visible_type": tf_wcd.units.Labelled("spin", 3)}, r"3 labels already.*Received: classes=2"),
    ],
)
def test_bad_options(options, message):
    with pytest.raises(ValueError, match=message):
        tf_wcd.RBMLayer(4, **options)


def test_bad_arguments_of_sample(fitted):
    rbm = fitted["generative"]
    for options, message in (
        ({"labels": 3}, r"in 0 .. 2. Received: 3 in row 0"),
        ({"labels": [0, 1, 2]}, r"2 class numbers.*Received: shape \(3,\)"),
        ({"initial": np.zeros(11)}, r"8 columns"),
        ({"labels": 1, "method": "ptt"}, r"takes no `labels`"),
    ):
        with pytest.raises(ValueError, match=message):
            rbm.sample(2, **options)
