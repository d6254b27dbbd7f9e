"""Bad input: a ValueError that says what was received, and a model that is left as it was."""

import contextlib

import keras
import numpy as np
import pytest
import tensorflow as tf

import tf_wcd
from tests.support import brute_force as bf

GOOD = (np.random.default_rng(0).uniform(size=(20, 4)) < 0.5).astype("float32")


def with_value(value, at=(7, 2)):
    x = GOOD.copy()
    x[at] = value
    return x


@pytest.fixture(scope="module")
def rbm():
    """One for all: each test sees to it that its own call leaves the model as it was."""
    rbm = bf.make_rbm(bf.random_parameters(4, 3), negative_phase="wpcd", seed=0)
    rbm.compile(bf.sgd(0.1), jit_compile=False)
    rbm.fit(GOOD, batch_size=10, verbose=0)
    return rbm


BAD_DATA = [
    (with_value(1.5), r"in \[0, 1\] for 'bernoulli'.*Received: 1.5 at \[7, 2\]"),
    (with_value(-1), r"visible_type='spin'.*Received: -1.0"),
    (with_value(255), r"divide grey levels by 255.*Received: 255.0"),
    (with_value(np.nan), r"NaN.*Received: nan at \[7, 2\]"),
    (with_value(np.inf), r"infinite.*Received: inf"),
    (GOOD[:, :3], r"4 columns.*Received: shape \(20, 3\)"),
    (GOOD[0], r"\[examples, visible units\].*Received: shape \(4,\)"),
    (
        GOOD.reshape(5, 4, 4),
        r"images to rows, by x.reshape\(len\(x\), -1\), or .* visible_shape=\(4, 4\). Received: shape \(5, 4, 4\)",
    ),
    (GOOD[:0], r"empty.*Received: shape \(0, 4\)"),
    (np.array([["a"] * 4]), "array of real numbers"),
]
BAD_PREDICTIONS = [
    (GOOD[:, :3], r"4 columns, one for each visible unit. Received: shape \(20, 3\)"),
    (GOOD[0], r"\[examples, visible units\]. Received: shape \(4,\)"),
    (GOOD[:0], r"empty.*Received: shape \(0, 4\)"),
    (GOOD.reshape(5, 4, 4), r"visible_shape=\(4, 4\). Received: shape \(5, 4, 4\)"),
    (GOOD.astype("complex64"), "array of real numbers. Received: dtype complex64"),
]
BAD_WEIGHTS = [
    (np.r_[-1.0, np.ones(19)], r"negative. Received: -1.0 at \[0\]"),
    (np.zeros(20), "zero for every example"),
    (np.r_[np.nan, np.ones(19)], "NaN"),
    (np.ones(19), r"20 examples. Received: shape \(19,\)"),
]


def unchanged(rbm, call, message):
    before = [v.numpy().copy() for v in rbm.variables]
    with pytest.raises(ValueError, match=message):
        call()
    for value, variable in zip(before, rbm.variables, strict=True):
        np.testing.assert_array_equal(value, variable.numpy())


@pytest.mark.parametrize(("x", "message"), BAD_DATA)
def test_bad_arrays(rbm, x, message):
    unchanged(rbm, lambda: rbm.fit(x, verbose=0), message)
    unchanged(rbm, lambda: rbm.train_on_batch(x), message)
    unchanged(rbm, lambda: rbm.evaluate(x, verbose=0), message)
    unchanged(rbm, lambda: rbm.fit(GOOD, validation_data=x, verbose=0), message)


@pytest.mark.parametrize(("weights", "message"), BAD_WEIGHTS)
def test_bad_sample_weights(rbm, weights, message):
    unchanged(rbm, lambda: rbm.fit(GOOD, sample_weight=weights, verbose=0), message)
    unchanged(rbm, lambda: rbm.train_on_batch(GOOD, sample_weight=weights), message)


STREAM = [
    (
        with_value(1.5),
        None,
        r"in \[0, 1\].*batch 0 of the data set, row 7 of the batch, column 2: 1.5, minimum 0, maximum 1.5",
    ),
    (with_value(np.nan), None, "NaN or infinite values. Received: batch 0 .* row 7 of the batch, column 2: nan"),
    (GOOD, np.r_[-1.0, np.ones(19)], "negative. Received: batch 0 of the data set, row 0 of the batch, minimum -1"),
    (GOOD, np.zeros(20), "zero for every example of the batch. Received: batch 0"),
]


@pytest.mark.parametrize(("x", "weights", "message"), STREAM)
def test_bad_streams(rbm, x, weights, message):
    parts = x if weights is None else (x, x, weights)
    dataset = tf.data.Dataset.from_tensor_slices(parts).batch(10)
    unchanged(rbm, lambda: rbm.fit(dataset, verbose=0), message)
    unchanged(rbm, lambda: rbm.evaluate(dataset, verbose=0), message)


