"""What is private in Keras and TensorFlow still is where it was, and means what it meant."""

import contextlib
import io
import json
import os
import socket
import subprocess
import sys

import h5py
import keras
import numpy as np
import pytest
import tensorflow as tf

from tf_wcd import compat

X, Y = np.ones((8, 2), "float32"), np.ones((8, 1), "float32")


def dense_model(cls=keras.Model):
    inputs = keras.Input((2,))
    model = cls(inputs, keras.layers.Dense(1)(inputs))
    model.compile("sgd", loss="mse")
    return model


class Epochs(keras.callbacks.Callback):
    """The numbers of the epochs that `fit` runs."""

    def __init__(self):
        super().__init__()
        self.seen = []

    def on_epoch_begin(self, epoch, logs=None):
        self.seen.append(epoch)


# Training


def test_fit_says_to_evaluate_that_it_validates():
    class Watching(keras.Model):
        def evaluate(self, *args, **kwargs):
            calls.append(dict(kwargs))
            return super().evaluate(*args, **kwargs)

    calls = []
    model = dense_model(Watching)
    model.fit(X, Y, validation_data=(X, Y), epochs=2, verbose=0)
    assert [call[compat.VALIDATION_KEYWORD] for call in calls] == [True, True]
    model.evaluate(X, Y, verbose=0)
    assert compat.VALIDATION_KEYWORD not in calls[-1]


def test_evaluate_ignores_its_arrays_if_it_validates_and_reads_them_otherwise():
    class Replacing(keras.Model):
        keep = True

        def evaluate(self, x=None, y=None, **kwargs):
            if not self.keep:
                assert kwargs.pop(compat.VALIDATION_KEYWORD)
            return super().evaluate(x, y + 1000, **kwargs)

    model = dense_model(Replacing)
    assert model.fit(X, Y, validation_data=(X, Y), verbose=0).history["val_loss"][0] < 1000
    model.keep = False
    assert model.fit(X, Y, validation_data=(X, Y), verbose=0).history["val_loss"][0] > 100_000


@pytest.mark.parametrize("bases", [(compat.WithoutSymbolicBuild, keras.Model), (keras.Model,)])
def test_the_symbolic_build_can_be_left_out(bases):
    class Model(*bases):
        def train_step(self, data):
            return {"loss": tf.zeros([])}

        def call(self, x):
            calls.append(True)
            return x

    calls = []
    with tf.distribute.OneDeviceStrategy("CPU:0").scope():
        model = Model()
        model.compile("sgd")
    model.fit(X, verbose=0)
    # Only Keras calls the model, which the training step does not: to make its variables.
    assert bool(calls) is (len(bases) == 1)


def test_keras_calls_the_symbolic_build_by_its_name():
    class Watching(keras.Model):
        def _maybe_symbolic_build(self, iterator=None, data_batch=None):
            calls.append(iterator is not None)

    calls = []
    model = dense_model(Watching)
    model.fit(X, Y, verbose=0)
    model.train_on_batch(X, Y)
    assert calls == [True, False]


def test_the_initial_epoch_holds_until_it_is_none():
    model, epochs = dense_model(), Epochs()
    compat.set_initial_epoch(model, 2)
    model.fit(X, Y, epochs=4, verbose=0, callbacks=[epochs])
    assert epochs.seen == [2, 3]
    model.fit(X, Y, epochs=4, verbose=0, callbacks=[epochs])
    assert epochs.seen == [2, 3] * 2
    compat.set_initial_epoch(model, None)
    model.fit(X, Y, epochs=1, verbose=0, callbacks=[epochs])
    assert epochs.seen[4:] == [0]


def test_a_callback_may_set_the_initial_epoch_as_training_begins():
    class Skip(keras.callbacks.Callback):
        def on_train_begin(self, logs=None):
            compat.set_initial_epoch(self.model, 1)

    epochs = Epochs()
    dense_model().fit(X, Y, epochs=3, verbose=0, callbacks=[Skip(), epochs])
    assert epochs.seen == [1, 2]


