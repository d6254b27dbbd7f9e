"""Greedy training: what each layer is trained on, stopping and going on, and what the user sees of it."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import tf_wcd
from tests.support import brute_force as bf
from tests.tf_wcd.test_layer import assert_same_variables
from tf_wcd.dbn.pretraining import inputs_of_layer
from tf_wcd.random import batch_source
from tf_wcd.sampling.passes import pass_up
from tf_wcd.training.inputs import ArrayInput, DatasetInput, DataSpec

RNG = np.random.default_rng(0)
X = (RNG.uniform(size=(60, 8)) < np.linspace(0.1, 0.9, 8)).astype("float32")
Y = RNG.integers(0, 3, 60)


SPEC = DataSpec(tf_wcd.units.get("bernoulli"), None, 0, "float32")


def small(labels=0, phase="pcd", compile_with=None, joined=False, **kwargs):
    """A stack whose top layer has labels, which it takes as ``y`` or joined to its columns."""
    options = {"visible_type": tf_wcd.units.Labelled("bernoulli", labels)} if joined else {"classes": labels or None}
    dbn = tf_wcd.DBN(
        [
            tf_wcd.RBMLayer(6, negative_phase=phase, seed=1, name="one", **kwargs),
            tf_wcd.RBMLayer(5, negative_phase=phase, seed=2, name="two", **options, **kwargs),
        ]
    )
    for rbm in dbn.rbms:
        # Without XLA, which takes longer to compile.
        rbm.compile(keras.optimizers.SGD(0.05, momentum=0.9), jit_compile=False, **(compile_with or {}))
    return dbn


@pytest.mark.parametrize("labels", [0, 3])
def test_a_layer_is_trained_on_what_the_layers_below_make_of_the_data(labels):
    dbn = small(labels)
    histories = dbn.pretrain(X, Y if labels else None, epochs=(5, 7), batch_size=60, verbose=0, start_at_means=False)
    # By hand: the first layer on the data, then the second on its expectations with the labels beside them.
    alone = small(labels, joined=bool(labels)).rbms
    alone[0].fit(X, batch_size=60, epochs=5, verbose=0)
    inputs = alone[0](X).numpy()
    alone[1].fit(np.hstack([inputs, np.eye(3)[Y]]) if labels else inputs, batch_size=60, epochs=7, verbose=0)
    for mine, theirs in zip(dbn.rbms, alone, strict=True):
        for name in ("kernel", "visible_bias", "hidden_bias"):
            np.testing.assert_allclose(getattr(mine, name), getattr(theirs, name), atol=2e-6)
    assert [len(h.history["loss"]) for h in histories] == [5, 7]
    assert histories[0].history["reconstruction_error"][-1] < histories[0].history["reconstruction_error"][0]


def test_every_example_comes_once_in_a_pass_and_batches_are_full():
    data = ArrayInput(X, None, None, SPEC, batch_size=25)
    assert data.updates_per_epoch == 3
    batches = [rows.numpy() for _, rows, _ in data.numbered(seed=4, first_epoch=0).take(12)]
    assert {batch.shape for batch in batches} == {(25, 8)}
    passes = np.concatenate(batches).reshape(5, 60, 8)
    for rows in passes:
        np.testing.assert_array_equal(np.sort(rows, axis=0), np.sort(X, axis=0))
    assert (passes[0] != passes[1]).any()
    # A run that goes on at a later epoch gets the batches that it would have got.
    later = [rows.numpy() for _, rows, _ in data.numbered(seed=4, first_epoch=2).take(3)]
    np.testing.assert_array_equal(later, batches[6:9])


def test_samples_are_drawn_from_the_expectations_anew_for_each_batch():
    machine = bf.make_rbm(bf.random_parameters(8, 6)).machine()
    key = tf.constant([5, 6], tf.uint32)
    numbered = ArrayInput(X[:4], None, None, SPEC, batch_size=4).numbered(0, 0)
    means = next(iter(inputs_of_layer(numbered, [machine], "probabilities", key, 0, False)))[0].numpy()
    p = bf.parameters_of(bf.make_rbm(bf.random_parameters(8, 6)))
    np.testing.assert_allclose(means, bf.hidden_mean(p, X[:4], "bernoulli"), rtol=1e-5)
    samples = np.stack([x for x, _, _ in inputs_of_layer(numbered, [machine], "samples", key, 0, False).take(3000)])
    assert set(np.unique(samples)) == {0, 1}
    assert np.all(np.abs(samples.mean(0) - means) < 4.5 * np.sqrt(means * (1 - means) / 3000) + 1e-3)
    # Independent from batch to batch.
    assert abs(np.mean((samples[1:] - means) * (samples[:-1] - means))) < 0.01


def test_samples_of_a_data_set_differ_from_pass_to_pass():
    dbn = small()
    dbn.build((None, 8))
    source = tf.data.Dataset.from_tensor_slices(X).batch(20)
    numbered = DatasetInput(source, SPEC).numbered(3, 0)
    dataset = inputs_of_layer(numbered, dbn.machines()[:1], "samples", tf.constant([1, 2], tf.uint32), 0, False)
    assert int(dataset.cardinality()) == 3
    first, second = (np.concatenate([x for x, _, _ in dataset]) for _ in range(2))
    assert first.shape == (60, 6)
    assert (first != second).any()


@pytest.mark.parametrize(("inputs", "stops"), [("samples", [(2, 0)]), ("probabilities", [(1, 0), (2, 1)])])
def test_a_run_that_was_stopped_saved_and_loaded_goes_on_as_if_it_had_not(inputs, stops, tmp_path):
    whole = small(labels=3)
    whole.pretrain(X, Y, epochs=(2, 3), batch_size=25, inputs=inputs, verbose=0)
    dbn = small(labels=3)
    for stop in stops:
        dbn.pretrain(X, Y, epochs=stop, batch_size=25, inputs=inputs, verbose=0)
        dbn.save(tmp_path / "dbn.keras")
        dbn = keras.models.load_model(tmp_path / "dbn.keras")
        assert [dbn.epochs_done(i) for i in range(2)] == list(stop)
    histories = dbn.pretrain(X, Y, epochs=(2, 3), batch_size=25, inputs=inputs, verbose=0)
    for mine, theirs in zip(dbn.rbms, whole.rbms, strict=True):
        assert_same_variables(mine, theirs)
    assert histories[0].history == {}


def test_a_resumed_run_logs_the_same_where_calls_do_not_divide_the_epoch():
    """Three updates in an epoch, two in a call: metrics are those of the last update of each call."""
    arguments = {"steps_per_execution": 2, "run_eagerly": True}
    whole = small(compile_with=arguments).pretrain(X, epochs=(3, 1), batch_size=25, verbose=0)
    dbn = small(compile_with=arguments)
    parts = [dbn.pretrain(X, epochs=epochs, batch_size=25, verbose=0) for epochs in ((1, 0), (3, 1))]
    for layer in range(2):
        for name, values in whole[layer].history.items():
            assert [v for part in parts for v in part[layer].history.get(name, [])] == values


def test_after_an_interruption_the_same_call_goes_on(tmp_path):
    class Interrupt(keras.callbacks.Callback):
        def on_epoch_end(self, epoch, logs=None):
            if epoch == 3:
                raise KeyboardInterrupt

    path = tmp_path / "dbn.keras"
    dbn = small()
    with pytest.raises(KeyboardInterrupt):
        dbn.pretrain(
            X, epochs=3, batch_size=20, callbacks=[keras.callbacks.ModelCheckpoint(path), Interrupt()], verbose=0
        )
    loaded = keras.models.load_model(path)
    assert [loaded.epochs_done(i) for i in range(2)] == [3, 1]
    for model in (dbn, loaded):
        model.pretrain(X, epochs=3, batch_size=20, verbose=0)
        assert [model.epochs_done(i) for i in range(2)] == [3, 3]
    whole = small()
    whole.pretrain(X, epochs=3, batch_size=20, verbose=0)
    for model in (dbn, loaded):
        for mine, theirs in zip(model.rbms, whole.rbms, strict=True):
            assert_same_variables(mine, theirs)


def test_endless_data_sets_are_not_stored():
    """More data than any memory holds: only batches are ever there."""
    endless = tf.data.Dataset.from_tensor_slices((X, Y)).shuffle(60, seed=0).repeat().batch(20)
    dbn = small(labels=3)
    histories = dbn.pretrain(endless, epochs=2, steps_per_epoch=4, inputs="samples", verbose=0)
    assert [len(h.history["loss"]) for h in histories] == [2, 2]
    assert [int(rbm.optimizer.iterations) for rbm in dbn.rbms] == [8, 8]


def test_finite_data_sets_and_weights():
    weights = RNG.uniform(size=60)
    one, two = small(), small()
    one.pretrain(X, epochs=3, batch_size=60, sample_weight=weights, verbose=0)
    dataset = tf.data.Dataset.from_tensor_slices((X, Y, weights / weights.mean())).batch(60)
    two.pretrain(dataset, epochs=3, verbose=0)
    plain = small()
    plain.pretrain(X, epochs=3, batch_size=60, verbose=0)
    np.testing.assert_allclose(one.rbms[1].kernel, two.rbms[1].kernel, atol=1e-6)
    assert np.abs(one.rbms[1].kernel.numpy() - plain.rbms[1].kernel.numpy()).max() > 1e-4


def test_one_display_for_all_layers(capsys):
    small().pretrain(X, epochs=(2, 1), batch_size=20, verbose=2)
    shown = capsys.readouterr().out
    assert shown.count("Layer 1/2, one (8 -> 6), epoch ") == 2
    assert "Layer 2/2, two (6 -> 5), epoch 1/1" in shown
    assert shown.count("reconstruction_error") == 3
    small().pretrain(X, epochs=1, batch_size=20, verbose=1)
    assert "3/3" in capsys.readouterr().out
    small().pretrain(X, epochs=1, batch_size=20, verbose=0)
    assert capsys.readouterr().out == ""


def test_callbacks_of_the_whole_and_of_single_layers():
    seen = []

    class Listen(keras.callbacks.Callback):
        def on_epoch_end(self, epoch, logs=None):
            seen.append((epoch, logs["layer"], self.model, self.params["epochs"]))

    dbn = small()
    stop = keras.callbacks.EarlyStopping(monitor="loss", min_delta=1e9, patience=1)
    kl = tf_wcd.callbacks.PseudoLikelihood(X)
    histories = dbn.pretrain(
        X, epochs=4, batch_size=20, callbacks=Listen(), layer_callbacks={0: [kl], 1: [stop]}, verbose=0
    )
    assert "pseudo_log_likelihood" in histories[0].history
    # Early stopping of a layer stops that layer.
    assert [(epoch, layer) for epoch, layer, _, _ in seen] == [(0, 0), (1, 0), (2, 0), (3, 0), (4, 1), (5, 1)]
    assert all(model is dbn and total == 8 for _, _, model, total in seen)

    class Stop(keras.callbacks.Callback):
        def on_epoch_end(self, epoch, logs=None):
            self.model.stop_training = True

    dbn = small()
    dbn.pretrain(X, epochs=4, batch_size=20, callbacks=Stop(), verbose=0)
    assert [dbn.epochs_done(i) for i in range(2)] == [1, 0]


def test_initial_layer():
    dbn = small()
    dbn.pretrain(X, epochs=2, batch_size=20, verbose=0)
    dbn.pretrain(X, epochs=3, batch_size=20, verbose=0)
    assert [dbn.epochs_done(i) for i in range(2)] == [2, 3]  # the highest layer that was begun goes on
    dbn.pretrain(X, epochs=4, batch_size=20, initial_layer=0, verbose=0)
    assert [dbn.epochs_done(i) for i in range(2)] == [4, 4]


def test_pass_up_hands_on_expectations_or_samples():
    machines = [bf.make_rbm(bf.random_parameters(*s)).machine() for s in ((8, 6), (6, 5))]
    means = pass_up(machines, tf.constant(X))
    p, q = (bf.random_parameters(*s) for s in ((8, 6), (6, 5)))
    first = bf.hidden_mean(p, X, "bernoulli")
    np.testing.assert_allclose(means[2], bf.hidden_mean(q, first, "bernoulli"), rtol=1e-4)
    drawn = pass_up(machines, tf.constant(X), batch_source(tf.constant([1, 2], tf.uint32)))
    assert [d.shape for d in drawn] == [(60, 8), (60, 6), (60, 5)]
    assert set(np.unique(drawn[2])) <= {0, 1}


def test_bad_arguments_before_any_training():
    class Never(keras.callbacks.Callback):
        def on_train_begin(self, logs=None):
            raise AssertionError("training began")

    for arguments, message in (
        ({"x": X[:, 0]}, r"shape \[examples, visible units\].*Received: shape \(60,\)"),
        ({"x": 2 * X}, r"in \[0, 1\].*Received: 2"),
        ({"x": X, "epochs": (1, 2, 3)}, r"each of the 2 layers. Received: epochs=\(1, 2, 3\)"),
        ({"x": X, "epochs": -1}, r"Received: epochs=-1"),
        ({"x": X, "batch_size": 0}, r"Received: batch_size=0"),
        ({"x": X, "inputs": "means"}, r"\['probabilities', 'samples'\]. Received: inputs='means'"),
        ({"x": X, "initial_layer": 2}, r"0 .. 1. Received: 2"),
        ({"x": X, "steps_per_epoch": 3}, r"goes with a tf.data.Dataset. Received: steps_per_epoch=3"),
        ({"x": iter([X])}, r"an array or a tf.data.Dataset. Received: list_iterator"),
        ({"x": X, "sample_weight": np.ones(3)}, r"60 examples. Received: shape \(3,\)"),
        ({"x": tf.data.Dataset.from_tensor_slices(X).batch(5), "y": Y}, r"goes with arrays"),
    ):
        with pytest.raises(ValueError, match=message):
            small().pretrain(**{"callbacks": Never(), "verbose": 0, **arguments})
    labelled = small(labels=3)
    for y, message in (
        (None, r"pass `y`. Received: no labels"),
        (Y + 1, r"0 .. 2. Received: 3 in row \d"),
        (Y[:5], r"60 class numbers.*Received: shape \(5,\)"),
        (np.full((60, 3), 0.5), r"sum 1 in each row. Received: \[0.5, 0.5, 0.5\] in row 0"),
    ):
        with pytest.raises(ValueError, match=message):
            labelled.pretrain(X, y, callbacks=Never(), verbose=0)
    dbn = small()
    dbn.rbms[1] = tf_wcd.RBMLayer(5, name="late")
    with pytest.raises(ValueError, match=r"Compile every layer.*Received: 'late'"):
        dbn.pretrain(X, callbacks=Never(), verbose=0)
    dbn = small()
    dbn.build((None, 8))
    with pytest.raises(ValueError, match=r"8 columns.*Received: shape \(60, 7\)"):
        dbn.pretrain(X[:, :7], callbacks=Never(), verbose=0)
    dbn.untie()
    with pytest.raises(ValueError, match=r"Pre-train before `fit`. Received: a DBN"):
        dbn.pretrain(X, callbacks=Never(), verbose=0)


@pytest.mark.parametrize("stream", [False, True])
def test_the_first_layer_starts_at_the_means_of_the_data(stream):
    dbn = small(labels=3)
    for rbm in dbn.rbms:
        rbm.optimizer.learning_rate.assign(0.0)  # where they start is where they stay
    weights = np.linspace(0.5, 1.5, 60)
    if stream:
        dbn.pretrain(tf.data.Dataset.from_tensor_slices((X, Y, weights)).batch(20), verbose=0)
    else:
        dbn.pretrain(X, Y, batch_size=20, sample_weight=weights, verbose=0)
    first, second = (rbm.visible_bias.numpy() for rbm in dbn.rbms)
    np.testing.assert_allclose(tf.sigmoid(first), weights / weights.sum() @ X, rtol=1e-4)
    np.testing.assert_array_equal(second, np.zeros(9))


def test_of_one_layer_the_labels_start_at_their_means_too():
    rbm = tf_wcd.RBMLayer(4, classes=3, seed=0)
    rbm.compile(keras.optimizers.SGD(0.0), run_eagerly=True)
    tf_wcd.DBN([rbm]).pretrain(X, Y, batch_size=60, verbose=0)
    np.testing.assert_allclose(tf.sigmoid(rbm.visible_bias[:8]), X.mean(0), rtol=1e-4)
    np.testing.assert_allclose(tf.nn.softmax(rbm.visible_bias[8:]), np.bincount(Y) / 60, rtol=1e-4)


@pytest.mark.parametrize(
    ("options", "arguments", "bias"),
    [({}, {"start_at_means": False}, 0.0), ({"visible_bias_initializer": "ones"}, {}, 1.0)],
)
def test_a_layer_that_begins_elsewhere_stays_there(options, arguments, bias):
    rbm = tf_wcd.RBMLayer(4, seed=0, **options)
    rbm.compile(keras.optimizers.SGD(0.0), run_eagerly=True)
    tf_wcd.DBN([rbm]).pretrain(X, batch_size=60, verbose=0, **arguments)
    np.testing.assert_array_equal(rbm.visible_bias, np.full(8, bias))
