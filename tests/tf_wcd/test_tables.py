"""Data as people have them: frames, sparse matrices, integers, booleans, read-only arrays, in every method."""

import re

import keras
import numpy as np
import pytest
import scipy.sparse
import tensorflow as tf

import tf_wcd
from tf_wcd import evaluation, units
from tf_wcd.tables import table_of

X = np.random.default_rng(0).integers(0, 2, (12, 5))
read_only = X.astype("float32")
read_only.flags.writeable = False
KINDS = {
    "int64": X,
    "uint8": X.astype("uint8"),
    "bool": X.astype(bool),
    "float64": X.astype("float64"),
    "float16": X.astype("float16"),
    "read-only": read_only,
    "fortran": np.asfortranarray(X.astype("float32")),
    "csr": scipy.sparse.csr_matrix(X),
    "coo array": scipy.sparse.coo_array(X.astype("float32")),
    "list": X.tolist(),
    "tensor": tf.constant(X),
    "sparse tensor": tf.sparse.from_dense(tf.constant(X)),
}
PLAIN = X.astype("float32")


@pytest.fixture(scope="module")
def rbm():
    rbm = tf_wcd.RBMLayer(3, kernel_initializer=keras.initializers.RandomNormal(stddev=0.5, seed=1), seed=0)
    rbm.compile(keras.optimizers.SGD(0.01))
    rbm.build((None, 5))
    return rbm


@pytest.fixture(scope="module")
def dbn(rbm):
    dbn = tf_wcd.DBN([rbm, tf_wcd.RBMLayer(2, seed=1)])
    dbn.build((None, 5))
    return dbn


def results(rbm, dbn, x):
    """What every method without training makes of data."""
    target = np.full(12, 1 / 12)
    samples = rbm.sample(12, gibbs_steps=3, initial=x, seed=1)
    return {
        "free_energy": rbm.free_energy(x),
        "reconstruct": rbm.reconstruct(x),
        "predict": rbm.predict(x, verbose=0),
        "sample": samples,
        "clamp": rbm.sample(12, gibbs_steps=3, initial=x, clamp=[1, 0, 0, 1, 0], seed=1),
        "evaluate": np.array(rbm.evaluate(x, verbose=0, batch_size=12)),
        "log_prob": evaluation.log_prob(rbm, x),
        "kl": evaluation.kl_divergence(rbm, x, target),
        "pseudo": evaluation.pseudo_log_likelihood(rbm, x),
        "parzen": evaluation.parzen_log_likelihood(x, PLAIN, 0.3),
        "dbn": dbn.predict(x, verbose=0),
        "dbn sample": dbn.sample(12, gibbs_steps=3, initial=x, seed=1),
    }


@pytest.fixture(scope="module")
def plain(rbm, dbn):
    return results(rbm, dbn, PLAIN)


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_is_the_same_data_everywhere(kind, rbm, dbn, plain):
    x = KINDS[kind]
    for name, value in results(rbm, dbn, x).items():
        np.testing.assert_allclose(value, plain[name], rtol=1e-5, atol=1e-6, err_msg=name)
    if kind != "list":  # a list is several inputs, for Keras
        np.testing.assert_allclose(rbm(x), rbm(PLAIN), rtol=1e-5)
        np.testing.assert_allclose(dbn(x), dbn(PLAIN), rtol=1e-5)


def test_training_is_the_same_for_every_kind(rbm):
    start = rbm.get_weights()
    reached = {}
    for kind, x in {"float32": PLAIN, **KINDS}.items():
        rbm.set_weights(start)
        rbm.seed_generator.state.assign([0, 0])
        rbm.fit(x, batch_size=4, epochs=2, verbose=0, shuffle=False)
        reached[kind] = rbm.kernel.numpy()
    before = rbm.kernel.numpy()
    rbm.train_on_batch(KINDS["csr"])
    assert (rbm.kernel.numpy() != before).any()
    rbm.set_weights(start)
    for kind, kernel in reached.items():
        np.testing.assert_array_equal(kernel, reached["float32"], err_msg=kind)


# Frames

pandas = pytest.importorskip("pandas")


