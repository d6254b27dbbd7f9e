"""`fit`: blocks of updates, all kinds of input, Keras' optimizers and callbacks."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import tf_wcd
from tests.support import brute_force as bf
from tf_wcd.training import sharing
from tf_wcd.training.loop import automatic_updates_per_call

X = (np.random.default_rng(0).uniform(size=(50, 6)) < 0.4).astype("float32")


def fitted(x=X, optimizer=None, compile_with=None, layer=None, **fit_with):
    rbm = tf_wcd.RBMLayer(4, seed=1, **(layer or {}))
    rbm.compile(optimizer or keras.optimizers.SGD(0.1, momentum=0.9), **(compile_with or {}))
    rbm.fit(x, **{"verbose": 0, **fit_with})
    return rbm


def weights(rbm):
    return np.concatenate([v.numpy().ravel() for v in (rbm.kernel, rbm.visible_bias, rbm.hidden_bias)])


@pytest.mark.xla
@pytest.mark.parametrize(("data", "phase"), [("pass", "wcd"), ("endless", "pcd"), ("stream", "wcd")])
def test_many_updates_in_one_call_equal_single_ones(data, phase):
    arguments = {
        "pass": {"batch_size": 8, "epochs": 3},  # the last batch of each pass is smaller
        "endless": {"batch_size": 8, "epochs": 3, "steps_per_epoch": 7},
        "stream": {"x": tf.data.Dataset.from_tensor_slices(X).batch(8), "epochs": 3},
    }[data]
    runs = [
        fitted(
            compile_with={"steps_per_execution": s, "jit_compile": jit}, layer={"negative_phase": phase}, **arguments
        )
        for s, jit in ((1, False), (3, False), ("auto", True))
    ]
    assert int(runs[0].optimizer.iterations) == 21
    for run in runs[1:]:
        assert int(run.optimizer.iterations) == 21
        np.testing.assert_allclose(weights(run), weights(runs[0]), atol=2e-6)


@pytest.mark.xla
def test_eagerly_the_same():
    runs = [fitted(batch_size=25, epochs=2, compile_with={"run_eagerly": eager}) for eager in (True, False)]
    np.testing.assert_allclose(weights(runs[0]), weights(runs[1]), atol=2e-6)


@pytest.mark.parametrize(
    "optimizer",
    [
        lambda: keras.optimizers.Adam(0.01),
        pytest.param(
            lambda: keras.optimizers.SGD(
                keras.optimizers.schedules.PolynomialDecay(0.1, 6, 0.0), momentum=0.75, weight_decay=0.01
            ),
            marks=pytest.mark.xla,
        ),
        lambda: keras.optimizers.SGD(0.1, clipnorm=0.05),
        lambda: keras.optimizers.RMSprop(0.01),
    ],
)
def test_optimizers_work_inside_the_loop(optimizer):
    """Against the plain Keras loop: one call of `train_on_batch` for each update."""
    inside = fitted(optimizer=optimizer(), batch_size=50, epochs=2, steps_per_epoch=4)
    plain = tf_wcd.RBMLayer(4, seed=1)
    plain.compile(optimizer())
    for _ in range(8):
        plain.train_on_batch(X)
    np.testing.assert_allclose(weights(inside), weights(plain), atol=1e-5)  # compiled by XLA one rounds in another way
    assert np.abs(weights(inside)).max() > 0.01


def test_schedule_reaches_its_end():
    rbm = fitted(
        optimizer=keras.optimizers.SGD(keras.optimizers.schedules.PolynomialDecay(0.1, 8, 0.0)),
        batch_size=50,
        steps_per_epoch=8,
    )
    before = weights(rbm)
    rbm.fit(X, batch_size=50, verbose=0)  # the learning rate is zero now
    np.testing.assert_array_equal(weights(rbm), before)


class Pieces(keras.utils.PyDataset):
    def __len__(self):
        return 5

    def __getitem__(self, i):
        return X[10 * i : 10 * i + 10], np.zeros(10)


def test_every_kind_of_input_gives_the_same_training():
    reference = fitted(batch_size=10, shuffle=False, epochs=2)
    batches = [X[i : i + 10] for i in range(0, 50, 10)]
    kinds = {
        "tensor": dict(x=tf.constant(X), batch_size=10, shuffle=False),
        "float64": dict(x=X.astype("float64"), batch_size=10, shuffle=False),
        "bool": dict(x=X.astype(bool), batch_size=10, shuffle=False),
        "list": dict(x=X.tolist(), batch_size=10, shuffle=False),
        "tf.data": dict(x=tf.data.Dataset.from_tensor_slices(X).batch(10)),
        "tf.data with labels": dict(x=tf.data.Dataset.from_tensor_slices((X, X[:, 0])).batch(10)),
        "tf.data with weights": dict(x=tf.data.Dataset.from_tensor_slices((X, X[:, 0], np.ones(50))).batch(10)),
        "tf.data without end": dict(x=tf.data.Dataset.from_tensor_slices(X).batch(10).repeat(), steps_per_epoch=5),
        "PyDataset": dict(x=Pieces(), shuffle=False),
        "generator": dict(x=(batches[i % 5] for i in range(10)), steps_per_epoch=5),
    }
    for name, arguments in kinds.items():
        np.testing.assert_allclose(weights(fitted(epochs=2, **arguments)), weights(reference), atol=2e-6, err_msg=name)


def test_progress_counts_updates():
    seen = []

    class Count(keras.callbacks.Callback):
        def on_train_batch_end(self, batch, logs=None):
            seen.append((batch, logs["ess"]))

    rbm = fitted(batch_size=10, compile_with={"steps_per_execution": 2}, callbacks=[Count()])
    assert [batch for batch, _ in seen] == [1, 3, 5]
    assert int(rbm.optimizer.iterations) == 5
    assert all(np.isfinite(ess) for _, ess in seen)


def test_validation_data_and_split(tmp_path):
    rbm = fitted(
        batch_size=10, epochs=3, validation_split=0.2,
        callbacks=[
            keras.callbacks.CSVLogger(tmp_path / "log.csv"),
            keras.callbacks.ModelCheckpoint(tmp_path / "best.keras", "val_loss", mode="min", save_best_only=True),
            keras.callbacks.EarlyStopping("val_loss", mode="min", patience=50),
        ],
    )  # fmt: skip
    assert int(rbm.optimizer.iterations) == 12
    assert {"val_loss", "val_ess", "val_reconstruction_error"} <= set(rbm.history.history)
    assert len((tmp_path / "log.csv").read_text().splitlines()) == 4
    assert keras.models.load_model(tmp_path / "best.keras").kernel.shape == (6, 4)
    other = fitted(X[:40], batch_size=10, epochs=3, validation_data=X[40:])
    np.testing.assert_allclose(weights(rbm), weights(other), atol=1e-6)
    np.testing.assert_allclose(rbm.history.history["val_loss"], other.history.history["val_loss"], atol=1e-5)


@pytest.mark.parametrize("kind", ["array", "data set", "generator"])
def test_validation_comes_in_batches_of_the_size_of_training(kind):
    def sizes(**arguments):
        seen = []

        class Own(tf_wcd.negative_phases.WCD):
            name = None

            def points(self, machine, batch, state, key):
                seen.append(batch.visible.shape[0])
                return super().points(machine, batch, state, key)

        x = {
            "array": X,
            "data set": tf.data.Dataset.from_tensor_slices(X).batch(25),
            "generator": iter([X[:25], X[25:]]),
        }[kind]
        steps = {"batch_size": 25} if kind == "array" else {"steps_per_epoch": 2} if kind == "generator" else {}
        fitted(
            x, compile_with={"run_eagerly": True}, layer={"negative_phase": Own()}, validation_data=np.tile(X, (2, 1)),
            **steps, **arguments,
        )  # fmt: skip
        return seen

    assert sizes() == [25, 25, 25, 25, 25, 25]
    assert sizes(validation_batch_size=50) == [25, 25, 50, 50]


def test_two_fits_of_one_epoch_are_one_fit_of_two():
    once = fitted(batch_size=8, epochs=4)
    twice = fitted(batch_size=8, epochs=2)
    twice.fit(X, batch_size=8, epochs=2, verbose=0)
    np.testing.assert_array_equal(weights(once), weights(twice))


def test_other_data_without_a_new_compilation():
    rbm = fitted(batch_size=10)
    programs, traces = len(sharing.kept), sharing.times_traced()
    rbm.fit(X[:30], batch_size=10, verbose=0)
    rbm.fit(1 - X, batch_size=10, verbose=0)
    assert (len(sharing.kept), sharing.times_traced()) == (programs, traces)
    assert rbm._untracked.resident[6].visible.shape[0] in (None, 0)  # the data are not kept


def test_automatic_choice():
    assert automatic_updates_per_call(2000, 1e4) == 2000
    assert automatic_updates_per_call(600, 4e8) == 120
    assert 1 <= automatic_updates_per_call(601, 4e8) <= 125
    assert automatic_updates_per_call(1, 1e12) == 1
    assert automatic_updates_per_call(None, 1e4) == 100


def test_a_batch_without_weight_by_chance_moves_nothing():
    rbm = tf_wcd.RBMLayer(4, seed=1)
    rbm.compile(bf.sgd(1.0))
    rbm.build((None, 6))
    before = weights(rbm)
    sample_weight = np.r_[np.zeros(10), np.ones(10)]

    class Look(keras.callbacks.Callback):
        def on_train_batch_end(self, batch, logs=None):
            if batch == 0:
                np.testing.assert_array_equal(weights(self.model), before)

    rbm.compile(bf.sgd(1.0), steps_per_execution=1)
    rbm.fit(X[:20], sample_weight=sample_weight, batch_size=10, shuffle=False, callbacks=[Look()], verbose=0)
    assert np.isfinite(weights(rbm)).all()
    assert (weights(rbm) != before).any()


@pytest.mark.slow
def test_bars_and_stripes_wcd_beats_cd():
    """BS09, 45 hidden spins, full batch: WCD_1 below KL 0.01 within 3e5 epochs, where CD_1 ends above 0.05."""
    states, probabilities = tf_wcd.datasets.load("BS09")
    results = {}
    for phase in ("wcd", "cd"):
        rbm = tf_wcd.RBMLayer(
            45,
            "spin",
            "spin",
            negative_phase=phase,
            seed=0,
            kernel_initializer=keras.initializers.RandomNormal(stddev=1.0, seed=0),
        )
        rate = keras.optimizers.schedules.PolynomialDecay(0.05, 300_000, 0.0)
        rbm.compile(keras.optimizers.SGD(rate, momentum=0.9))
        kl = tf_wcd.callbacks.ExactKL(2 * states - 1, probabilities)
        rbm.fit(
            2 * states - 1,
            sample_weight=probabilities,
            batch_size=14,
            steps_per_epoch=3000,
            epochs=100,
            callbacks=[kl],
            verbose=0,
        )
        results[phase] = [value for _, value, _ in kl.history]
    assert min(results["wcd"]) < 0.01
    assert results["cd"][-1] > 0.05
