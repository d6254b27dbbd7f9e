"""Conditional RBMs: a row is learned, and sampled, by the RBM whose biases its condition has moved."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import tf_wcd
from tests.support import brute_force as bf
from tf_wcd.random import key_of

P = bf.random_parameters(4, 3, seed=3)
_RNG = np.random.default_rng(8)
A, B = _RNG.normal(0.1, 0.6, (2, 4)), _RNG.normal(-0.2, 0.6, (2, 3))
X = np.array([[1, 0, 0, 1], [0, 1, 1, 1], [0, 0, 1, 0]], "float64")
C = np.array([[0.5, -1.0], [0.0, 1.0], [2.0, 0.3]])
WEIGHTS = np.array([0.5, 0.3, 0.2])
PAIRS = [("bernoulli", "bernoulli"), ("spin", "bernoulli"), ("bernoulli", "spin")]


def key(number):
    return key_of(tf.stack([tf.constant(5, tf.int64), tf.cast(number, tf.int64)]))


def at(condition, p=P, a=A, b=B):
    """The RBM under a condition, the long way."""
    return bf.Parameters(p.W, p.b + condition @ a, p.c + condition @ b)


def data(visible_type):
    return 2 * X - 1 if visible_type == "spin" else X


def make(visible_type="bernoulli", hidden_type="bernoulli", phase="cd", **kwargs):
    rbm = bf.make_rbm(P, visible_type, hidden_type, negative_phase=phase, conditions=2, dtype="float64", **kwargs)
    rbm.visible_condition_kernel.assign(A)
    rbm.hidden_condition_kernel.assign(B)
    return rbm


def gradient(rbm, x=X, condition=C, weights=WEIGHTS, number=0, **options):
    """The step in the order of the variables: W, b, c, A, B."""
    rows = tf.constant(np.concatenate([x, condition], axis=1))
    weights = tf.constant(weights / weights.mean())
    found = rbm.gradient(rbm.update(rows, weights, {}, key(number), **options))
    return [found.kernel, found.visible_bias, found.hidden_bias, found.conditions.visible, found.conditions.hidden]


def log_likelihood(values, visible_type, hidden_type):
    """Weighted mean of log P(x | condition), exact."""
    p, total = bf.Parameters(*values[:3]), 0.0
    for weight, x, condition in zip(WEIGHTS, data(visible_type), C, strict=True):
        states, chances = bf.visible_distribution(at(condition, p, *values[3:]), visible_type, hidden_type)
        total += weight * np.log(chances[(states == x).all(axis=1)].item())
    return total


def slope(function, values):
    """Derivatives by finite differences."""
    slopes = [np.zeros_like(value) for value in values]
    for i, value in enumerate(values):
        for place in np.ndindex(value.shape):
            moved = [[v.copy() for v in values] for _ in range(2)]
            moved[0][i][place] += 1e-5
            moved[1][i][place] -= 1e-5
            slopes[i][place] = (function(moved[0]) - function(moved[1])) / 2e-5
    return slopes


@pytest.mark.parametrize(("visible_type", "hidden_type"), PAIRS)
def test_the_exact_step_is_the_gradient_of_the_conditional_likelihood(visible_type, hidden_type):
    got = gradient(make(visible_type, hidden_type, "exact"), data(visible_type))
    expected = slope(lambda values: log_likelihood(values, visible_type, hidden_type), [*P, A, B])
    for mine, theirs in zip(got, expected, strict=True):
        assert np.abs(theirs).max() > 0.02
        np.testing.assert_allclose(-mine.numpy(), theirs, atol=1e-8)


@pytest.mark.parametrize("standardized", [False, True])
def test_the_centred_step_is_the_gradient_by_centred_parameters(standardized):
    """Energy = -(x - mu) W (h - lambda) - c' A x - c' B h - ..., with c' = condition - its offset."""
    rbm = make(phase="exact", centered=True, standardized=standardized)
    mu, lam, offset = np.array([0.1, 0.9, 0.4, 0.3]), np.array([0.2, 0.5, 0.7]), np.array([0.6, -0.3])
    rbm.visible_offset.assign(mu)
    rbm.hidden_offset.assign(lam)
    rbm.condition_offset.assign(offset)
    visible_scale, hidden_scale = np.ones(4), np.ones(3)
    if standardized:
        variances = np.array([0.1, 0.2, 0.3, 0.05]), np.array([0.25, 0.1, 0.2])
        rbm.visible_variance.assign(variances[0])
        rbm.hidden_variance.assign(variances[1])
        visible_scale, hidden_scale = (1 / (variance + 0.01) for variance in variances)

    def plain(values):
        w, b, c, a, b_h = values
        return [w, b - w @ lam - offset @ a, c - mu @ w - offset @ b_h, a, b_h]

    values = [P.W, P.b + P.W @ lam + offset @ A, P.c + mu @ P.W + offset @ B, A, B]
    np.testing.assert_allclose(plain(values)[1], P.b)
    steps = slope(lambda v: log_likelihood(plain(v), "bernoulli", "bernoulli"), values)
    scales = [visible_scale[:, None] * hidden_scale, visible_scale, hidden_scale, visible_scale, hidden_scale]
    expected = plain([step * scale for step, scale in zip(steps, scales, strict=True)])
    for mine, theirs in zip(gradient(rbm), expected, strict=True):
        np.testing.assert_allclose(-mine.numpy(), theirs, atol=1e-7)
    update = rbm.update(tf.constant(np.concatenate([X, C], axis=1)), tf.constant(WEIGHTS), {}, key(0))
    rbm.follow_data(rbm.gradient(update))
    np.testing.assert_allclose(rbm.condition_offset, offset + 0.01 * (WEIGHTS @ C - offset))