def test_the_message_names_the_batch_and_the_row(rbm):
    dataset = tf.data.Dataset.from_tensor_slices(with_value(np.nan, (17, 0))).batch(5)
    with pytest.raises(ValueError, match=r"batch 3 of the data set, row 2 of the batch"):
        rbm.fit(dataset, verbose=0)


def test_a_bad_record_in_the_middle_of_a_stream_has_touched_nothing():
    """Updates on the batches before it have been made, but for those of the same compiled call; none has used it."""
    x = np.random.default_rng(1).integers(0, 2, (200, 4)).astype("float32")

    def trained(x, batches):
        rbm = tf_wcd.RBMLayer(3, negative_phase="wpcd", seed=0)
        rbm.compile(keras.optimizers.SGD(0.1), steps_per_execution=4, jit_compile=False)
        dataset = tf.data.Dataset.from_tensor_slices(x).batch(10).take(batches)
        with contextlib.nullcontext() if np.isfinite(x).all() else pytest.raises(ValueError, match=BAD_ROW):
            rbm.fit(dataset, verbose=0)
        return rbm

    bad = x.copy()
    bad[136, 2] = np.nan
    stopped = trained(bad, 20)
    done = int(stopped.optimizer.iterations.numpy())
    assert done == 12
    for mine, theirs in zip(stopped.weights, trained(x, done).weights, strict=True):
        np.testing.assert_array_equal(mine, theirs)


BAD_ROW = r"x contains NaN or infinite values. Received: batch 13 of the data set, row 6 of the batch"


@pytest.mark.parametrize(
    ("dataset", "message"),
    [
        (tf.data.Dataset.from_tensor_slices(GOOD), r"batch the data set first.*Received: \(4,\)"),
        (tf.data.Dataset.from_tensor_slices(GOOD[:, :3]).batch(5), "4 columns"),
        (
            tf.data.Dataset.from_tensor_slices(GOOD.reshape(5, 4, 4)).batch(5),
            r"images to rows, .* Received: \(5, 4, 4\)",
        ),
        (tf.data.Dataset.from_tensor_slices(GOOD).batch(5).take(0), "empty"),
    ],
)
def test_bad_shapes_of_data_sets(rbm, dataset, message):
    unchanged(rbm, lambda: rbm.fit(dataset, verbose=0), message)


class Bad(keras.utils.PyDataset):
    def __len__(self):
        return 2

    def __getitem__(self, i):
        return with_value(np.nan)[10 * i : 10 * i + 10]


def test_bad_python_data(rbm):
    unchanged(rbm, lambda: rbm.fit(iter([with_value(7)]), steps_per_epoch=1, verbose=0), "batch 0.*Received: 7.0")
    with pytest.raises(Exception, match=r"batch 0.*NaN"):
        rbm.fit(Bad(), verbose=0, shuffle=False)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"units": 0}, "Received: units=0"),
        ({"units": 2.5}, "Received: units=2.5"),
        ({"units": 3, "gibbs_steps": -1}, "Received: gibbs_steps=-1"),
        ({"units": 3, "negative_phase": "cd", "gibbs_steps": 0}, "Received: gibbs_steps=0"),
        ({"units": 3, "gibbs_steps": 1.5}, "Received: gibbs_steps=1.5"),
        ({"units": 3, "visible_type": "binary"}, "Received: 'binary'"),
        ({"units": 3, "negative_phase": "cdk"}, r"'cd', 'exact'.*'pcd'.*Received: 'cdk'"),
        ({"units": 3, "negative_phase": "pcd", "chains": 0}, "Received: chains=0"),
        ({"units": 3, "centering_rate": 2}, "Received: centering_rate=2"),
        ({"units": 3, "seed": "0"}, "Received: seed='0'"),
        ({"units": 3, "seed": 2**63}, "Received: seed=9223372036854775808"),
        ({"units": 3, "negative_phase": "pcd", "chains": True}, "Received: chains=True"),
        ({"units": 3, "negative_phase": "cd", "chains": 5}, r"'cd' has no `chains`. Received: {'chains': 5}"),
        ({"units": 3, "negative_phase": "exact", "gibbs_steps": 2}, r"'exact' has no `gibbs_steps`"),
        (
            {"units": 3, "negative_phase": tf_wcd.negative_phases.PCD(2), "gibbs_steps": 3, "chains": 4},
            r"`gibbs_steps` and `chains` to the negative phase itself, PCD\(...\).*Received: a PCD object",
        ),
    ],
)
def test_bad_arguments_of_the_layer(arguments, message):
    with pytest.raises(ValueError, match=message):
        tf_wcd.RBMLayer(**arguments)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"batch_size": 0}, "batch_size=0"),
        ({"batch_size": 2.0}, "batch_size=2.0"),
        ({"batch_size": "many"}, "batch_size='many'"),
        ({"steps_per_epoch": -1}, "steps_per_epoch=-1"),
        ({"class_weight": {0: 1}}, "sample_weight"),
        ({"validation_split": 0.99}, "both sides"),
    ],
)
def test_bad_arguments_of_fit(rbm, arguments, message):
    unchanged(rbm, lambda: rbm.fit(GOOD, verbose=0, **arguments), message)


