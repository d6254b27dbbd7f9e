"""Errors of steps against the exact gradient: equal to brute force where all outcomes can be listed."""

import itertools

import keras
import numpy as np
import pytest
import tensorflow as tf

import tf_wcd
from tests.support import brute_force as bf
from tf_wcd import plots
from tf_wcd.evaluation import gradient_draws as draws
from tf_wcd.evaluation import gradient_error
from tf_wcd.evaluation.exact_gradient import exact_gradient
from tf_wcd.negative_phases import BCD, CD, PCD, WCD, Exact, NegativePhase
from tf_wcd.training.step import gradient_of, phases_of

KEY = tf.constant([1, 2], tf.uint32)
X = bf.space("bernoulli", 3)[[1, 6, 4]]
WEIGHTS = np.array([0.2, 1.0, 0.5])


def flat(parameters):
    return np.concatenate([np.ravel(part) for part in parameters])


@pytest.fixture(scope="module")
def small():
    """A model of 3 x 2 units, its parameters, all visible states and their probabilities."""
    p = bf.random_parameters(3, 2, scale=2.0)
    return (
        bf.make_rbm(p, negative_phase=PCD(chains=4), seed=0),
        p,
        *bf.visible_distribution(p, "bernoulli", "bernoulli"),
    )


def moments_of_each(p, x):
    return np.stack([flat(bf.moments(p, row[None], np.ones(1), "bernoulli")) for row in x])


def exact_step(p, x, weights, space, probabilities):
    f = moments_of_each(p, space)
    return probabilities @ f - weights / weights.sum() @ moments_of_each(p, x)


def expected(steps, chances, exact):
    """Bias, deviation and mean cosine of steps that have these chances."""
    mean, norm = chances @ steps, np.linalg.norm(exact)
    cosines = steps @ exact / np.maximum(np.linalg.norm(steps, axis=1), 1e-9) / norm  # a step of no length has none
    deviation = np.sqrt(chances @ np.sum((steps - mean) ** 2, axis=1))
    return np.linalg.norm(mean - exact) / norm, deviation / norm, chances @ cosines


def near(error, bias, deviation, cosine, repetitions):
    assert abs(error.bias - bias) < 4 * error.bias_error
    assert error.deviation == pytest.approx(deviation, rel=4 / np.sqrt(repetitions))
    assert abs(error.cosine - cosine) < 4 * error.cosine_error


@pytest.mark.parametrize("centered", [False, True])
@pytest.mark.parametrize("pair", [("bernoulli", "spin"), (tf_wcd.units.Potts(3), "bernoulli")], ids=str)
def test_the_exact_gradient_is_that_of_the_exact_negative_phase(pair, centered):
    rbm = bf.make_rbm(bf.random_parameters(3, 4), *pair, centered=centered)
    x = rbm.visible_unit.states_at(tf.constant([1, 0, 2]), 3)
    if centered:
        rbm.visible_offset.assign([0.3, 0.1, 0.8])
    phases = phases_of(rbm.machine(), Exact(), x, tf.constant(WEIGHTS, "float32"), {}, KEY)
    library = gradient_of(phases._replace(scale=tf.constant(1.0)), rbm.offsets())
    ours = exact_gradient(rbm, x, tf.constant(WEIGHTS / WEIGHTS.sum()))
    for one, other in zip(ours[:3], library[:3], strict=True):
        np.testing.assert_allclose(one, other, atol=1e-6)