def test_the_expected_step_of_cd_is_that_of_each_row_under_its_condition():
    expected = [np.zeros_like(v) for v in (*P, A, B)]
    states, hidden = bf.space("bernoulli", 4), bf.space("bernoulli", 3)
    for weight, x, condition in zip(WEIGHTS, X, C, strict=True):
        p = at(condition)
        first = bf.conditional(x[None] @ p.W + p.c, "bernoulli", hidden)
        second = bf.conditional(hidden @ p.W.T + p.b, "bernoulli", states)
        one = np.array([weight])
        step = bf.difference(
            bf.moments(p, x[None], one, "bernoulli"),
            bf.moments(p, states, weight * (first @ second)[0], "bernoulli"),
        )
        for total, part in zip(
            expected, [*step, np.outer(condition, step.b), np.outer(condition, step.c)], strict=True
        ):
            total += part
    rbm = make()
    rows, conditions = (np.repeat(values, 500, axis=0) for values in (X, C))
    step = tf.function(lambda number: gradient(rbm, rows, conditions, np.repeat(WEIGHTS, 500), number))
    steps = [step(tf.constant(number, tf.int64)) for number in range(150)]
    for got, part in zip(zip(*steps, strict=True), expected, strict=True):
        got = np.array(got)
        error = got.std(axis=0) / np.sqrt(len(got))
        assert (np.abs(got.mean(axis=0) + part) < 4 * error + 1e-6).all()
        assert np.abs(part).max() > 10 * error.max()


UNITS = {
    "gaussian": ("gaussian", "bernoulli"),
    "potts": (tf_wcd.units.Potts(2), tf_wcd.units.Potts(3)),
    "binomial": (tf_wcd.units.Binomial(3), "spin"),
    "drelu": ("drelu", "drelu"),
    "mixed": (tf_wcd.units.Mixed([("drelu", 1), ("bernoulli", 1), (tf_wcd.units.Potts(2), 2)]), "relu"),
}