@pytest.mark.parametrize(("part", "rows"), [("training", slice(0, 15)), ("validation", slice(15, 20))])
def test_parts_without_weight(rbm, part, rows):
    weights = np.ones(20)
    weights[rows] = 0
    unchanged(
        rbm,
        lambda: rbm.fit(GOOD, sample_weight=weights, validation_split=0.25, verbose=0),
        rf"`sample_weight of the {part} part` is zero for every example.*Received: {rows.stop - rows.start} zeros",
    )


def test_fit_before_compile():
    with pytest.raises(ValueError, match=r"compile"):
        tf_wcd.RBMLayer(3).fit(GOOD)


def test_fit_of_a_frozen_layer():
    rbm = tf_wcd.RBMLayer(3)
    rbm.trainable = False
    rbm.compile("sgd")
    with pytest.raises(ValueError, match=r"Received: trainable=False"):
        rbm.fit(GOOD)


def test_bad_compile():
    with pytest.raises(ValueError, match=r"Received: 0"):
        tf_wcd.RBMLayer(3).compile("sgd", steps_per_execution=0)


def test_too_many_units_for_exact_evaluation():
    rbm = tf_wcd.RBMLayer(30)
    rbm.build((None, 26))
    for call in (
        lambda: tf_wcd.evaluation.log_partition(rbm),
        lambda: tf_wcd.evaluation.log_prob(rbm, np.zeros((1, 26))),
        lambda: tf_wcd.evaluation.kl_divergence(rbm, np.zeros((1, 26)), [1.0]),
    ):
        with pytest.raises(ValueError, match=r"26 visible \(bernoulli\) x 30 hidden.*annealed_log_partition"):
            call()
    gaussian = tf_wcd.RBMLayer(26, "gaussian")
    gaussian.build((None, 2))
    with pytest.raises(ValueError, match=r"annealed_log_partition"):
        tf_wcd.evaluation.log_partition(gaussian)


def test_exact_phase_on_what_it_cannot_enumerate():
    rbm = tf_wcd.RBMLayer(3, negative_phase="exact")
    rbm.compile("sgd")
    with pytest.raises(ValueError, match=r"21 visible units"):
        rbm.fit(np.zeros((5, 21)), verbose=0)
    rbm = tf_wcd.RBMLayer(3, "gaussian", negative_phase="exact")
    rbm.compile("sgd")
    with pytest.raises(ValueError, match=r"visible_type='gaussian'"):
        rbm.fit(np.zeros((5, 2)), verbose=0)


@pytest.mark.parametrize(
    ("points", "message"),
    [
        (np.zeros((2, 5)), r"4 columns.*Received: shape \(2, 5\)"),
        (np.full((2, 4), np.nan), "NaN"),
        (np.full((2, 4), 7), r"in \[0, 1\] for 'bernoulli'.*Received: 7.0"),
    ],
)
def test_bad_fixed_points(points, message):
    rbm = tf_wcd.RBMLayer(3, negative_phase=tf_wcd.negative_phases.FixedPoints(points))
    rbm.compile("sgd")
    with pytest.raises(ValueError, match=message):
        rbm.fit(GOOD, verbose=0)


def test_bad_states_in_exact_evaluation(rbm):
    with pytest.raises(ValueError, match=r"0 or 1. Received: 0.5"):
        tf_wcd.evaluation.log_prob(rbm, [[0, 1, 0.5, 0]])
    with pytest.raises(ValueError, match=r"sum 1. Received: sum 0.5"):
        tf_wcd.evaluation.kl_divergence(rbm, GOOD[:2], [0.25, 0.25])
    with pytest.raises(ValueError, match=r"`probabilities` must have one entry.*Received: shape \(1,\)"):
        tf_wcd.evaluation.kl_divergence(rbm, GOOD[:2], [1.0])
    with pytest.raises(ValueError, match=r"`probabilities`.*Received: 0 zeros"):
        tf_wcd.callbacks.ExactKL([])


