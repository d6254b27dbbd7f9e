"""The update of every algorithm against enumeration."""

import itertools

import numpy as np
import pytest
import tensorflow as tf

import tf_wcd
from tests.support import brute_force as bf
from tf_wcd.random import key_of
from tf_wcd.training.gradient import Offsets, phase_difference

PAIRS = [("bernoulli", "bernoulli"), ("spin", "spin"), ("bernoulli", "spin")]
WEIGHTS = np.array([0.3, 1.2])  # unequal, and of a mean that is not one


def data(unit: str) -> np.ndarray:
    low, high = bf.VALUES[unit]
    return np.where(np.array([[0, 1, 1], [1, 0, 1]]) == 1, high, low)


def one_step(rbm, x, weights, lr=1.0):
    """Change of the parameters in one step of SGD through `train_on_batch`, which takes weights as they are."""
    before = bf.parameters_of(rbm)
    rbm.compile(bf.sgd(lr), run_eagerly=True)  # compiled steps: `test_a_step_of_fit_applies_that_gradient`
    rbm.train_on_batch(x, sample_weight=weights)
    return bf.difference(bf.parameters_of(rbm), before)


@pytest.mark.parametrize("pair", PAIRS)
def test_exact_step_is_the_gradient_of_the_log_likelihood(pair):
    """The direct derivative of the enumerated log-likelihood, by finite differences in float64."""
    p = bf.random_parameters(3, 2)
    x = data(pair[0])

    def log_likelihood(q):
        states, prob = bf.visible_distribution(q, *pair)
        index = [np.flatnonzero((states == row).all(1))[0] for row in x]
        return (WEIGHTS / 2 * np.log(prob[index])).sum()

    step = one_step(bf.make_rbm(p, *pair, negative_phase="exact"), x, WEIGHTS)
    for name in p._fields:
        values = getattr(p, name)
        for place in np.ndindex(values.shape):
            up, down = values.copy(), values.copy()
            up[place] += 1e-5
            down[place] -= 1e-5
            slope = (log_likelihood(p._replace(**{name: up})) - log_likelihood(p._replace(**{name: down}))) / 2e-5
            assert getattr(step, name)[place] == pytest.approx(slope, rel=1e-4, abs=2e-6)


def expected_negative(p, pair, phase, x, positive_weights):
    """E[negative phase] by enumeration over all the states that the two points can take."""
    space = bf.space(pair[0], 3)
    hidden_space = bf.space(pair[1], 2)
    if phase in ("cd", "wcd"):
        given_x = bf.conditional(x @ p.W + p.c, pair[1], hidden_space)
    else:
        # Chains hold hidden states; x is read as the hidden states here.
        given_x = (hidden_space[None] == x[:, None]).all(-1).astype(float)
    given_h = bf.conditional(hidden_space @ p.W.T + p.b, pair[0], space)
    chances = given_x @ given_h  # [2 points, 8 states]
    total = None
    for i, j in itertools.product(range(len(space)), repeat=2):
        y = space[[i, j]]
        if phase in ("wcd", "wpcd"):
            free = bf.free_energy(p, y, pair[1])
            w = np.exp(-free - bf.log_sum_exp(-free))
        else:
            w = positive_weights if phase == "cd" else np.full(2, 0.5)
        term = [chances[0, i] * chances[1, j] * m for m in bf.moments(p, y, w, pair[1])]
        total = term if total is None else [a + b for a, b in zip(total, term, strict=True)]
    return bf.Parameters(*total)


def average_gradient(rbm, x, weights, state, repetitions=20_000):
    """Mean and standard error of the gradient over many keys, with parameters and chains held."""

    @tf.function(jit_compile=True)
    def run():
        def body(i, total, squares):
            key = key_of(tf.stack([tf.constant(11, tf.int64), tf.cast(i, tf.int64)]))
            phases = rbm.update(x, weights, state, key)
            g = phase_difference(
                phases.machine, phases.batch, phases.points, phases.log_weights, phases.scale, rbm.offsets()
            )
            flat = tf.concat([tf.reshape(v, [-1]) for v in (g.kernel, g.visible_bias, g.hidden_bias)], 0)
            flat = tf.cast(flat, tf.float64)
            return i + 1, total + flat, squares + flat**2

        zero = tf.zeros([11], tf.float64)
        return tf.while_loop(lambda i, *_: i < repetitions, body, [tf.constant(0), zero, zero])

    _, total, squares = run()
    mean = total.numpy() / repetitions
    return mean, np.sqrt(np.maximum(squares.numpy() / repetitions - mean**2, 0) / repetitions)


