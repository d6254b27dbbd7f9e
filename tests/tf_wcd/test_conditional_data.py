"""Conditional RBMs: data of every kind, saving and resuming, and what is refused."""

import keras
import numpy as np
import pandas as pd
import pytest
import tensorflow as tf

import tf_wcd

RNG = np.random.default_rng(0)
X = (RNG.random((40, 5)) < [0.2, 0.7, 0.5, 0.9, 0.4]).astype("float32")
C = RNG.normal(size=(40, 3)).astype("float32")


class Batches(keras.utils.PyDataset):
    def __init__(self, *arrays):
        super().__init__()
        self.arrays = arrays

    @property
    def num_batches(self):
        return 4

    def __getitem__(self, index):
        return tuple(a[10 * index : 10 * index + 10] for a in self.arrays)


def layer(**options):
    rbm = tf_wcd.RBMLayer(4, conditions=3, seed=1, **{"negative_phase": "cd", **options})
    rbm.compile(keras.optimizers.SGD(0.1, momentum=0.5), jit_compile=False)
    return rbm


def fitted(x=(X, C), **options):
    rbm = layer()
    rbm.fit(x, **{"batch_size": 10, "epochs": 2, "verbose": 0, **options})
    return rbm


def parameters(rbm):
    return np.concatenate([np.ravel(variable) for variable in rbm.trained_variables])


def streams():
    slices = tf.data.Dataset.from_tensor_slices
    return {
        "data set": slices((X, C)).batch(10),
        "data set of pairs": slices(((X, C),)).batch(10).map(lambda pair: (pair,)),
        "data set with weights": slices((X, C, np.ones(40))).batch(10),
        "PyDataset": Batches(X, C),
        "generator": ((X[i : i + 10], C[i : i + 10]) for _ in range(2) for i in range(0, 40, 10)),
    }


def test_all_kinds_of_data_give_the_same_model():
    expected = parameters(fitted([X.astype("uint8"), C], shuffle=False))
    frames = [pd.DataFrame(X, columns=list("abcde")), pd.DataFrame(C, columns=list("xyz"))]
    assert (parameters(fitted(frames, shuffle=False)) == expected).all()
    for name, stream in streams().items():
        options = {"steps_per_epoch": 4} if name == "generator" else {}
        rbm = fitted(stream, batch_size=None, shuffle=False, **options)
        np.testing.assert_allclose(parameters(rbm), expected, atol=1e-6, err_msg=name)
        assert rbm.data_means.shape == (5,)
    assert np.abs(expected[-35:]).max() > 1e-3  # the kernels of the conditions, which start at zero


def test_evaluation_takes_what_training_takes():
    rbm = fitted(validation_data=(X[:20], C[:20]))
    expected = rbm.evaluate([X, C], batch_size=10, verbose=0)
    for name in ("data set", "data set of pairs", "PyDataset"):
        np.testing.assert_allclose(rbm.evaluate(streams()[name], verbose=0), expected, rtol=1e-5)
    hidden = rbm.predict([X, C], verbose=0)
    for name in ("data set", "data set of pairs"):
        np.testing.assert_allclose(rbm.predict(streams()[name], verbose=0), hidden, rtol=1e-5)
    in_one = rbm.evaluate([X, C], batch_size=40, verbose=0)
    np.testing.assert_allclose(rbm.test_on_batch([X, C]), in_one, rtol=1e-4)
    losses = [
        layer().fit([X, C], batch_size=20, verbose=0, **validation).history["val_loss"]
        for validation in (
            {"validation_data": [X[20:], C[20:]]},
            {"validation_data": ([X[20:], C[20:]],)},
            {"validation_data": ([X[20:], C[20:]], None, np.ones(20))},
            {"validation_data": tf.data.Dataset.from_tensor_slices((X[20:], C[20:])).batch(20)},
        )
    ]
    np.testing.assert_allclose(losses, np.full([4, 1], losses[0]), rtol=1e-4)
    assert "val_loss" in layer().fit([X, C], validation_split=0.25, verbose=0).history