def test_the_exact_gradient_of_real_units_is_the_derivative_of_the_likelihood():
    """The hidden side is enumerated, and the variance is learned; by differences."""
    unit = tf_wcd.units.Gaussian(variance=0.7, learn_variance=True)
    rbm = bf.make_rbm(bf.random_parameters(2, 3), unit, "spin", dtype="float64")
    x = np.array([[0.4, -1.0], [1.2, 0.5], [-0.3, 0.8]])
    gradient = draws.named_parts(exact_gradient(rbm, tf.constant(x), tf.constant(WEIGHTS / WEIGHTS.sum())))
    assert list(gradient) == ["kernel", "visible_bias", "hidden_bias", "visible_log_variance"]
    variables = rbm.kernel, rbm.visible_bias, rbm.hidden_bias, rbm.visible_parameters["log_variance"]
    for part, variable in zip(gradient.values(), variables, strict=True):
        value = variable.numpy()
        where = (1,) * value.ndim
        losses = []
        for change in (-1e-4, 1e-4):
            moved = value.copy()
            moved[where] += change
            variable.assign(moved)
            losses.append(-WEIGHTS @ tf_wcd.evaluation.log_prob(rbm, x) / WEIGHTS.sum())
        variable.assign(value)
        assert part.numpy()[where] == pytest.approx((losses[1] - losses[0]) / 2e-4, rel=1e-6)


def test_the_exact_phase_has_no_error(small):
    """Bias and deviation are those of float32."""
    rbm, p, space, probabilities = small
    errors = gradient_error(rbm, X, "exact", sample_weight=WEIGHTS, repetitions=5)
    assert errors.norm == pytest.approx(np.linalg.norm(exact_step(p, X, WEIGHTS, space, probabilities)), rel=1e-6)
    for error in (errors["exact"], *errors["exact"].by_parameter.values()):
        assert error.bias < 2e-6
        assert error.deviation < 1e-6
        assert error.cosine == pytest.approx(1)
    centred = bf.make_rbm(p, centered=True)
    assert gradient_error(centred, X, "exact", repetitions=2)["exact"].bias < 2e-6


def test_fields_of_exactly_zero_have_their_share():
    """The derivative of a Bernoulli unit's cumulant at 0 is 1/2, in the sum over a layer too."""
    rbm = tf_wcd.RBMLayer(3, kernel_initializer="zeros")
    rbm.build((None, 2))
    gradient = exact_gradient(rbm, tf.constant([[1.0, 1.0]]), tf.constant([1.0]))
    np.testing.assert_allclose(gradient.kernel, np.full([2, 3], -0.25))
    np.testing.assert_allclose(gradient.hidden_bias, np.zeros(3), atol=1e-12)


@pytest.mark.xla
def test_cd_and_wcd_equal_brute_force(small):
    """All 64 outcomes for the visible states of two examples, which have unequal weights."""
    rbm, p, space, probabilities = small
    x, weights = X[:2], WEIGHTS[:2]
    exact = exact_step(p, x, weights, space, probabilities)
    hidden = bf.space("bernoulli", 2)
    given_x = bf.conditional(x @ p.W + p.c, "bernoulli", hidden)
    given_h = bf.conditional(hidden @ p.W.T + p.b, "bernoulli", space)
    chances = given_x @ given_h  # [2, 8]
    f, positive = moments_of_each(p, space), weights / weights.sum() @ moments_of_each(p, x)
    outcomes = np.array(list(itertools.product(range(8), repeat=2)))
    chance = chances[0, outcomes[:, 0]] * chances[1, outcomes[:, 1]]
    own = np.tile(weights / weights.sum(), [64, 1])
    relative = probabilities[outcomes] / probabilities[outcomes].sum(axis=1, keepdims=True)
    repetitions = 20_000
    errors = gradient_error(rbm, x, ["cd", "wcd"], sample_weight=weights, repetitions=repetitions, seed=3)
    for name, w in (("cd", own), ("wcd", relative)):
        steps = np.einsum("om,omp->op", w, f[outcomes]) - positive
        near(errors[name], *expected(steps, chance, exact), repetitions)
    assert errors["wcd"].bias > 10 * errors["wcd"].bias_error


def test_balanced_weights_of_many_points_have_little_bias(small):
    rbm, *_ = small
    many = np.repeat(X, 200, axis=0)
    errors = gradient_error(rbm, many, ["wcd", "bcd"], repetitions=100, sample_weight=np.repeat(WEIGHTS, 200), seed=0)
    assert errors["bcd"].bias < 0.03
    assert errors["wcd"].bias > 0.1
    assert errors.batch_size == 600