def test_the_backup_counts_epochs_in_its_file(tmp_path):
    class Killed(keras.callbacks.Callback):
        def on_epoch_end(self, epoch, logs=None):
            if epoch == 1:
                raise KeyboardInterrupt

    # The backup comes before the kill, and so has both epochs.
    backup = keras.callbacks.BackupAndRestore(tmp_path / "backup")
    path = compat.backup_count_path(backup)
    assert not path.exists()
    with contextlib.suppress(KeyboardInterrupt):
        dense_model().fit(X, Y, epochs=4, verbose=0, callbacks=[backup, Killed()])
    assert path.parent == tmp_path / "backup"
    assert json.loads(path.read_text())["epoch"] == 2
    epochs = Epochs()
    again = keras.callbacks.BackupAndRestore(tmp_path / "backup")
    path.write_text(json.dumps({"epoch": 3, "batch": 0}))
    dense_model().fit(X, Y, epochs=4, verbose=0, callbacks=[again, epochs])
    assert epochs.seen == [3]


@pytest.mark.parametrize("limit", [{"clipnorm": 1.0}, {"global_clipnorm": 1.0}, {"clipvalue": 0.5}, {}])
def test_gradients_are_clipped_as_the_optimizer_does(limit):
    gradients = [tf.constant([3.0, 4.0]), tf.constant([0.1, -12.0])]
    optimizer = keras.optimizers.SGD(1.0, **limit)
    variables = [keras.Variable(np.zeros(2, "float32")) for _ in gradients]
    optimizer.apply(gradients, variables)
    found = compat.clipped(optimizer, gradients)
    for gradient, variable in zip(found, variables, strict=True):
        np.testing.assert_allclose(gradient, -variable.numpy(), rtol=1e-6)
    assert (not limit) == np.array_equal(found, gradients)
    # What is within the limits already stays as it is.
    np.testing.assert_allclose(compat.clipped(optimizer, found), found, rtol=1e-6)


# The public attributes of the trainer that the models override or set


def test_fit_and_evaluate_call_functions_that_models_can_replace():
    class Replaced(keras.Model):
        def make_train_function(self, force=False):
            if self.train_function is None or force:
                calls.append("make_train")
                super().make_train_function(force)
                keras_function = self.train_function

                def train_function(iterator):
                    assert isinstance(iterator, tf.data.Iterator)
                    calls.append("train")
                    return keras_function(iterator)

                self.train_function = train_function

        def make_test_function(self, force=False):
            if self.test_function is None or force:
                calls.append("make_test")
            super().make_test_function(force)

    calls = []
    model = dense_model(Replaced)
    model.fit(X, Y, epochs=2, batch_size=4, verbose=0)
    model.fit(X, Y, batch_size=8, verbose=0)
    assert calls == ["make_train", *["train"] * 5]
    calls.clear()
    for _ in range(2):
        model.evaluate(X, Y, verbose=0)
    before = model.test_function
    model.make_test_function(force=True)
    assert model.test_function is not before
    model.test_function = None
    model.evaluate(X, Y, verbose=0)
    assert calls == ["make_test"] * 3
    model.compile("sgd", loss="mse")
    assert model.train_function is None
    assert model.test_function is None


def test_steps_per_execution_may_change_after_compile():
    class Ends(keras.callbacks.Callback):
        def on_train_batch_end(self, batch, logs=None):
            ends.append(batch)

    ends = []
    model = dense_model()
    model.steps_per_execution = 3
    model.fit(X, Y, batch_size=1, verbose=0, callbacks=[Ends()])
    assert len(ends) == 3


# Variables and weights


@pytest.mark.parametrize("trainable", [True, False])
def test_tracked_variables_are_the_layers(trainable):
    layer = keras.layers.Layer()
    variable = keras.Variable(np.ones(3, "float32"), trainable=trainable, name="chains")
    compat.track_variable(layer, variable)
    assert [v is variable for v in layer.variables] == [True]
    assert [v is variable for v in layer.trainable_variables] == [True] * trainable
    store = {}
    layer.save_own_variables(store)
    np.testing.assert_array_equal(*store.values(), np.ones(3))