def test_compiled_calls_and_a_stop_change_nothing(tmp_path):
    def run(model, epochs, first=0):
        model.fit([X, C], batch_size=10, epochs=epochs, initial_epoch=first, verbose=0)
        return model

    def new():
        rbm = tf_wcd.RBMLayer(4, conditions=3, negative_phase="cd", centered=True, seed=1)
        rbm.compile(keras.optimizers.SGD(0.1, momentum=0.5), jit_compile=True)
        return rbm

    whole = run(new(), 4)
    stopped = run(new(), 2)
    stopped.save(tmp_path / "rbm.keras")
    loaded = keras.models.load_model(tmp_path / "rbm.keras")
    assert loaded.conditions == 3
    assert (loaded([X, C]).numpy() == stopped([X, C]).numpy()).all()
    resumed = run(loaded, 4, first=2)
    assert (parameters(resumed) == parameters(whole)).all()
    assert (resumed.condition_offset.numpy() == whole.condition_offset.numpy()).all()
    resumed.save_weights(tmp_path / "rbm.weights.h5")
    other = run(new(), 1)
    other.load_weights(tmp_path / "rbm.weights.h5")
    assert (parameters(other) == parameters(whole)).all()


def test_it_is_a_layer_of_a_network():
    rbm = fitted()
    x, condition = keras.Input((5,)), keras.Input((3,))
    network = keras.Model([x, condition], keras.layers.Dense(1)(rbm([x, condition])))
    network.compile(keras.optimizers.SGD(0.5), loss="mse")
    before = parameters(rbm)
    network.fit([X, C], X[:, :1], epochs=1, verbose=0)
    assert np.abs(parameters(rbm) - before).max() > 1e-4


def test_names_of_columns_are_kept_and_checked(tmp_path):
    frame = pd.DataFrame(C, columns=["age", "height", "weight"])
    rbm = fitted([X, frame])
    rbm.save(tmp_path / "rbm.keras")
    rbm = keras.models.load_model(tmp_path / "rbm.keras")
    assert rbm.condition_names_in_.tolist() == ["age", "height", "weight"]
    rbm([X, frame])
    for use in (rbm, rbm.predict, rbm.fit, rbm.free_energy):
        with pytest.raises(ValueError, match=r"`condition` must have the columns of the training data.*'weight'"):
            use([X, frame[["weight", "height", "age"]]])
    with pytest.raises(ValueError, match="column 'height'"):
        rbm.fit([X, frame.assign(height=np.nan)])
    with pytest.raises(ValueError, match="column 'height'"):
        rbm.sample(1, condition=frame.assign(height=np.nan)[:1])


def test_start_at_means_takes_data_with_or_without_their_condition():
    means = []
    for data in (X, [X, C]):
        rbm = layer()
        rbm.start_at_means(data)
        means.append(rbm.visible_bias.numpy())
    assert (means[0] == means[1]).all()
    assert means[0].std() > 0.5


def bad(values, *place):
    values = values.copy()
    values[place] = np.nan
    return values


