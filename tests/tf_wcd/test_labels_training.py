"""Training with labels: accuracy, what Keras sees of them, files, and what is refused."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import tf_wcd
from tf_wcd.training import inputs, sharing

CLASSES = 3
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
    assert set(served) == {"serving_default", "sample", "gibbs", "clamp", "encode", "conditional", "classify"}
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
