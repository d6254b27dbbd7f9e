"""Training on data with unknown entries: the same bits without them, all kinds of data, and what is refused."""

import itertools

import keras
import numpy as np
import pytest
import tensorflow as tf

import tf_wcd
from tf_wcd.training import sharing
from tf_wcd.training.inputs.labels import one_hot_tensor

NAN = np.nan
RNG = np.random.default_rng(0)
X = (RNG.random((60, 6)) < [0.8, 0.3, 0.5, 0.2, 0.9, 0.5]).astype("float32")
HOLES = np.where(RNG.random(X.shape) < 0.3, NAN, X).astype("float32")
WEIGHTS = RNG.random(60).astype("float32") + 0.5


def trained(x, layer=tf_wcd.RBMLayer, epochs=2, units=4, compile_options=None, **options):
    rbm = layer(units, seed=0, **{"negative_phase": "pcd", **options})
    rbm.compile(keras.optimizers.SGD(0.1, momentum=0.5), **(compile_options or {}))
    if isinstance(x, np.ndarray):
        rbm.fit(x, sample_weight=WEIGHTS, batch_size=20, shuffle=False, epochs=epochs, verbose=0)
    else:
        rbm.fit(x, epochs=epochs, steps_per_epoch=3, verbose=0)
    return rbm


def same(one, other):
    for mine, theirs in zip(one.weights, other.weights, strict=True):
        np.testing.assert_array_equal(mine, theirs)


def stream(x):
    return tf.data.Dataset.from_tensor_slices((x, x[:, 0], WEIGHTS / WEIGHTS.mean())).batch(20).repeat()


def generator(x):
    for i in itertools.cycle(range(0, 60, 20)):
        yield x[i : i + 20], None, (WEIGHTS / WEIGHTS.mean())[i : i + 20]


SMALL, LARGE = {"negative_phase": "cd", "centered": True}, {"units": 12, "negative_phase": "wcd"}


@pytest.mark.parametrize(
    ("kind", "options"), [(np.array, SMALL), (np.array, LARGE), (stream, LARGE), (generator, LARGE)]
)
def test_without_unknown_entries_no_bit_changes(kind, options):
    one, other = (trained(kind(X), epochs=1, **o) for o in (options, {"missing": "nan", **options}))
    same(one, other)


@pytest.mark.slow
@pytest.mark.parametrize("options", [{}, SMALL, LARGE, {"units": 12, "centered": True}])
def test_without_unknown_entries_no_bit_changes_in_what_xla_compiles(options):
    options = {"compile_options": {"jit_compile": True}, **options}
    same(trained(X, **options), trained(X, missing="nan", **options))


@pytest.mark.parametrize("units", [4, 12], ids=["exact", "clamped"])
def test_all_kinds_of_data_train_alike(units):
    array, tensors, batches = (
        trained(kind(HOLES), missing="nan", units=units) for kind in (np.array, stream, generator)
    )
    assert all(np.isfinite(v).all() for v in array.get_weights())
    for other in (tensors, batches):
        for mine, theirs in zip(array.trainable_variables, other.trainable_variables, strict=True):
            np.testing.assert_allclose(mine, theirs, atol=1e-5)
    logs = array.evaluate(HOLES, verbose=0, return_dict=True)
    assert all(np.isfinite(value) for value in logs.values())
    means = (WEIGHTS @ np.nan_to_num(HOLES)) / (WEIGHTS @ ~np.isnan(HOLES))
    np.testing.assert_allclose(array.data_means, means, rtol=1e-6)


def test_a_start_at_the_means_of_the_known_entries():
    rbm = tf_wcd.RBMLayer(3, missing="nan", kernel_initializer="zeros")
    x = HOLES.copy()
    x[:, 2] = NAN
    rbm.start_at_means(x)
    found = rbm.reconstruct(X[:1])[0].numpy()
    np.testing.assert_allclose(found[3:], np.nanmean(x[:, 3:], axis=0), rtol=1e-5)
    assert found[2] == 0.5  # nothing known: the middle


def test_data_that_are_hardly_meant_are_warned_of():
    rbm = tf_wcd.RBMLayer(2, "spin", missing="nan", seed=0)
    rbm.compile("sgd")
    with pytest.warns(UserWarning, match=r"did you mean 2 \* x - 1"):
        rbm.fit(np.array([[0, 1, NAN], [1, 0, 1], [1, NAN, 1]]), verbose=0)