ERRORS = {
    "no condition": (lambda rbm: rbm.fit(X), r"3 conditions: pass `\[x, condition\]`.*Received: ndarray"),
    "three arrays": (lambda rbm: rbm.fit([X, C, C]), "Received: list of length 3"),
    "targets": (lambda rbm: rbm.fit(X, C), r"fit\(\[x, condition\]\)"),
    "width": (lambda rbm: rbm.fit([X, C[:, :2]]), r"\[examples, 3\].*Received: shape \(40, 2\)"),
    "rows": (lambda rbm: rbm.fit([X, C[:7]]), r"each of the 40 examples. Received: shape \(7, 3\)"),
    "NaN": (lambda rbm: rbm.fit([X, bad(C, 4, 1)]), r"`condition` contains NaN.*nan at \[4, 1\]"),
    "words": (lambda rbm: rbm.fit([X, C.astype("U3")]), "`condition` must be an array of real numbers"),
    "x": (lambda rbm: rbm.fit([3 * X, C]), r"`x` must be in \[0, 1\]"),
    "data set": (
        lambda rbm: rbm.fit(tf.data.Dataset.from_tensor_slices((X, bad(C, 14, 2))).batch(10), verbose=0),
        "condition contains NaN or infinite values. Received: batch 1 of the data set, row 4 of the batch, column 2",
    ),
    "data set without": (
        lambda rbm: rbm.fit(tf.data.Dataset.from_tensor_slices(X).batch(10)),
        "pass .* Received: no condition",
    ),
    "data set width": (
        lambda rbm: rbm.fit(tf.data.Dataset.from_tensor_slices((X, C[:, :2])).batch(10), verbose=0),
        r"\[examples, 3\].*Received: shape \(\d*10?, 2\)|Received: shape \(None, 2\)",
    ),
    "PyDataset": (
        lambda rbm: rbm.fit(Batches(X, bad(C, 14, 2)), shuffle=False, verbose=0),
        r"`condition of batch 1` contains NaN.*\[4, 2\]",
    ),
    "call": (lambda rbm: rbm(X), "3 conditions: pass"),
    "call width": (lambda rbm: rbm([X, C[:, :2]]), r"Received: shape \(40, 2\)"),
    "call x width": (lambda rbm: rbm([X[:, :2], C]), "must have 5 columns"),
    "predict": (lambda rbm: rbm.predict(X), "3 conditions: pass"),
    "impute": (lambda rbm: rbm.impute([X, C]), r"rbm.given\(condition\)"),
    "narrow": (lambda rbm: rbm.predict([tf.constant(X[:, :2]), C]), r"columns, one for each visible unit. Received"),
    "energy rows": (lambda rbm: rbm.free_energy([X, C[:7]]), "one row, or one for each of the 40 rows"),
    "sample": (lambda rbm: rbm.sample(3), "3 conditions: pass `condition`"),
    "sample rows": (lambda rbm: rbm.sample(3, condition=C), "one row, or one row for each of the 3 examples"),
    "sample method": (lambda rbm: rbm.sample(3, condition=C[0], method="pt"), "given.*Received: method='pt'"),
    "given rows": (lambda rbm: rbm.given(C), r"Received: shape \(40, 3\)"),
    "given NaN": (lambda rbm: rbm.given([0, np.nan, 1]), r"NaN.*\[0, 1\]"),
    "evaluation": (lambda rbm: tf_wcd.evaluation.log_partition(rbm), r"rbm.given\(condition\)"),
    "likelihood": (lambda rbm: tf_wcd.evaluation.pseudo_log_likelihood(rbm, X), r"given\(condition\)|pass `\[x"),
    "export": (lambda rbm: rbm.export("nowhere"), r"rbm.given\(condition\)"),
    "distribution": (lambda rbm: rbm.distribution(), r"rbm.given\(condition\)"),
    "stack": (lambda rbm: tf_wcd.DBN([rbm, tf_wcd.RBMLayer(2)]), "Layers of a DBN have no conditions"),
}


@pytest.fixture(scope="module")
def ready():
    return fitted()


@pytest.mark.parametrize("name", ERRORS)
def test_bad_input_gets_an_error_that_says_so(ready, name):
    use, message = ERRORS[name]
    with pytest.raises(ValueError, match=message):
        use(ready)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"conditions": 0}, "`conditions` must be an integer of at least 1"),
        ({"negative_phase": "wcd"}, "negative_phase='cd'.*Received: WCD"),
        ({"negative_phase": "bcd"}, "Received: BCD"),
        ({"negative_phase": "pcd"}, "Received: PCD"),
        ({"negative_phase": "jpcd"}, "Received: JPCD"),
        ({"negative_phase": tf_wcd.negative_phases.WCD(0)}, "Received: WCD"),
        ({"classes": 2}, "`conditions` and `classes` do not go together"),
        ({"missing": "nan"}, "`conditions` and `missing` do not go together"),
    ],
)
def test_what_does_not_go_together_says_so(options, message):
    with pytest.raises(ValueError, match=message):
        tf_wcd.RBMLayer(3, **{"negative_phase": "cd", "conditions": 2, **options})


def test_models_without_conditions_say_so():
    rbm = tf_wcd.RBMLayer(3)
    rbm.build((None, 5))
    for use in (rbm.given, lambda c: rbm.sample(3, condition=c)):
        with pytest.raises(ValueError, match=r"RBMLayer\(..., conditions=...\)"):
            use([1, 2])
    with pytest.raises(ValueError, match="An ensemble has no conditions"):
        tf_wcd.RBMEnsemble(3, count=2, conditions=2, negative_phase="cd")
