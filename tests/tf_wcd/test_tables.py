"""Data as people have them: frames, sparse matrices, integers, booleans, read-only arrays, in every method."""

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