@pytest.mark.parametrize("name", UNITS)
@pytest.mark.parametrize("dropout", [0.0, 0.5])
def test_a_row_is_learned_as_by_the_layer_under_its_condition(name, dropout):
    if name == "drelu" and dropout:
        return  # refused with or without conditions
    visible, hidden = UNITS[name]
    x = np.array([[1.0, 0.0, 0.0, 1.0]])
    rbm = make(visible, hidden, tf_wcd.negative_phases.CD(1), hidden_dropout=dropout)
    rows, given = tf.constant(np.concatenate([x, C[:1]], axis=1)), rbm.given(C[0])
    for number in range(20):
        update = rbm.update(rows, None, {}, key(number), training=True)
        if (update.points.visible.numpy() != x).any():  # not a reconstruction that is the example again
            break
    same = given.update(tf.constant(x), None, {}, key(number), training=True)
    np.testing.assert_allclose(update.points.visible, same.points.visible, atol=1e-12)
    mine, theirs = rbm.gradient(update), given.gradient(same)
    assert np.abs(theirs.visible_bias).max() > 1e-3
    for got, expected in zip(tf.nest.flatten(mine[:5]), tf.nest.flatten(theirs[:5]), strict=True):
        np.testing.assert_allclose(got, expected, atol=1e-12)
    np.testing.assert_allclose(mine.conditions.visible, np.outer(C[0], theirs.visible_bias), atol=1e-12)
    np.testing.assert_allclose(mine.conditions.hidden, np.outer(C[0], theirs.hidden_bias), atol=1e-12)
    for name, value in rbm.measures(update).items():
        np.testing.assert_allclose(value, given.measures(same)[name], err_msg=name)


def test_given_is_the_distribution_under_a_condition():
    rbm = make()
    for condition in C:
        states, chances = bf.visible_distribution(at(condition), "bernoulli", "bernoulli")
        given = rbm.given(condition)
        np.testing.assert_allclose(tf_wcd.evaluation.log_prob(given, states), np.log(chances), atol=1e-9)
        pair = [states, condition]
        np.testing.assert_allclose(tf_wcd.evaluation.log_prob(rbm, pair), np.log(chances), atol=1e-9)
    several = tf_wcd.evaluation.log_prob(rbm, [X[[0, 1, 2, 0]], C[[0, 1, 2, 1]]])
    expected = [tf_wcd.evaluation.log_prob(rbm.given(C[i]), X[j : j + 1])[0] for j, i in enumerate([0, 1, 2])]
    np.testing.assert_allclose(several[:3], expected, atol=1e-9)
    np.testing.assert_allclose(several[3], tf_wcd.evaluation.log_prob(rbm, [X[:1], C[1:2]])[0], atol=1e-9)
    np.testing.assert_allclose(given(X), bf.hidden_mean(at(C[2]), X, "bernoulli"), atol=1e-9)
    assert given.conditions == 0
    assert given.sample(3, gibbs_steps=2, method="pt", temperatures=3).shape == (3, 4)


def test_functions_of_states_take_a_pair():
    rbm = make()
    hidden, free, energies, back = rbm([X, C]), rbm.free_energy([X, C]), rbm.energy([X, C], X[:, :3]), None
    back = rbm.reconstruct([X, C])
    for i, condition in enumerate(C):
        p = at(condition)
        mean = bf.hidden_mean(p, X[i : i + 1], "bernoulli")
        np.testing.assert_allclose(hidden[i], mean[0], atol=1e-9)
        np.testing.assert_allclose(free[i], bf.free_energy(p, X[i : i + 1], "bernoulli")[0], atol=1e-9)
        np.testing.assert_allclose(energies[i], bf.energy(p, X[i : i + 1], X[i : i + 1, :3])[0, 0], atol=1e-9)
        np.testing.assert_allclose(back[i], 1 / (1 + np.exp(-(mean @ p.W.T + p.b)))[0], atol=1e-9)
    one = rbm.free_energy([X, C[1]])
    np.testing.assert_allclose(one, bf.free_energy(at(C[1]), X, "bernoulli"), atol=1e-9)
    np.testing.assert_allclose(rbm.predict([X, C], verbose=0), hidden, atol=1e-9)