def test_the_weights_file_is_that_of_keras(tmp_path):
    def arrays(file):
        found = {}
        file.visititems(lambda name, item: found.update({name: item[()]}) if isinstance(item, h5py.Dataset) else None)
        return found

    model = dense_model()
    model.fit(X, Y, verbose=0)  # the optimizer has variables as well
    model.save_weights(tmp_path / "keras.weights.h5")
    content = compat.weights_file(model)
    with h5py.File(tmp_path / "keras.weights.h5") as theirs, h5py.File(io.BytesIO(content)) as ours:
        expected, found = arrays(theirs), arrays(ours)
    assert sorted(found) == sorted(expected)
    assert len(found) >= 2
    for name, value in expected.items():
        np.testing.assert_array_equal(found[name], value)
    (tmp_path / "ours.weights.h5").write_bytes(content)
    other = dense_model()
    other.load_weights(tmp_path / "ours.weights.h5")
    for one, two in zip(model.get_weights(), other.get_weights(), strict=True):
        np.testing.assert_array_equal(one, two)


# Compiled functions and strategies


@pytest.mark.parametrize("quiet", [True, False])
def test_the_warning_of_retracing_is_left_out(quiet, caplog):
    for _ in range(6):
        function = tf.function(lambda x: x + (1.0 if quiet else 2.0))
        function = compat.without_retracing_warning(function) if quiet else function
        function(tf.constant(1.0))
    assert ("retracing" in caplog.text) is not quiet


def test_strategies_of_one_process():
    for strategy in (
        tf.distribute.get_strategy(),
        tf.distribute.OneDeviceStrategy("CPU:0"),
        tf.distribute.MirroredStrategy(["CPU:0"]),
    ):
        assert not compat.runs_in_several_processes(strategy)
        assert compat.is_chief(strategy)


WORKER = """
import tensorflow as tf
from tf_wcd import compat
strategy = tf.distribute.MultiWorkerMirroredStrategy()
print(compat.runs_in_several_processes(strategy), compat.is_chief(strategy))
"""


def test_a_strategy_of_two_processes():
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(2)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        cluster = {"worker": [f"127.0.0.1:{one.getsockname()[1]}" for one in sockets]}
    workers = [
        subprocess.Popen(
            [sys.executable, "-c", WORKER],
            env={
                **os.environ,
                "CUDA_VISIBLE_DEVICES": "",
                "TF_CONFIG": json.dumps({"cluster": cluster, "task": {"type": "worker", "index": index}}),
            },
            stdout=subprocess.PIPE,
            text=True,
        )
        for index in range(2)
    ]
    try:
        assert [worker.communicate(timeout=120)[0].split() for worker in workers] == [
            ["True", "True"],
            ["True", "False"],
        ]
    finally:
        for worker in workers:
            worker.kill()
            worker.wait()


def test_variables_that_are_passed_are_not_held():
    """A function traced with one variable runs with another that is passed later, also inside of loops."""
    one, other, held = tf.Variable(1.0), tf.Variable(10.0), tf.Variable(100.0)
    found = []

    @tf.function(autograph=False)
    def add(variables, inner):
        def body(i):
            one.assign_add(held if inner else 1.0)  # not the argument: the function reads it from around
            return [i + 1]

        tf.while_loop(lambda i: i < 3, body, [tf.constant(0)])
        found.append(compat.captured_variables(variables))

    add([one], inner=False)
    add([other], inner=False)
    assert (float(one), float(other)) == (4.0, 13.0)
    add([one], inner=True)
    assert [len(names) for names in found] == [0, 1]


@pytest.mark.parametrize("kind", [keras.optimizers.SGD, keras.optimizers.AdamW])
def test_what_is_left_out_of_the_decay_is_seen(kind):
    variables = keras.Variable([1.0], name="kernel"), keras.Variable([1.0], name="bias")
    for left_out in ({"var_names": ["bias"]}, {"var_list": [variables[1]]}):
        optimizer = kind(weight_decay=0.1)
        assert not compat.excludes_from_decay(optimizer)
        optimizer.exclude_from_weight_decay(**left_out)
        assert compat.excludes_from_decay(optimizer)
