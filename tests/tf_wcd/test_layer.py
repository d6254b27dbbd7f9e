"""RBMLayer as a citizen of Keras."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import tf_wcd
from tests.support import brute_force as bf

X = (np.random.default_rng(0).uniform(size=(60, 8)) < 0.4).astype("float32")


def small(**kwargs):
    return tf_wcd.RBMLayer(5, **{"seed": 1, **kwargs})


def trained(**kwargs):
    rbm = small(**kwargs)
    # What is tested here does not depend on XLA, whose compilation would take most of the time.
    rbm.compile(keras.optimizers.SGD(0.05, momentum=0.9), jit_compile=False)
    rbm.fit(X, batch_size=20, epochs=2, verbose=0)
    return rbm


def assert_same_variables(a, b):
    assert [tuple(v.shape) for v in a.variables] == [tuple(v.shape) for v in b.variables]
    for u, v in zip(a.variables, b.variables, strict=True):
        np.testing.assert_array_equal(u.numpy(), v.numpy(), err_msg=u.path)


def test_shapes_and_names():
    rbm = trained()
    assert rbm.kernel.shape == (8, 5)
    assert rbm.visible_bias.shape == (8,)
    assert rbm.hidden_bias.shape == (5,)
    assert rbm(X).shape == (60, 5)
    assert rbm.predict(X, verbose=0).shape == (60, 5)
    np.testing.assert_allclose(rbm.predict(X, verbose=0), rbm(X), rtol=1e-5)
    assert rbm.compute_output_shape((None, 8)) == (None, 5)
    assert rbm.reconstruct(X).shape == X.shape
    lines = []
    rbm.summary(print_fn=lambda line, **_: lines.append(line))
    assert "53" in "".join(lines)  # 8 * 5 + 8 + 5


def test_logs_have_the_metrics():
    history = trained(negative_phase="wcd").history.history
    assert set(history) == {"loss", "reconstruction_error", "ess"}
    assert 0 < history["ess"][-1] <= 1
    assert trained(negative_phase="cd").history.history["ess"][-1] == pytest.approx(1, abs=1e-5)
    rbm = trained()
    logs = rbm.evaluate(X, return_dict=True, verbose=0)
    assert set(logs) == {"loss", "reconstruction_error", "ess"}


def test_metrics_equal_their_definitions():
    rbm = bf.make_rbm(bf.random_parameters(8, 5), negative_phase=tf_wcd.negative_phases.FixedPoints(X[:7]))
    rbm.compile(bf.sgd(0.0))
    logs = rbm.evaluate(X, batch_size=60, return_dict=True, verbose=0)
    p = bf.parameters_of(rbm)
    free = bf.free_energy(p, X[:7].astype("float64"), "bernoulli")
    w = np.exp(-free - bf.log_sum_exp(-free))
    assert logs["loss"] == pytest.approx(
        bf.free_energy(p, X.astype("float64"), "bernoulli").mean() - w @ free, rel=1e-4
    )
    assert logs["ess"] == pytest.approx(1 / (w**2).sum() / 7, rel=1e-4)
    assert logs["reconstruction_error"] == pytest.approx(np.square(X - rbm.reconstruct(X)).mean(), rel=1e-5)


def test_evaluation_changes_nothing():
    for phase in ("wcd", "wpcd"):
        one, two = trained(negative_phase=phase), trained(negative_phase=phase)
        one.evaluate(X, verbose=0)
        one.sample(3, gibbs_steps=2)
        for rbm in (one, two):
            rbm.fit(X, batch_size=20, verbose=0)
        for name in ("kernel", "visible_bias", "hidden_bias"):
            np.testing.assert_array_equal(getattr(one, name), getattr(two, name))


@pytest.mark.parametrize("phase", ["wcd", "pcd", "exact"])
def test_evaluation_before_training_changes_nothing(phase):
    """Least of all the number of chains, which is that of the first batch of training."""
    rbm = small(negative_phase=phase)
    rbm.compile(keras.optimizers.SGD(0.05, momentum=0.9), jit_compile=False)
    before = rbm.evaluate(X, batch_size=7, return_dict=True, verbose=0)
    assert rbm.evaluate(X, batch_size=7, return_dict=True, verbose=0) == before
    assert all(np.isfinite(value) for value in before.values())
    assert rbm.chain_variables == {}
    rbm.fit(X, batch_size=20, epochs=2, verbose=0)
    plain = trained(negative_phase=phase)
    assert_same_variables(rbm, plain)
    # From now on it measures with the chains of the training.
    after = [model.evaluate(X, batch_size=20, return_dict=True, verbose=0) for model in (rbm, plain)]
    assert after[0] == after[1]


@pytest.mark.parametrize(("rows", "eagerly"), [(1, True), (60, False)])
def test_what_is_measured_before_training_is_what_training_starts_from(rows, eagerly):
    def measured(call):
        rbm = small(negative_phase="pcd")
        rbm.compile("sgd", jit_compile=False, run_eagerly=eagerly)
        rbm.build((None, 8))
        return call(rbm)

    def prepared(rbm):
        rbm.prepare(batch_size=rows)
        return rbm.evaluate(X[:rows], batch_size=rows, verbose=0)

    expected = measured(prepared)
    np.testing.assert_allclose(measured(lambda rbm: rbm.evaluate(X[:rows], batch_size=rows, verbose=0)), expected)
    np.testing.assert_allclose(measured(lambda rbm: rbm.test_on_batch(X[:rows])), expected, rtol=1e-6)


@pytest.mark.parametrize("phase", ["bcd", "wpcd"])
def test_same_seed_same_result(phase):
    first = trained(negative_phase=phase)
    assert_same_variables(first, trained(negative_phase=phase))
    assert (first.kernel.numpy() != trained(negative_phase=phase, seed=2).kernel.numpy()).any()


@pytest.mark.parametrize(("phase", "centered"), [("wcd", False), ("wpcd", True), ("exact", False)])
def test_a_reloaded_model_goes_on_as_if_it_had_never_been_saved(phase, centered, tmp_path):
    rbm = trained(negative_phase=phase, centered=centered)
    rbm.save(tmp_path / "rbm.keras")
    loaded = keras.models.load_model(tmp_path / "rbm.keras")
    assert_same_variables(rbm, loaded)
    for model in (rbm, loaded):
        model.fit(X, batch_size=20, epochs=3, verbose=0)
    assert_same_variables(rbm, loaded)
    assert loaded.optimizer.iterations == 15
    np.testing.assert_array_equal(rbm.sample(4, gibbs_steps=3), loaded.sample(4, gibbs_steps=3))


def test_config_round_trip():
    rbm = tf_wcd.RBMLayer(
        5, tf_wcd.units.Gaussian(variance=2.0, learn_variance=True), "spin", "wpcd",
        gibbs_steps=3, chains=7, centered=True, centering_rate=0.1,
        kernel_initializer="glorot_uniform", visible_bias_initializer="ones", seed=4, name="first",
    )  # fmt: skip
    copy = tf_wcd.RBMLayer.from_config(rbm.get_config())
    assert copy.get_config() == rbm.get_config()
    assert copy.visible_unit == rbm.visible_unit
    assert (copy.negative_phase.source.gibbs_steps, copy.negative_phase.source.chains) == (3, 7)
    assert tf_wcd.RBMLayer(3).get_config()["visible_type"] == "bernoulli"


def test_save_gaussian_with_learned_variance(tmp_path):
    x = np.random.default_rng(0).normal(size=(50, 4)).astype("float32")
    rbm = tf_wcd.RBMLayer(3, tf_wcd.units.Gaussian(learn_variance=True), negative_phase="pcd", seed=0)
    rbm.compile("adam", jit_compile=False)
    rbm.fit(x, epochs=2, verbose=0)
    assert (rbm.visible_parameters["log_variance"].numpy() != 0).all()
    rbm.save(tmp_path / "rbm.keras")
    loaded = keras.models.load_model(tmp_path / "rbm.keras")
    for model in (rbm, loaded):
        model.fit(x, epochs=1, verbose=0)
    assert_same_variables(rbm, loaded)


def test_weights_file(tmp_path):
    rbm = trained()
    rbm.save_weights(tmp_path / "rbm.weights.h5")
    other = small(seed=9)
    other.build((None, 8))
    other.phase_variables.build({})
    other.load_weights(tmp_path / "rbm.weights.h5")
    np.testing.assert_array_equal(other.kernel, rbm.kernel)


def test_clone_model():
    stack = keras.Sequential([keras.Input((8,)), small(name="a"), tf_wcd.RBMLayer(3, name="b"), keras.layers.Dense(2)])
    clone = keras.models.clone_model(stack)
    assert [layer.name for layer in clone.layers] == ["a", "b", stack.layers[-1].name]
    assert clone(X).shape == (60, 2)
    rbm = trained()
    copy = keras.models.clone_model(rbm)
    assert copy.get_config() == rbm.get_config()


@pytest.mark.parametrize("kind", ["sequential", "functional"])
def test_a_stack_is_fine_tuned_by_back_propagation(kind):
    rbm = small(hidden_type="spin", kernel_initializer="glorot_uniform")
    if kind == "sequential":
        model = keras.Sequential([rbm, keras.layers.Dense(1, activation="sigmoid")])
    else:
        inputs = keras.Input((8,))
        model = keras.Model(inputs, keras.layers.Dense(1, activation="sigmoid")(rbm(inputs)))
    y = X[:, 0]
    model.compile(keras.optimizers.Adam(0.05), "binary_crossentropy")
    model.fit(X, y, epochs=1, verbose=0)
    before = rbm.kernel.numpy().copy()
    history = model.fit(X, y, epochs=15, verbose=0).history["loss"]
    assert history[-1] < 0.5 * history[0]
    assert (rbm.kernel.numpy() != before).any()


def test_gradient_through_call_equals_finite_differences():
    rbm = bf.make_rbm(bf.random_parameters(4, 3), "spin", "spin", dtype="float64")
    x = tf.constant(bf.space("spin", 4)[:5])
    with tf.GradientTape() as tape:
        value = tf.reduce_sum(rbm(x) ** 2)
    slope = tape.gradient(value, rbm.kernel.value)[2, 1]
    change = np.zeros((4, 3))
    change[2, 1] = 1e-6
    old = rbm.kernel.numpy()
    values = []
    for sign in (1, -1):
        rbm.kernel.assign(old + sign * change)
        values.append(float(tf.reduce_sum(rbm(x) ** 2)))
    assert float(slope) == pytest.approx((values[0] - values[1]) / 2e-6, rel=1e-5)


@pytest.mark.parametrize("policy", ["mixed_bfloat16", "mixed_float16", "float64"])
@pytest.mark.parametrize("phase", ["wpcd"])
def test_precision_policies(policy, phase):
    rbm = trained(dtype=policy, negative_phase=phase)
    assert rbm.kernel.dtype == ("float64" if policy == "float64" else "float32")
    assert rbm(X).dtype == {"mixed_bfloat16": "bfloat16", "mixed_float16": "float16", "float64": "float64"}[policy]
    assert all(np.isfinite(v.numpy()).all() for v in rbm.variables)
    plain = trained(negative_phase=phase)
    assert rbm.history.history["loss"][-1] == pytest.approx(plain.history.history["loss"][-1], abs=0.5)
    # The update moved the weights about as far as in float32: the scaling of small gradients was undone.
    start = small()
    start.build((None, 8))
    moved = [np.linalg.norm(m.visible_bias.numpy() - start.visible_bias.numpy()) for m in (rbm, plain)]
    assert moved[0] == pytest.approx(moved[1], rel=0.3)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_narrow_variables_are_refused(dtype):
    for model in (small, lambda dtype: tf_wcd.DBN([small()], dtype=dtype)):
        with pytest.raises(ValueError, match=rf"use the policy 'mixed_{dtype}'. Received: dtype='{dtype}'"):
            model(dtype=dtype)


def test_a_layer_with_chains_wants_a_file_with_chains(tmp_path):
    rbm = small(negative_phase="pcd")
    rbm.build((None, 8))
    rbm.save_weights(tmp_path / "rbm.weights.h5")
    rbm.prepare(batch_size=4)
    with pytest.raises(ValueError, match=r"arrays \['hidden', 'visible'\].*Received: a file with arrays \[\]"):
        rbm.load_weights(tmp_path / "rbm.weights.h5")


@pytest.mark.parametrize("phase", ["pcd", "wcd"])
def test_a_new_layer_takes_over_the_chains_of_a_file(phase, tmp_path):
    rbm = trained(negative_phase="pcd")
    rbm.save_weights(tmp_path / "rbm.weights.h5")
    other = small(negative_phase=phase, seed=9)
    other.build((None, 8))
    other.compile(keras.optimizers.SGD(0.05, momentum=0.9), jit_compile=False)
    other.load_weights(tmp_path / "rbm.weights.h5")
    for name, value in rbm.chain_states().items():
        np.testing.assert_array_equal(other.chain_states()[name], value)
    assert np.isfinite(other.fit(X, batch_size=20, verbose=0).history["loss"]).all()


def test_a_users_own_negative_phase(names_as_before):
    class TrainingSet(tf_wcd.NegativePhase):
        def points(self, machine, batch, state, key):
            return tf_wcd.negative_phases.Points(batch.visible, batch.hidden_field), state

    tf_wcd.negative_phases.register("test_training_set", TrainingSet)
    for phase in (TrainingSet(), "test_training_set"):
        rbm = trained(negative_phase=phase)
        assert np.isfinite(rbm.kernel.numpy()).all()
        assert 0 < rbm.history.history["ess"][-1] <= 1
    with pytest.raises(NotImplementedError, match=r"points"):
        trained(negative_phase=tf_wcd.NegativePhase())


def test_chains_are_as_many_as_asked_for():
    assert trained(negative_phase="pcd").chain_variables["visible"].shape == (20, 8)
    assert trained(negative_phase="wpcd", chains=7).chain_variables["hidden"].shape == (7, 5)
    assert trained(negative_phase="cd").chain_variables == {}
    rbm = small(negative_phase="pcd")
    rbm.start_chains(X[:6])
    np.testing.assert_array_equal(rbm.chain_variables["visible"], X[:6])
    with pytest.raises(ValueError, match=r"6 chains already. Received: 3"):
        rbm.start_chains(X[:3])
    with pytest.raises(ValueError, match=r"no persistent chains"):
        small(negative_phase="cd").start_chains(X[:3])


def test_another_keras_backend_is_a_clear_error():
    import os
    import subprocess
    import sys

    fake = "import keras; keras.config.backend = lambda: 'jax'; import tf_wcd"
    result = subprocess.run([sys.executable, "-c", fake], capture_output=True, text=True, env=os.environ)
    assert result.returncode != 0
    assert "KERAS_BACKEND=tensorflow" in result.stderr
    assert "'jax'" in result.stderr


@pytest.mark.parametrize(
    ("kind", "x"),
    [
        ("bernoulli", [[0, 1, 1], [0, 1, 0], [0, 1, 0], [0, 1, 1]]),
        ("spin", [[-1, 1, 1], [-1, 1, -1], [-1, 1, -1], [-1, 1, 1]]),
        ("gaussian", [[0.5, -2.0, 0.0], [1.5, 2.5, 4.0]]),
    ],
)
@pytest.mark.parametrize("members", [1, 2])
def test_start_at_means(kind, x, members):
    """Without weights the model has the means of the data, but that none is impossible."""
    if members == 1:
        rbm = tf_wcd.RBMLayer(2, visible_type=kind, kernel_initializer="zeros")
    else:
        rbm = tf_wcd.RBMEnsemble(2, count=members, visible_type=kind, initial_stddev=0.0)
    rbm.start_at_means(x)
    low, high = rbm.visible_unit.data_range
    margin = 0.01 * (high - low) if np.isfinite(high) else 0.0
    expected = np.clip(np.mean(x, axis=0), low + margin, high - margin)
    means = rbm.machine().visible.mean(rbm.visible_bias)
    np.testing.assert_allclose(means, np.broadcast_to(expected, means.shape), rtol=1e-5, atol=1e-6)