def test_methods_before_the_layer_is_built():
    rbm = tf_wcd.RBMLayer(3)
    for call in (lambda: rbm.sample(2), lambda: tf_wcd.evaluation.log_partition(rbm)):
        with pytest.raises(ValueError, match=r"build"):
            call()
    assert rbm.free_energy(GOOD).shape == (20,)  # this one knows from its argument
    with pytest.raises(ValueError, match=r"4 columns.*\(2, 3\)"):
        rbm.free_energy(np.zeros((2, 3)))
    with pytest.raises(ValueError, match=r"\[n, 3\]"):
        rbm.energy(GOOD, np.zeros((20, 4)))


@pytest.mark.parametrize("value", [0, 3.0, "3", True, None])
def test_bad_numbers_of_samples(rbm, value):
    with pytest.raises(ValueError, match=rf"`num_samples` must be an integer.*Received: num_samples={value!r}"):
        rbm.sample(value)


def test_integers_of_numpy_are_integers(tmp_path):
    rbm = tf_wcd.RBMLayer(
        np.int32(3), negative_phase="pcd", gibbs_steps=np.int64(2), chains=np.int64(4), seed=np.int64(1)
    )
    rbm.build((None, 2))
    rbm.save(tmp_path / "rbm.keras")
    again = keras.models.load_model(tmp_path / "rbm.keras")
    assert (again.units, again.negative_phase.source.gibbs_steps, again.negative_phase.source.chains) == (3, 2, 4)
    assert again.sample(np.int64(5), gibbs_steps=np.int64(1), seed=np.int64(0)).shape == (5, 2)


def test_bits_for_spins_are_warned_of(recwarn):
    rbm = tf_wcd.RBMLayer(2, visible_type="spin", seed=0)
    rbm.compile("sgd")
    spins = np.array([[1.0, -1.0, 1.0], [1.0, 1.0, 1.0]])
    for sound in (spins, spins[1:], spins / 2):
        rbm.fit(sound, verbose=0)
    assert not [w for w in recwarn if "2 * x - 1" in str(w.message)]
    with pytest.warns(UserWarning, match=r"0 or 1, and 'spin' visible units are -1 or \+1: did you mean 2 \* x - 1\?"):
        rbm.fit((spins + 1) / 2, verbose=0)


@pytest.mark.parametrize("row", [[0, 1, 0, 1, 1], [0, 1, 0, 0, 0], [0.5, 1, 0, 1, 0], [0, 1, 0, 0.5, 0.5]])
def test_what_is_no_state_of_units_with_labels_has_no_probability(row):
    rbm = tf_wcd.RBMLayer(2, visible_type=tf_wcd.units.Labelled("bernoulli", classes=2), seed=0)
    rbm.build((None, 5))
    with pytest.raises(ValueError, match=r"last 2 columns.* Received: .* at \[0, "):
        tf_wcd.evaluation.log_prob(rbm, [row])
    states = np.array([[a, b, c, d, 1 - d] for a in (0, 1) for b in (0, 1) for c in (0, 1) for d in (0, 1)])
    assert np.exp(tf_wcd.evaluation.log_prob(rbm, states)).sum() == pytest.approx(1)


class ArraySequence(keras.utils.PyDataset):
    def __init__(self, x):
        super().__init__()
        self.x = x

    def __len__(self):
        return 1

    def __getitem__(self, index):
        return (self.x,)


@pytest.mark.parametrize(
    "streamed",
    [
        lambda x: tf.data.Dataset.from_tensor_slices(x).batch(2),
        lambda x: iter([x, x]),
        lambda x: ArraySequence(x),
    ],
)
def test_what_is_hardly_meant_is_warned_of_in_data_sets_too(streamed, recwarn):
    rbm = tf_wcd.RBMLayer(2, visible_type="spin", seed=0)
    rbm.compile("sgd", jit_compile=False)
    spins = np.array([[1.0, -1.0, 1.0], [1.0, 1.0, 1.0]], "float32")
    rbm.fit(streamed(spins), steps_per_epoch=1, verbose=0)
    assert not [w for w in recwarn if "2 * x - 1" in str(w.message)]
    with pytest.warns(UserWarning, match=r"did you mean 2 \* x - 1\?") as said:
        rbm.fit(streamed((spins + 1) / 2), steps_per_epoch=1, verbose=0)
    assert {w.filename for w in said if "2 * x - 1" in str(w.message)} == {__file__}


@pytest.mark.parametrize(("x", "message"), BAD_PREDICTIONS)
def test_bad_arrays_of_predict(rbm, x, message):
    with pytest.raises(ValueError, match=message):
        rbm.predict(x, verbose=0)
    dbn = tf_wcd.DBN([rbm])
    dbn.build((None, 4))
    with pytest.raises(ValueError, match=message):
        dbn.predict(x, verbose=0)