def test_saved_and_loaded(tmp_path):
    rbm = trained(HOLES, missing="nan", units=12, missing_steps=3, epochs=1)
    rbm.save(tmp_path / "rbm.keras")
    again = keras.models.load_model(tmp_path / "rbm.keras")
    assert (again.missing, again.missing_steps) == ("nan", 3)
    for model in (rbm, again):
        model.fit(HOLES, batch_size=20, epochs=1, verbose=0)
    same(rbm, again)
    np.testing.assert_array_equal(rbm.impute(HOLES, gibbs_steps=5, seed=0), again.impute(HOLES, gibbs_steps=5, seed=0))


def test_the_options_are_part_of_the_signature():
    models = [tf_wcd.RBMLayer(3, **o) for o in ({}, {"missing": "nan"}, {"missing": "nan", "missing_steps": 3})]
    for rbm in models:
        rbm.compile(keras.optimizers.SGD(0.1))
        rbm.build((None, 4))
        rbm.prepare(4)
    assert len({sharing.signature(rbm) for rbm in models} - {None}) == 3


# What is refused


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"missing": "none"}, "None or 'nan'. Received: missing='none'"),
        ({"missing": "nan", "missing_steps": 0}, "Received: missing_steps=0"),
        ({"missing": "nan", "classes": 2, "objective": "hybrid"}, "Received: objective='hybrid' and missing='nan'"),
        ({"missing": "nan", "negative_phase": "cd", "hidden_dropout": 0.5}, "and hidden_dropout=0.5"),
    ],
)
def test_bad_options(options, message):
    with pytest.raises(ValueError, match=message):
        tf_wcd.RBMLayer(3, **options)


def test_bad_data():
    rbm = tf_wcd.RBMLayer(3, tf_wcd.units.Potts(3), missing="nan", seed=0)
    rbm.compile("sgd")
    x = np.tile(np.eye(3, dtype="float32"), [4, 2])
    for place, value, message in (
        ((2, 4), NAN, r"all columns of a unit or in none. Received: .* in part, .* at \[2, \d\]"),
        ((3, 1), np.inf, r"contains infinite values. Received: inf at \[3, 1\]"),
        ((4, 0), 7.0, r"sum 1 in each group of 3 columns.*Received: \[7.0, 1.0, 0.0\] at \[4, 0:3\]"),
    ):
        bad = x.copy()
        bad[0, :3] = NAN
        bad[place] = value
        with pytest.raises(ValueError, match=message):
            rbm.fit(bad, verbose=0)
        with pytest.raises(ValueError, match=message.partition(". Received")[0].partition(".*")[0]):
            rbm.fit(tf.data.Dataset.from_tensor_slices(bad).batch(6), verbose=0)
        with pytest.raises(ValueError, match=message.partition(". Received")[0].partition(".*")[0]):
            rbm.fit(iter([bad]), steps_per_epoch=1, verbose=0)


def test_the_column_is_named():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"a": [0.0, 1.0, NAN], "b": [1.0, NAN, 0.0], "c": [1.0, 2.0, 0.0]})
    rbm = tf_wcd.RBMLayer(3, missing="nan", seed=0)
    rbm.compile("sgd")
    with pytest.raises(ValueError, match=r"Received: 2.0 at \[1, 2\], column 'c'"):
        rbm.fit(frame, verbose=0)
    rbm.fit(frame.assign(c=1.0), verbose=0)
    assert np.isfinite(rbm.impute(frame.assign(c=1.0))).all()
    with pytest.raises(ValueError, match=r"NaN or infinite.* at \[1, 1\], column 'b' "):
        tf_wcd.RBMLayer(3).start_at_means(frame.assign(c=1.0))
    nullable = pandas.DataFrame(
        {"a": pandas.array([True, None, False], dtype="boolean"), "b": [1, 0, 1], "c": [0, 0, 1]}
    )
    rbm.fit(nullable, verbose=0)


def test_models_too_large_for_exact_sums_say_so():
    rbm = tf_wcd.RBMLayer(11, missing="nan", seed=0)
    rbm.build((None, 12))
    row = np.r_[NAN, np.zeros(11)][None]
    for call in (lambda: rbm.free_energy(row), lambda: tf_wcd.evaluation.log_prob(rbm, row)):
        with pytest.raises(ValueError, match=r"`impute`. Received: NaN, and 12 visible x 11 hidden"):
            call()
    assert np.isfinite(rbm.impute(row, gibbs_steps=5)).all()
    assert np.isfinite(rbm.free_energy(np.zeros([1, 12]))).all()


def test_a_label_that_is_known_in_part_is_none():
    labels = np.array([[1, np.nan, np.nan], [0, 1, 0], [np.nan] * 3], "float32")
    coded, good = one_hot_tensor(labels, 3, "float32", missing=True)
    assert good.numpy().tolist() == [False, True, True]
    assert np.isnan(coded[2]).all()
    assert coded[1].numpy().tolist() == [0.0, 1.0, 0.0]