def frame():
    return pandas.DataFrame(
        {
            "smoker": [True, False, True, True],
            "member": pandas.array([True, False, False, True], dtype="boolean"),
            "colour": pandas.Categorical(["red", "blue", "red", "green"], categories=["red", "green", "blue"]),
            "visits": pandas.array([2, 0, 1, 3], dtype="Int64"),
            "age": [0.3, -1.2, 0.1, 0.9],
        }
    )


NAMES = ["smoker", "member", "colour=red", "colour=green", "colour=blue", "visits", "age"]
UNIT = units.Mixed([("bernoulli", 2), (units.Potts(3), 3), (units.Binomial(3), 1), ("gaussian", 1)])


def test_columns_of_a_frame():
    table = table_of(frame())
    assert list(table.names) == NAMES
    np.testing.assert_allclose(
        table.values,
        [
            [1, 1, 1, 0, 0, 2, 0.3],
            [0, 0, 0, 0, 1, 0, -1.2],
            [1, 0, 1, 0, 0, 1, 0.1],
            [1, 1, 0, 1, 0, 3, 0.9],
        ],
    )
    assert table_of(pandas.DataFrame(X.astype("uint8"))).values.dtype == np.uint8


def test_a_model_of_a_frame(tmp_path):
    rbm = tf_wcd.RBMLayer(3, visible_type=UNIT, seed=0)
    rbm.compile(keras.optimizers.SGD(0.01))
    rbm.fit(frame(), batch_size=4, epochs=2, verbose=0)
    assert rbm.feature_names_in_.tolist() == NAMES
    values = table_of(frame()).values
    np.testing.assert_allclose(rbm(frame()), rbm(values.astype("float32")), rtol=1e-6)
    np.testing.assert_allclose(rbm.predict(frame(), verbose=0), rbm(frame()), rtol=1e-6)
    np.testing.assert_allclose(evaluation.log_prob(rbm, frame()), evaluation.log_prob(rbm, values))
    rbm.save(tmp_path / "rbm.keras")
    again = keras.models.load_model(tmp_path / "rbm.keras")
    assert again.feature_names_in_.tolist() == NAMES
    swapped = frame()[["member", "smoker", "colour", "visits", "age"]]
    message = r"same order. Received: 'member' in the place of 'smoker', column 0"
    for method in (again, again.predict, again.free_energy, again.start_at_means, again.fit, again.evaluate):
        with pytest.raises(ValueError, match=message):
            method(swapped)
    with pytest.raises(ValueError, match=r"7 columns of the training data. Received: 6 columns, without \['age'\]"):
        again.free_energy(frame().drop(columns="age"))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"visits": 7}, r"Received: 7.0 at \[0, 5\], column 'visits' \(4 such values\)"),
        ({"age": np.nan}, r"NaN.*Received: nan at \[0, 6\], column 'age'"),
        ({"member": pandas.array([None] * 4, "boolean")}, r"NaN.*column 'member'"),
        ({"colour": pandas.Categorical([None] * 4, ["a", "b", "c"])}, r"NaN.*column 'colour=a'"),
        ({"age": ["a", "b", "c", "d"]}, r"astype\('category'\). Received: column 'age' of the type"),
    ],
)
def test_errors_name_the_column(change, message):
    rbm = tf_wcd.RBMLayer(3, visible_type=UNIT, seed=0)
    rbm.compile("sgd")
    with pytest.raises(ValueError, match=message):
        rbm.fit(frame().assign(**change), verbose=0)


def test_errors_speak_of_the_kind_of_the_column_alone():
    rbm = tf_wcd.RBMLayer(3, visible_type=UNIT, seed=0)
    rbm.build((None, 7))
    text = "`x` must be in [0, 3] for 'binomial' visible units; `Binomial(7)` takes counts up to 7. Received: "
    with pytest.raises(ValueError, match=re.escape(f"{text}7.0 at [0, 5], column 'visits' (4 such values)")):
        rbm.impute(frame().assign(visits=7))
    values = table_of(frame()).values
    values[1, 2:5] = [1, 1, 0]
    values[3, 2:5] = [0.2, 0.3, 0.5]
    with pytest.raises(ValueError, match=r"sum 1.* for 'potts'.*Received: \[1.0, 1.0, 0.0\] at \[1, 2:5\] \(1 such"):
        evaluation.log_prob(rbm, values)
    values[1, 2:5] = [1, 0, 0]
    named = pandas.DataFrame(values, columns=NAMES)
    with pytest.raises(ValueError, match=r"states of 'potts' units.*columns 'colour=red' to 'colour=blue' \(1 such"):
        evaluation.log_prob(rbm, named)


