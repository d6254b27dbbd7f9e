"""What every model has of training: kinds of data, the guard, exact resume, one call for many updates."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import tf_wcd
from tests.support import dbn_enumeration as de

RNG = np.random.default_rng(0)
X = (RNG.random((40, 5)) < [0.2, 0.7, 0.5, 0.9, 0.4]).astype("float32")
Y = np.arange(40) % 3


class Batches(keras.utils.PyDataset):
    def __init__(self, *arrays):
        super().__init__()
        self.arrays = arrays

    @property
    def num_batches(self):
        return 4

    def __getitem__(self, index):
        return tuple(a[10 * index : 10 * index + 10] for a in self.arrays)


def layer():
    return tf_wcd.RBMLayer(4, negative_phase="pcd", seed=1)


def ensemble():
    return tf_wcd.RBMEnsemble(4, count=2, negative_phase="pcd", classes=3, objective="hybrid", seed=1)


def stack():
    return de.make_dbn((5, 4, 3), labels=3, negative_phase="pcd", chains=10)


MODELS = {"layer": layer, "ensemble": ensemble, "stack": stack}
LABELS = {"layer": None, "ensemble": Y, "stack": Y}


def compiled(name, rate=0.1, **options):
    model = MODELS[name]()
    model.compile(keras.optimizers.SGD(rate, momentum=0.5), jit_compile=False, **options)
    return model


def parameters(model):
    return [np.asarray(variable) for variable in model.trained_variables]


@pytest.mark.parametrize("name", MODELS)
def test_all_kinds_of_data_give_the_same_model(name):
    results = {}
    for kind in ("array", "dataset", "pydataset", "generator"):
        model = compiled(name)
        if kind == "array":
            model.fit(X, LABELS[name], batch_size=10, shuffle=False, verbose=0)
        else:
            source = {
                "dataset": lambda: tf.data.Dataset.from_tensor_slices((X, Y)).batch(10),
                "pydataset": lambda: Batches(X, Y),
                "generator": lambda: ((X[i : i + 10], Y[i : i + 10]) for i in range(0, 40, 10)),
            }[kind]()
            model.fit(source, shuffle=False, verbose=0)
        results[kind] = parameters(model)
        assert int(model.optimizer.iterations.numpy()) == 4
    for kind, found in results.items():
        for mine, theirs in zip(found, results["array"], strict=True):
            np.testing.assert_allclose(mine, theirs, atol=2e-6, err_msg=kind)


@pytest.mark.parametrize("name", MODELS)
def test_bad_batches_are_found_before_any_update_uses_them(name):
    bad = X.copy()
    bad[25, 3] = 7
    for source, message in (
        (tf.data.Dataset.from_tensor_slices((bad, Y)).batch(10), r"in \[0, 1\].*batch 2 of the data set, row 5"),
        (Batches(bad, Y), r"x of batch 2.*Received: 7.0 at \[5, 3\]"),
    ):
        model = compiled(name, steps_per_execution=1)
        with pytest.raises(ValueError, match=message):
            model.fit(source, shuffle=False, verbose=0)
        assert all(np.isfinite(value).all() for value in parameters(model))


@pytest.mark.parametrize("name", MODELS)
def test_divergence_is_stopped_and_taken_back(name):
    model = compiled(name, rate=1e39)  # infinite in single precision
    with pytest.raises(tf_wcd.DivergenceError, match="put back to update 0"):
        model.fit(X, LABELS[name], batch_size=10, epochs=3, verbose=0)
    assert all(np.isfinite(value).all() for value in parameters(model))
    assert int(model.optimizer.iterations.numpy()) == 0


class Killed(keras.callbacks.Callback):
    def on_epoch_begin(self, epoch, logs=None):
        if epoch == 2:
            raise KeyboardInterrupt


@pytest.mark.parametrize("name", MODELS)
def test_an_interrupted_training_goes_on_to_the_same_bits(name, tmp_path):
    def fit(model, *callbacks):
        backup = keras.callbacks.BackupAndRestore(tmp_path / "backup")
        model.fit(X, LABELS[name], batch_size=15, epochs=4, callbacks=[backup, *callbacks], verbose=0)

    whole = compiled(name)
    whole.fit(X, LABELS[name], batch_size=15, epochs=4, verbose=0)
    with pytest.raises(KeyboardInterrupt):
        fit(compiled(name), Killed())
    resumed = compiled(name)
    fit(resumed)
    for mine, theirs in zip(parameters(resumed), parameters(whole), strict=True):
        np.testing.assert_array_equal(mine, theirs)


@pytest.mark.parametrize("name", MODELS)
def test_many_updates_in_one_call_are_the_same_as_one_by_one(name):
    results = []
    for steps in (1, 4):
        model = compiled(name, steps_per_execution=steps)
        model.fit(X, LABELS[name], batch_size=10, epochs=2, verbose=0)
        results.append(parameters(model))
    for one, many in zip(*results, strict=True):
        np.testing.assert_allclose(one, many, atol=2e-6)


def test_weights_count_in_evaluation():
    rbm = compiled("layer")
    rbm.build((None, 5))
    first = rbm.evaluate(X[:20], batch_size=20, verbose=0, return_dict=True)["reconstruction_error"]
    weights = np.r_[np.ones(20), np.zeros(20)]
    both = rbm.evaluate(X, sample_weight=weights, batch_size=40, verbose=0, return_dict=True)["reconstruction_error"]
    assert both == pytest.approx(first, rel=1e-5)


def test_integers_are_data_too():
    bits = X.astype("uint8")
    one, two = compiled("layer"), compiled("layer")
    one.fit(X, batch_size=10, verbose=0)
    two.fit(bits, batch_size=10, verbose=0)
    np.testing.assert_array_equal(one.kernel, two.kernel)
    np.testing.assert_array_equal(one.data_means, two.data_means)


def test_sizes_of_numpy_and_batches_of_any_size():
    rbm = compiled("layer")
    rbm.build((None, 5))
    for rows in (4, 5, 6):
        assert np.isfinite(rbm.test_on_batch(X[:rows])).all()
    rbm.fit(X, batch_size=np.int64(10), verbose=0)
    assert rbm.chain_variables["visible"].shape == (10, 5)


def test_a_fit_that_is_refused_leaves_nothing_behind():
    rbm = compiled("layer")
    with pytest.raises(ValueError, match=r"in \[0, 1\]"):
        rbm.fit(X, batch_size=10, validation_data=(7 * X,), verbose=0)
    assert not rbm.built
    rbm.fit(X, batch_size=20, verbose=0)
    assert rbm.chain_variables["visible"].shape == (20, 5)


def test_a_fit_after_an_interrupted_resumed_one_trains(tmp_path):
    for last in (2, 3):  # the second one is resumed, and interrupted again
        rbm = compiled("layer")

        class Stop(keras.callbacks.Callback):
            def on_epoch_begin(self, epoch, logs=None, last=last):
                if epoch == last:
                    raise KeyboardInterrupt

        backup = keras.callbacks.BackupAndRestore(tmp_path)
        with pytest.raises(KeyboardInterrupt):
            rbm.fit(X, batch_size=10, epochs=5, callbacks=[backup, Stop()], verbose=0)
    assert len(rbm.fit(X, batch_size=10, epochs=2, verbose=0).history["loss"]) == 2


def test_batches_that_are_drawn_from_a_generator_are_used():
    drawn = []

    def batches():
        for i in range(100):
            drawn.append(i)
            yield X[:10]

    generator = batches()
    rbm = compiled("layer")
    rbm.fit(generator, epochs=2, steps_per_epoch=3, verbose=0)
    assert int(rbm.optimizer.iterations.numpy()) == 6
    assert len(drawn) <= 8  # TensorFlow asks for the next one before it is needed


def test_metrics_of_a_phase_have_names_of_their_own():
    class Loud(tf_wcd.negative_phases.CD):
        def metrics(self, state):
            return {"loss": tf.constant(7.0)}

    rbm = tf_wcd.RBMLayer(4, negative_phase=Loud())
    rbm.compile("sgd")
    with pytest.raises(ValueError, match=r"Received: \['loss'\]"):
        rbm.fit(X, verbose=0)


def test_the_state_of_a_phase_is_floating():
    class Counting(tf_wcd.negative_phases.CD):
        def initial_state(self, machine, batch_size, key):
            return {"count": tf.zeros([1, 1], tf.int32)}

    rbm = tf_wcd.RBMLayer(4, negative_phase=Counting())
    rbm.compile("sgd")
    with pytest.raises(ValueError, match=r"kept in float32. Received: 'count' of the type int32"):
        rbm.fit(X, verbose=0)