def test_samples_keep_to_the_distribution_of_their_condition():
    rbm, count = make(), 20000
    rng, starts, truths = np.random.default_rng(0), [], []
    for condition in C[:2]:
        states, chances = bf.visible_distribution(at(condition), "bernoulli", "bernoulli")
        starts.append(states[rng.choice(len(states), count, p=chances)])
        truths.append(chances)
    conditions = np.repeat(C[:2], count, axis=0)
    drawn = rbm.sample(2 * count, 3, initial=np.concatenate(starts), condition=conditions, seed=1).numpy()
    anew = rbm.sample(2 * count, 200, condition=conditions, seed=2).numpy()
    for samples in (drawn, anew):
        for number, chances in enumerate(truths):
            own = samples[number * count : (number + 1) * count]
            distance, floor = bf.total_variation(np.bincount(bf.index_of(own), minlength=16), chances)
            assert distance < 1.8 * floor
            assert bf.total_variation(np.bincount(bf.index_of(own), minlength=16), truths[1 - number])[0] > 10 * floor
    one = rbm.sample(50, 20, condition=C[0], seed=4)
    assert (one.numpy() == rbm.sample(50, 20, condition=np.repeat(C[:1], 50, axis=0), seed=4).numpy()).all()
    held = rbm.sample(50, 20, initial=[1, 0, 1, 0], clamp=[1, 1, 0, 0], condition=C[0], seed=4).numpy()
    assert (held[:, :2] == [1, 0]).all()
    assert held[:, 2:].std() > 0


def test_training_finds_a_conditional_distribution():
    """x_0 is random, x_1 is x_0 under one condition and its opposite under the other: only hidden units can say so."""
    states = np.array([[0, 0, 1], [1, 1, 1], [0, 1, 0], [1, 0, 0]], "float32")
    condition = np.array([[1, 0], [1, 0], [0, 1], [0, 1]], "float32")
    start = keras.initializers.RandomNormal(stddev=0.5, seed=0)
    rbm = tf_wcd.RBMLayer(4, conditions=2, negative_phase="exact", centered=True, kernel_initializer=start)
    rbm.compile(keras.optimizers.SGD(0.2, momentum=0.9))
    rbm.fit([states, condition], batch_size=4, steps_per_epoch=2000, verbose=0)
    assert np.abs(rbm.hidden_condition_kernel.numpy() - rbm.kernel.numpy()[:2]).min() > 1e-3
    for number, own in ((0, states[:2]), (2, states[2:])):
        assert tf_wcd.evaluation.kl_divergence(rbm.given(condition[number]), own, [0.5, 0.5]) < 0.03


def test_a_penalty_on_the_conditions_acts_on_both_kernels():
    rbm = make(condition_regularizer=keras.regularizers.L2(0.5), kernel_regularizer=keras.regularizers.L2(0.25))
    plain = make()
    plain_update, update = (
        layer.update(tf.constant(np.concatenate([X, C], axis=1)), None, {}, key(0)) for layer in (plain, rbm)
    )
    without = {v.name: g for g, v in plain.gradient_pairs(plain.gradient(plain_update))}
    for found, variable in rbm.gradient_pairs(rbm.gradient(update)):
        rate = {"kernel": 0.5, "visible_condition_kernel": 1.0, "hidden_condition_kernel": 1.0}.get(variable.name, 0.0)
        np.testing.assert_allclose(found, without[variable.name] + rate * variable.numpy(), atol=1e-12)


def test_the_target_activity_is_that_under_the_conditions():
    rbm = make(activity_target=0.5, hidden_dropout=0.5)
    rbm.compile(keras.optimizers.SGD(0.0))
    rbm.train_on_batch([X, C])
    means = [bf.hidden_mean(at(c), x[None], "bernoulli")[0] for x, c in zip(X, C, strict=True)]
    np.testing.assert_allclose(rbm.hidden_activity, 0.9 * 0.5 + 0.1 * np.mean(means, axis=0), atol=1e-9)