def test_numbers_of_categories_get_a_hint():
    rbm = tf_wcd.RBMLayer(3, visible_type=units.Potts(3), seed=0)
    rbm.compile("sgd")
    with pytest.raises(ValueError, match=r"by np.eye\(3\)\[x\].reshape\(len\(x\), -1\). Received: \[0, 2, 1\]"):
        rbm.fit(np.array([[0, 2, 1]]))
    rbm.fit(np.eye(3)[np.array([[0, 2, 1]])].reshape(1, -1), verbose=0)


def test_other_categories_are_refused_everywhere():
    """Others, more of them, or in another order: each would be read as something else."""
    rbm = tf_wcd.RBMLayer(3, visible_type=UNIT, seed=0)
    rbm.compile(keras.optimizers.SGD(0.01), jit_compile=False)
    four = frame().assign(colour=pandas.Categorical(["a", "b", "c", "d"]))
    message = r"take 7 columns. Received: 8 columns: smoker, member, colour=a, .*colour=d, visits, age"
    with pytest.raises(ValueError, match=message):
        rbm.fit(four, verbose=0)
    rbm.fit(frame(), verbose=0)
    other = frame().assign(colour=pandas.Categorical(["red", "pink"] * 2, categories=["red", "green", "pink"]))
    turned = frame().assign(colour=frame().colour.cat.reorder_categories(["blue", "red", "green"]))
    methods = {
        "call": rbm,
        "predict": rbm.predict,
        "evaluate": rbm.evaluate,
        "impute": rbm.impute,
        "reconstruct": rbm.reconstruct,
        "sample": lambda x: rbm.sample(4, gibbs_steps=1, initial=x),
        "log_prob": lambda x: evaluation.log_prob(rbm, x),
        "log_likelihood": lambda x: evaluation.log_likelihood(rbm, x),
        "kl": lambda x: evaluation.kl_divergence(rbm, x, [0.25] * 4),
        "mixing": lambda x: evaluation.mixing(rbm, x, gibbs_steps=16),
        "annealed": lambda x: evaluation.annealed_log_partition(rbm, data=x),
        "gradient": lambda x: evaluation.gradient_error(rbm, x, ["cd"]),
    }
    for name, method in methods.items():
        for wrong, received in (
            (other, "'colour=pink' in the place of 'colour=blue', column 4"),
            (turned, "'colour=blue' in the place of 'colour=red', column 2"),
            (four, r"8 columns, without \['colour=red', 'colour=green', 'colour=blue'\], and with \['colour=a'"),
        ):
            with pytest.raises(ValueError, match=rf"of the training data.*Received: {received}"):
                pytest.fail(f"{name} took it: {method(wrong)}")
    bad = frame().assign(age=np.inf)
    with pytest.raises(ValueError, match=r"`initial` contains.*Received: inf at \[0, 6\], column 'age'"):
        rbm.sample(4, initial=bad)
    dbn = tf_wcd.DBN([rbm, tf_wcd.RBMLayer(2, seed=1)])
    dbn.build((None, 7))
    for method in (dbn, dbn.predict, dbn.reconstruct, lambda x: dbn.sample(4, initial=x)):
        with pytest.raises(ValueError, match="'colour=pink' in the place of 'colour=blue'"):
            method(other)


def test_a_stack_keeps_the_names_of_its_data(tmp_path):
    dbn = tf_wcd.DBN([tf_wcd.RBMLayer(3, visible_type=UNIT, seed=0), tf_wcd.RBMLayer(2, seed=1)])
    for model in (dbn, *dbn.rbms):
        model.compile(keras.optimizers.SGD(0.01), jit_compile=False)
    dbn.pretrain(frame(), verbose=0)
    dbn.save(tmp_path / "dbn.keras")
    for model in (dbn, keras.models.load_model(tmp_path / "dbn.keras")):
        assert model.rbms[0].feature_names_in_.tolist() == NAMES
        assert model.rbms[1].feature_names_in_ is None
        with pytest.raises(ValueError, match="'Age' in the place of 'age'"):
            model.predict(frame().rename(columns={"age": "Age"}))
    other = tf_wcd.DBN([tf_wcd.RBMLayer(3, visible_type=UNIT, seed=0)])
    for model in (other, other.top):
        model.compile(keras.optimizers.SGD(0.01), jit_compile=False)
    other.build((None, 7))
    other.fit(frame(), verbose=0)
    assert other.top.feature_names_in_.tolist() == NAMES