def flatten(p) -> np.ndarray:
    return np.concatenate([np.ravel(v) for v in p])


@pytest.mark.parametrize(
    ("pair", "phase"),
    [(PAIRS[2], phase) for phase in ("cd", "wcd", "pcd", "wpcd")] + [(pair, "wcd") for pair in PAIRS[:2]],
)
def test_expected_step_equals_the_enumeration(pair, phase):
    p = bf.random_parameters(3, 2)
    rbm = bf.make_rbm(p, *pair, negative_phase=phase, seed=3)
    x = data(pair[0]).astype("float32")
    chains = np.array([bf.space(pair[1], 2)[1], bf.space(pair[1], 2)[2]])
    state = {"visible": tf.constant(x), "hidden": tf.constant(chains, tf.float32)} if phase in ("pcd", "wpcd") else {}
    mean, error = average_gradient(rbm, tf.constant(x), tf.constant(WEIGHTS, tf.float32), state)
    positive = WEIGHTS / WEIGHTS.sum()
    negative = expected_negative(p, pair, phase, chains if state else x, positive)
    truth = -WEIGHTS.mean() * flatten(bf.difference(bf.moments(p, x, positive, pair[1]), negative))
    assert error.max() < 0.01
    assert np.all(np.abs(mean - truth) < 4 * error + 1e-6)


@pytest.mark.parametrize(
    ("phase", "centered"),
    [("cd", False), ("wcd", True), ("pcd", False), ("wpcd", True), ("exact", False), ("exact", True)],
)
def test_a_step_of_fit_applies_that_gradient(phase, centered):
    """`fit` with SGD at rate 1 moves the parameters by minus `phase_difference` under the update's own key."""
    p = bf.random_parameters(3, 2)
    x = data("bernoulli").astype("float32")
    rbm = bf.make_rbm(p, negative_phase=phase, centered=centered, seed=3)
    rbm.compile(bf.sgd(1.0))
    rbm.prepare(2)
    key = key_of(rbm.seed_generator.state)
    phases = rbm.update(tf.constant(x), tf.constant(WEIGHTS / WEIGHTS.mean(), tf.float32), rbm.phase_state(), key)
    g = phase_difference(phases.machine, phases.batch, phases.points, phases.log_weights, phases.scale, rbm.offsets())
    rbm.fit(x, sample_weight=WEIGHTS, batch_size=2, epochs=1, verbose=0)
    step = bf.difference(bf.parameters_of(rbm), p)
    np.testing.assert_allclose(flatten(step), -flatten((g.kernel, g.visible_bias, g.hidden_bias)), atol=2e-6)


@pytest.mark.parametrize("pair", PAIRS)
@pytest.mark.parametrize("phase", ["wcd", "exact", "pcd"])
def test_centred_step_equals_its_definition(pair, phase):
    p = bf.random_parameters(3, 2)
    x = tf.constant(data(pair[0]), tf.float32)
    rbm = bf.make_rbm(p, *pair, negative_phase=phase, centered=True, seed=1)
    rbm.prepare(2)
    phases = rbm.update(x, tf.constant(WEIGHTS, tf.float32), rbm.phase_state(), key_of(rbm.seed_generator.state))
    mu, lam = np.array([0.1, 0.7, -0.2]), np.array([0.4, 0.25])
    g = phase_difference(
        phases.machine,
        phases.batch,
        phases.points,
        phases.log_weights,
        phases.scale,
        Offsets(*(tf.constant(o, tf.float32) for o in (mu, lam))),
    )
    positive, negative = WEIGHTS / WEIGHTS.sum(), np.exp(phases.log_weights)
    y = phases.points.visible.numpy().astype("float64")
    means = [bf.hidden_mean(p, np.asarray(v), pair[1]) for v in (x, y)]
    centred = [
        (np.asarray(v) - mu).T @ (w[:, None] * (h - lam))
        for v, w, h in zip((x, y), (positive, negative), means, strict=True)
    ]
    scale = WEIGHTS.mean()
    kernel = -scale * (centred[0] - centred[1])
    visible = -scale * (positive @ x.numpy() - negative @ y) - kernel @ lam
    hidden = -scale * (positive @ means[0] - negative @ means[1]) - mu @ kernel
    np.testing.assert_allclose(g.kernel, kernel, atol=1e-6)
    np.testing.assert_allclose(g.visible_bias, visible, atol=1e-6)
    np.testing.assert_allclose(g.hidden_bias, hidden, atol=1e-6)
    np.testing.assert_allclose(g.data_means.visible, positive @ x.numpy(), atol=1e-6)
    np.testing.assert_allclose(g.data_means.hidden, positive @ means[0], atol=1e-6)