def test_chains_start_where_they_are_told_to(small):
    """From samples of the model, of which the deviation follows; from random states; from the model's own chains."""
    rbm, p, space, probabilities = small
    exact = exact_step(p, X, np.ones(3), space, probabilities)
    f = moments_of_each(p, space)
    variance = probabilities @ np.sum((f - probabilities @ f) ** 2, axis=1)
    phase, repetitions, norm = rbm.negative_phase, 400, np.linalg.norm(exact)
    error = gradient_error(rbm, X, phase, repetitions=repetitions, start="exact", seed=1)["pcd"]
    assert error.bias < 4 * error.bias_error
    assert error.deviation == pytest.approx(np.sqrt(variance / 4) / norm, rel=4 / np.sqrt(repetitions))
    # Three Gibbs steps from anywhere, in the mean: as the conditionals say.
    hidden = bf.space("bernoulli", 2)
    turn = bf.conditional(space @ p.W + p.c, "bernoulli", hidden) @ bf.conditional(
        hidden @ p.W.T + p.b, "bernoulli", space
    )
    uniform = np.full(8, 1 / 8)
    error = gradient_error(rbm, X, phase, repetitions=repetitions, start=2, seed=1)["pcd"]
    bias = np.linalg.norm(uniform @ turn @ turn @ turn @ f - probabilities @ f) / norm
    assert abs(error.bias - bias) < 4 * error.bias_error
    own = space[[7, 7, 0, 7]]
    rbm.start_chains(own)
    before = rbm.chain_states()
    first = np.array([0.25, 0, 0, 0, 0, 0, 0, 0.75])
    error = gradient_error(rbm, X, phase, repetitions=repetitions, seed=1)["pcd"]
    # The chains keep a hidden state too, which is drawn when they start: given it, one half step is left.
    given = bf.conditional(before["hidden"] @ p.W.T + p.b, "bernoulli", space).mean(axis=0)
    assert abs(error.bias - np.linalg.norm(given @ f - probabilities @ f) / norm) < 4 * error.bias_error
    assert np.linalg.norm(given - first @ turn) > 0  # and these are not all that they might be
    np.testing.assert_array_equal(rbm.chain_states()["visible"], own)
    # Another phase has not these chains.
    assert draws.same_phase(phase, PCD(chains=4))
    assert not draws.same_phase(phase, PCD(chains=5))


def test_random_batches(small):
    """Batches of one example: the deviation is that of the examples, and the exact phase has no bias."""
    rbm, p, space, probabilities = small
    exact = exact_step(p, X, WEIGHTS, space, probabilities)
    scale = WEIGHTS / WEIGHTS.mean()
    steps = scale[:, None] * (probabilities @ moments_of_each(p, space) - moments_of_each(p, X))
    errors = gradient_error(rbm, X, "exact", sample_weight=WEIGHTS, batch_size=1, repetitions=400, seed=2)
    near(errors["exact"], *expected(steps, np.full(3, 1 / 3), exact), 400)
    assert errors.batch_size == 1


def test_phases_by_names_of_your_own_and_compiled_once(small):
    rbm, *_ = small
    phases = {"two": WCD(2), "own": NegativePhase(tf_wcd.negative_phases.points.RandomStates())}
    errors = gradient_error(rbm, X, phases, repetitions=3)
    assert list(errors) == ["two", "own"]
    assert set(errors["two"].by_parameter) == {"kernel", "visible_bias", "hidden_bias"}
    gradient_error(rbm, X, "cd", repetitions=3)
    before = draws._program.cache_info().misses
    gradient_error(rbm, X, [*phases.values()][:1], repetitions=7, seed=1)
    gradient_error(rbm, X, "CD", repetitions=7)
    assert draws._program.cache_info().misses == before
    one, two = (gradient_error(rbm, X, phases["two"], repetitions=5, seed=s)["wcd"] for s in (4, 4))
    assert one == two


