"""The up-down algorithm: its fixed point, its gradients, and what it does to the likelihood."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import tf_wcd
from tests.support import brute_force as bf
from tests.support import dbn_enumeration as de
from tf_wcd.random import batch_source, subkey
from tf_wcd.sampling.passes import pass_up
from tf_wcd.training.step import gradient_of


def exact_samples(dbn, rows, seed):
    probabilities = de.data_distribution(dbn)
    index = np.random.default_rng(seed).choice(len(probabilities), rows, p=probabilities / probabilities.sum())
    return bf.space("bernoulli", dbn.num_visible)[index].astype("float32")


def test_a_perfect_model_is_a_fixed_point():
    """Data from the model, and recognition weights that are the true posterior: every gradient is zero on average."""
    below = bf.make_rbm(bf.random_parameters(4, 3), name="below")
    dbn = tf_wcd.DBN([below, tf_wcd.RBMLayer(4, negative_phase="cd", gibbs_steps=2, seed=0)])
    dbn.build((None, 4))
    dbn.initialize_transposed(1)
    dbn.untie()
    rows = 200_000
    x = exact_samples(dbn, rows, seed=1)
    key = tf.constant([3, 4], tf.uint32)
    update = dbn.update(x, None, {}, key)
    pairs = dbn.lower_pairs(update)
    assert {id(v) for _, v in pairs} == {
        id(v) for v in (dbn.generative.kernels[0], below.visible_bias, below.kernel, below.hidden_bias)
    }
    top = gradient_of(update.top)
    for gradient in [*(g for g, _ in pairs), top.kernel, top.visible_bias, top.hidden_bias]:
        assert np.abs(gradient).max() < 4.5 * 0.5 / np.sqrt(rows)
    # Away from it they are not: another generative kernel, another recognition kernel.
    for variable in (dbn.generative.kernels[0], below.kernel):
        old = variable.numpy()
        variable.assign(old + 0.3)
        moved = dbn.lower_pairs(dbn.update(x, None, {}, key))
        assert max(float(np.abs(g).max()) for g, v in moved if v is variable) > 0.02
        variable.assign(old)


@pytest.mark.parametrize("labels", [0, 3])
def test_gradients_are_those_of_the_predictions(labels):
    """By automatic differentiation: the generative weights predict the wake states, the recognition weights dreams."""
    dbn = de.make_dbn((5, 4, 3, 3), labels=labels, negative_phase="cd")
    dbn.untie()
    for kernel in dbn.generative.kernels:
        kernel.assign_add(0.3 * bf.random_parameters(*kernel.shape, seed=6).W)
    rng = np.random.default_rng(0)
    x = rng.integers(0, 2, (7, 5)).astype("float32")
    y = rng.integers(0, 3, 7)
    weights = rng.uniform(0.5, 1.5, 7).astype("float32")
    key = tf.constant([3, 4], tf.uint32)
    rows = np.hstack([x, np.eye(3)[y]]).astype("float32") if labels else x
    update = dbn.update(rows, weights, {}, key)
    found = {id(v): np.asarray(g) for g, v in dbn.lower_pairs(update)}
    phases = update.top

    wake = pass_up(dbn.machines()[:-1], tf.constant(x), batch_source(subkey(key, 0)))
    dreams = [phases.points.visible[:, :3]]
    source = batch_source(subkey(key, 2))
    for number in (1, 0):
        machine = dbn.generative_machines()[number]
        dreams.insert(0, machine.sample_visible(machine.visible_field(dreams[0]), source, number))
    if labels:
        np.testing.assert_array_equal(phases.batch.visible[:, -3:], np.eye(3)[y])

    for number, rbm in enumerate(dbn.rbms[:-1]):
        generative = dbn.generative.kernels[number]
        with tf.GradientTape() as tape:
            field = wake[number + 1] @ tf.transpose(generative.value) + rbm.visible_bias.value
            losses = tf.nn.sigmoid_cross_entropy_with_logits(labels=wake[number], logits=field)
            loss = tf.reduce_sum(weights[:, None] * losses) / 7
        for variable, gradient in zip(
            (generative, rbm.visible_bias), tape.gradient(loss, [generative.value, rbm.visible_bias.value]), strict=True
        ):
            np.testing.assert_allclose(found[id(variable)], gradient, rtol=1e-4, atol=1e-6)
        with tf.GradientTape() as tape:
            field = dreams[number] @ rbm.kernel.value + rbm.hidden_bias.value
            losses = tf.nn.sigmoid_cross_entropy_with_logits(labels=dreams[number + 1], logits=field)
            loss = tf.reduce_sum(weights[:, None] * losses) / 7  # points of CD have the weights of their examples
        for variable, gradient in zip(
            (rbm.kernel, rbm.hidden_bias), tape.gradient(loss, [rbm.kernel.value, rbm.hidden_bias.value]), strict=True
        ):
            np.testing.assert_allclose(found[id(variable)], gradient, rtol=1e-4, atol=1e-6)


def test_training_raises_the_likelihood():
    dbn = de.make_dbn((4, 4, 4), scale=0.3, negative_phase="pcd", chains=100)
    rows = np.repeat(bf.space("bernoulli", 4)[[3, 5, 9, 12]], [40, 30, 20, 10], axis=0).astype("float32")
    likelihood = lambda: np.log(de.data_distribution(dbn))[bf.index_of(rows)].mean()  # noqa: E731
    start, bound = likelihood(), tf_wcd.evaluation.variational_bound(dbn, rows).mean
    dbn.compile(keras.optimizers.SGD(0.1))
    history = dbn.fit(rows, batch_size=100, epochs=200, verbose=0).history
    assert likelihood() > start + 0.5
    assert tf_wcd.evaluation.variational_bound(dbn, rows).mean > bound + 0.5
    assert history["reconstruction_error"][-1] < history["reconstruction_error"][0]
    assert set(history) == {"loss", "reconstruction_error", "ess"}
    logs = dbn.evaluate(rows, batch_size=100, return_dict=True, verbose=0)
    assert logs["reconstruction_error"] == pytest.approx(history["reconstruction_error"][-1], abs=0.05)


@pytest.mark.parametrize(("labels", "phase"), [(0, "wcd"), (3, "pcd")])
def test_evaluation_before_training_changes_nothing(labels, phase):
    x = np.random.default_rng(0).integers(0, 2, (20, 5)).astype("float32")
    y = np.arange(20) % 3 if labels else None

    def fitted(evaluate):
        dbn = de.make_dbn((5, 4, 3), labels=labels, negative_phase=phase)
        dbn.compile("sgd", run_eagerly=True)  # quicker than compiling so few steps
        logs = dbn.evaluate(x, y, batch_size=7, return_dict=True, verbose=0) if evaluate else {}
        assert all(np.isfinite(value) for value in logs.values())
        assert not dbn.untied
        dbn.fit(x, y, batch_size=10, shuffle=False, verbose=0)
        return dbn, dbn.evaluate(x, y, batch_size=10, return_dict=True, verbose=0)

    (one, measured), (other, expected) = fitted(True), fitted(False)
    assert measured == expected
    for mine, theirs in zip(one.variables, other.variables, strict=True):
        np.testing.assert_array_equal(mine, theirs)


def test_tied_weights_measure_as_their_untied_copies():
    x = np.random.default_rng(0).integers(0, 2, (20, 5)).astype("float32")
    dbn = de.make_dbn((5, 4, 4, 3), negative_phase="pcd")
    dbn.compile("sgd", jit_compile=False)
    tied, samples = dbn.evaluate(x, verbose=0), dbn.sample(5, gibbs_steps=2, seed=0)
    dbn.untie()
    np.testing.assert_allclose(dbn.evaluate(x, verbose=0), tied, rtol=1e-6)
    np.testing.assert_array_equal(dbn.sample(5, gibbs_steps=2, seed=0), samples)
    # Both look at the copies from now on, though they were compiled before.
    dbn.generative.kernels[0].assign_add(np.full((5, 4), 9.0))
    assert dbn.evaluate(x, return_dict=True, verbose=0)["reconstruction_error"] != pytest.approx(tied[1], rel=0.01)
    assert np.any(dbn.sample(5, gibbs_steps=2, seed=0) != samples)


def test_same_seed_same_result_from_arrays_and_data_sets():
    x = np.random.default_rng(0).integers(0, 2, (40, 5)).astype("float32")
    y = np.arange(40) % 3
    results = []
    for source in ((x, y), (tf.data.Dataset.from_tensor_slices((x, y)).batch(20),)):
        dbn = de.make_dbn((5, 4, 3), labels=3)
        dbn.compile("sgd", jit_compile=False)
        dbn.fit(*source, batch_size=20 if len(source) == 2 else None, shuffle=False, epochs=2, verbose=0)
        results.append(dbn.rbms[0].kernel.numpy())
    np.testing.assert_allclose(*results, atol=1e-6)


@pytest.mark.parametrize("labels", [0, 3])
def test_sample_weights_count_in_proportion(labels):
    x = np.random.default_rng(0).integers(0, 2, (20, 5)).astype("float32")
    weights = np.r_[np.ones(10), np.zeros(10)]

    def kernel(x, sample_weight=None):
        dbn = de.make_dbn((5, 4, 3), labels=labels)
        dbn.compile(keras.optimizers.SGD(0.5), run_eagerly=True)  # compiled ones: the tests above
        y = np.arange(len(x)) % 3 if labels else None
        dbn.fit(x, y, batch_size=20, sample_weight=sample_weight, shuffle=False, verbose=0)
        return dbn.generative.kernels[0].numpy()

    weighted = kernel(x, weights)
    np.testing.assert_allclose(kernel(x, 1e-4 * weights), weighted, atol=1e-6)
    np.testing.assert_allclose(kernel(x, np.ones(20)), kernel(x), atol=1e-6)
    assert np.abs(kernel(x) - weighted).max() > 0.01


def test_bad_arguments():
    dbn = de.make_dbn((5, 4, 3), labels=3)
    with pytest.raises(ValueError, match="before `fit`"):
        dbn.fit(np.zeros((4, 5)))
    dbn.compile("sgd")
    for arguments, message in (
        ((np.zeros((4, 5)),), r"3 labels: pass `y`. Received: no labels"),
        ((np.zeros((4, 5)), [0, 1, 2, 3]), r"0 .. 2. Received: 3 in row 3"),
        ((np.zeros((4, 6)), [0, 1, 2, 0]), r"5 columns"),
        ((tf.data.Dataset.from_tensor_slices(np.zeros((4, 5))).batch(2),), r"Received: no labels"),
        ((tf.data.Dataset.from_tensor_slices(np.zeros((0, 5))).batch(2),), r"empty"),
    ):
        with pytest.raises(ValueError, match=message):
            dbn.fit(*arguments, verbose=0)
    for options, message in (
        ({"batch_size": 0}, r"Received: batch_size=0"),
        ({"sample_weight": [-1, 1, 1, 1]}, r"negative. Received: -1.0 at \[0\]"),
    ):
        with pytest.raises(ValueError, match=message):
            dbn.fit(np.zeros((4, 5)), [0, 1, 2, 0], verbose=0, **options)