def test_offsets_start_in_the_middle_and_follow_the_data():
    rbm = tf_wcd.RBMLayer(4, centered=True, centering_rate=0.25, negative_phase="exact", seed=0)
    rbm.compile(bf.sgd(0.0))
    x = np.array([[1, 1, 0.0], [1, 0, 0]])
    rbm.build((None, 3))
    np.testing.assert_allclose(rbm.visible_offset, 0.5)
    rbm.fit(x, batch_size=2, verbose=0)
    np.testing.assert_allclose(rbm.visible_offset, 0.5 + 0.25 * (x.mean(0) - 0.5))


def test_centred_0_1_units_move_as_spins_do():
    """Exact gradient, offsets held at 1/2: the steps of both are images of each other."""
    p = bf.random_parameters(3, 2, scale=0.3)
    binary = bf.make_rbm(p, centered=True, centering_rate=0.0, negative_phase="exact")
    # x = (s + 1) / 2 in the energy gives the spin machine of the same distribution.
    spin = bf.make_rbm(
        bf.Parameters(p.W / 4, p.b / 2 + p.W.sum(1) / 4, p.c / 2 + p.W.sum(0) / 4),
        "spin",
        "spin",
        negative_phase="exact",
    )
    states = bf.space("bernoulli", 3)
    target = np.random.default_rng(0).dirichlet(np.ones(8))
    for rbm in (binary, spin):
        rbm.compile(bf.sgd(1.0))
    same = lambda: (tf_wcd.evaluation.log_prob(binary, states), tf_wcd.evaluation.log_prob(spin, 2 * states - 1))  # noqa: E731
    np.testing.assert_allclose(*same(), atol=1e-6)
    before = bf.parameters_of(binary), bf.parameters_of(spin)
    binary.fit(states, sample_weight=target, batch_size=8, verbose=0)
    spin.fit(2 * states - 1, sample_weight=target, batch_size=8, verbose=0)
    d, e = (bf.difference(bf.parameters_of(rbm), old) for rbm, old in zip((binary, spin), before, strict=True))
    np.testing.assert_allclose(e.W, 4 * d.W, atol=1e-5)
    np.testing.assert_allclose(e.b, 2 * (d.b + d.W.sum(1) / 2), atol=1e-5)
    np.testing.assert_allclose(e.c, 2 * (d.c + d.W.sum(0) / 2), atol=1e-5)


@pytest.mark.parametrize("pair", PAIRS)
def test_weighted_phase_over_the_whole_space_is_the_exact_gradient(pair):
    p = bf.random_parameters(3, 2)
    x = data(pair[0])
    whole = tf_wcd.negative_phases.FixedPoints(bf.space(pair[0], 3))
    steps = [flatten(one_step(bf.make_rbm(p, *pair, negative_phase=phase), x, WEIGHTS)) for phase in (whole, "exact")]
    np.testing.assert_allclose(*steps, atol=1e-6)