def test_masked_entries_are_unknown():
    values = np.ma.array(X, mask=np.arange(60).reshape(12, 5) % 7 == 3)
    plain = tf_wcd.RBMLayer(3, seed=0)
    with pytest.raises(ValueError, match=r"NaN.*Received: nan at \[0, 3\]"):
        plain.start_at_means(values)
    rbm = tf_wcd.RBMLayer(3, missing="nan", seed=0)
    assert np.isfinite(rbm.impute(values)).all()
    np.testing.assert_array_equal(np.isnan(table_of(values).values), values.mask)
    assert table_of(np.ma.array(X)).values.dtype == X.dtype


def test_columns_of_objects_and_rows_of_different_lengths():
    objects = pandas.DataFrame({"a": pandas.Series([1, None], dtype=object), "b": [0, 1]})
    with pytest.raises(ValueError, match=r"convert_dtypes\(\). Received: column 'a' of the type object"):
        table_of(objects)
    assert np.isnan(table_of(objects.convert_dtypes()).values[1, 0])
    with pytest.raises(ValueError, match=r"`x` must be an array of numbers. Received: list; .*inhomogeneous"):
        table_of([[1, 2], [3]])


def test_labels_from_a_column():
    y = pandas.Series([0, 1, 1, 0] * 3, name="kind")
    reached = []
    for labels in (y, y.astype("Int64"), y.to_frame(), y.to_numpy()):
        rbm = tf_wcd.RBMLayer(3, classes=2, seed=0)
        rbm.compile(keras.optimizers.SGD(0.1), jit_compile=False)
        rbm.fit(X, labels, verbose=0)
        reached.append(rbm.kernel.numpy())
    for kernel in reached:
        np.testing.assert_array_equal(kernel, reached[0])
    unknown = tf_wcd.RBMLayer(3, classes=2, missing="nan", seed=0)
    assert np.isnan(unknown.data_spec().one_hot(y.astype("Int64").where(y > 0), 12)[0]).all()
    for labels in (y.astype("category"), y.map({0: "no", 1: "yes"})):
        with pytest.raises(ValueError, match=r"class numbers in 0 .. 1; .*cat.codes. Received: .*'kind'"):
            rbm.fit(X, labels, verbose=0)
    masked = np.ma.array(y.to_numpy(), mask=y == 0)
    assert np.isnan(unknown.data_spec().one_hot(masked, 12)[0]).all()
    with pytest.raises(ValueError, match=r"class numbers in 0 .. 1. Received: nan in row 0"):
        rbm.fit(X, masked, verbose=0)
    coded = scipy.sparse.csr_matrix(np.eye(2)[y])
    np.testing.assert_array_equal(rbm.data_spec().one_hot(coded, 12), np.eye(2)[y])


def test_callbacks_know_the_columns_by_their_names(tmp_path):
    other = frame()[["age", *frame().columns.drop("age")]]
    callbacks = tf_wcd.callbacks
    for callback in (
        callbacks.AnnealedLikelihood(other),
        callbacks.RBMTensorBoard(tmp_path, train=other, gibbs_steps=1),
        callbacks.RBMTensorBoard(tmp_path, target=(other, np.ones(len(other)) / len(other)), gibbs_steps=1),
    ):
        rbm = tf_wcd.RBMLayer(3, visible_type=UNIT, seed=0)
        rbm.compile(keras.optimizers.SGD(0.001), jit_compile=False)
        with pytest.raises(ValueError, match="'age' in the place of"):
            rbm.fit(frame(), callbacks=[callback], verbose=0)


def test_frames_in_streams_have_a_column_for_each_category():
    reached = []
    for x in (frame(), iter([frame()])):
        rbm = tf_wcd.RBMLayer(3, visible_type=UNIT, seed=0)
        rbm.compile(keras.optimizers.SGD(0.001), jit_compile=False)
        rbm.fit(x, batch_size=1000, steps_per_epoch=1, shuffle=False, verbose=0)
        reached.append(rbm.kernel.numpy())
    np.testing.assert_array_equal(*reached)