def test_the_jackknife_is_honest(small):
    """Thirty evaluations: the estimates scatter as their standard errors say."""
    rbm, *_ = small
    results = [gradient_error(rbm, X, "cd", repetitions=60, seed=seed)["cd"] for seed in range(30)]
    for value, error in (("bias", "bias_error"), ("cosine", "cosine_error")):
        scatter = np.std([getattr(r, value) for r in results], ddof=1)
        assert 0.5 < scatter / np.mean([getattr(r, error) for r in results]) < 1.8


def test_bad_arguments(small):
    rbm, *_ = small
    for message, arguments in (
        ("'wcd' twice", {"phases": [WCD(1), WCD(10)]}),
        ("phases=\\[\\]", {"phases": []}),
        ("negative_phase.*'nonsense'", {"phases": "nonsense"}),
        ("repetitions=1", {"repetitions": 1}),
        ("start='random'", {"start": "random"}),
        ("start=-1", {"start": -1}),
        ("batch_size=0", {"batch_size": 0}),
        ("one entry for each", {"sample_weight": [1.0]}),
    ):
        with pytest.raises(ValueError, match=message):
            gradient_error(rbm, X, **arguments)
    ensemble = tf_wcd.RBMEnsemble(2, count=2)
    ensemble.build((None, 3))
    with pytest.raises(ValueError, match="member"):
        gradient_error(ensemble, X)
    large = tf_wcd.RBMLayer(21)
    large.build((None, 22))
    with pytest.raises(ValueError, match=r"at most 20 units.*22 visible"):
        gradient_error(large, np.zeros((1, 22)))


@pytest.fixture(scope="module")
def watched():
    """A training that is watched, and the same one that is not."""
    models, callback = [], tf_wcd.callbacks.GradientError(X, {"cd": CD(), "balanced": BCD()}, every=2, repetitions=20)
    for callbacks in ([callback], []):
        rbm = tf_wcd.RBMLayer(2, negative_phase="pcd", seed=0)
        rbm.compile(keras.optimizers.SGD(0.1), run_eagerly=True)
        rbm.fit(X, epochs=4, callbacks=callbacks, verbose=0)
        models.append(rbm)
    return models, callback


def test_the_callback_logs_and_keeps_the_errors(watched):
    (rbm, plain), callback = watched
    np.testing.assert_array_equal(rbm.kernel, plain.kernel)
    assert [epoch for epoch, _ in callback.history] == [0, 1, 3]
    logs = rbm.history.history
    for name in ("cd", "balanced"):
        for measure in ("bias", "deviation", "cosine"):
            values = logs[f"{name}_{measure}"]
            assert values[1] == values[2] == getattr(callback.history[1][1][name], measure)
    assert callback.history[-1][1] == gradient_error(rbm, X, callback.phases, repetitions=20, seed=0)
    with pytest.raises(ValueError, match="every=0"):
        tf_wcd.callbacks.GradientError(X, every=0)
    with pytest.raises(ValueError, match="'cd' twice"):
        tf_wcd.callbacks.GradientError(X, [CD(1), CD(2)])


def test_the_plot_has_every_phase_in_every_panel(watched):
    figure = plots.gradient_errors(watched[1].history, "errors")
    assert len(figure.axes) == 3
    for axes in figure.axes:
        assert axes.get_legend_handles_labels()[1] == ["cd", "balanced"]
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["cd", "balanced"]
    curve = figure.axes[2].lines[0]
    np.testing.assert_array_equal(curve.get_xdata(), [1, 2, 4])
    np.testing.assert_array_equal(curve.get_ydata(), [errors["cd"].cosine for _, errors in watched[1].history])
    with pytest.raises(ValueError, match="empty"):
        plots.gradient_errors([])