def test_sample_weight_equals_repetition():
    """Weights 1/4 and 3/4, and the second example three times over: the same expected step of CD."""
    p = bf.random_parameters(3, 2)
    x = data("bernoulli").astype("float32")
    rbm = bf.make_rbm(p, negative_phase="cd", seed=0)
    weighted, error_1 = average_gradient(rbm, tf.constant(x), tf.constant([0.5, 1.5]), {})
    repeated, error_2 = average_gradient(rbm, tf.constant(x[[0, 1, 1, 1]]), tf.ones([4]), {})
    assert np.all(np.abs(weighted - repeated) < 4 * np.hypot(error_1, error_2) + 1e-6)
    # The positive phase, and the exact negative phase, agree to the last digit.
    exact = [
        flatten(one_step(bf.make_rbm(p, negative_phase="exact"), rows, weights))
        for rows, weights in ((x, [0.5, 1.5]), (x[[0, 1, 1, 1]], [1, 1, 1, 1]))
    ]
    np.testing.assert_allclose(*exact, atol=1e-6)


def test_arrays_rescale_the_weights_to_mean_one():
    p = bf.random_parameters(3, 2)
    x = data("bernoulli")
    steps = []
    for weights in ([0.25, 0.75], [2, 6], [0.5, 1.5]):
        rbm = bf.make_rbm(p, negative_phase="exact")
        rbm.compile(bf.sgd())
        rbm.fit(x, sample_weight=np.array(weights), batch_size=2, verbose=0)
        steps.append(flatten(bf.parameters_of(rbm)))
    np.testing.assert_allclose(steps[0], steps[2], atol=1e-6)
    np.testing.assert_allclose(steps[1], steps[2], atol=1e-6)


def test_weights_in_a_data_set_are_taken_as_given():
    p = bf.random_parameters(3, 2)
    x = data("bernoulli").astype("float32")
    steps = []
    for weights in ([0.25, 0.75], [0.5, 1.5]):
        rbm = bf.make_rbm(p, negative_phase="exact")
        rbm.compile(bf.sgd())
        rbm.fit(tf.data.Dataset.from_tensors((x, x, np.array(weights, "float32"))), verbose=0)
        steps.append(flatten(bf.difference(bf.parameters_of(rbm), p)))
    np.testing.assert_allclose(2 * steps[0], steps[1], atol=1e-6)


def test_batches_with_unequal_weights_stay_unbiased():
    """Mean of the exact steps of all batches = the step on the whole, because each is scaled by its mean weight."""
    p = bf.random_parameters(3, 2)
    x = bf.space("bernoulli", 3).astype("float32")
    weights = np.random.default_rng(0).uniform(0, 2, 8).astype("float32")
    whole = flatten(one_step(bf.make_rbm(p, negative_phase="exact"), x, weights))
    parts = [
        flatten(one_step(bf.make_rbm(p, negative_phase="exact"), x[i : i + 2], weights[i : i + 2]))
        for i in range(0, 8, 2)
    ]
    np.testing.assert_allclose(np.mean(parts, 0), whole, atol=1e-6)


@pytest.mark.parametrize("hidden_type", ["bernoulli", "spin"])
def test_learned_variance_follows_the_log_likelihood(hidden_type):
    """Gradient of a Gaussian's log-variance against finite differences of the exact log-likelihood."""
    p = bf.random_parameters(2, 2)
    x = np.array([[0.3, -1.2], [1.5, 0.4], [-0.6, 0.9]])
    unit = tf_wcd.units.Gaussian(variance=1.3, learn_variance=True)
    rbm = bf.make_rbm(p, unit, hidden_type, dtype="float64")
    variable = rbm.visible_parameters["log_variance"]
    slopes = []
    for i in range(2):
        values = []
        for change in (1e-5, -1e-5):
            shifted = np.full(2, np.log(1.3))
            shifted[i] += change
            variable.assign(shifted)
            values.append(tf_wcd.evaluation.log_prob(rbm, x).mean())
        slopes.append((values[0] - values[1]) / 2e-5)
    variable.assign(np.full(2, np.log(1.3)))
    # A fine grid stands for the whole space.
    line = np.linspace(-12, 12, 241)
    grid = np.stack(np.meshgrid(line, line, indexing="ij"), -1).reshape(-1, 2)
    rbm.negative_phase = tf_wcd.negative_phases.FixedPoints(grid)
    rbm.compile(bf.sgd(1.0))
    rbm.train_on_batch(x)
    np.testing.assert_allclose(np.asarray(variable) - np.log(1.3), slopes, rtol=1e-5)
