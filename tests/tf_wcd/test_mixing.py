"""Have the chains mixed? Right about models whose relaxation time is known, by enumeration."""

import warnings

import numpy as np
import pytest

import tf_wcd
from tests.support import brute_force as bf
from tf_wcd.evaluation import equilibrium, mixing

STEPS = 403
PAIRS = {"bernoulli": ("bernoulli", "bernoulli"), "spin": ("spin", "spin")}
ZERO = np.zeros((5, 4))


def two_modes(strength, tilt=0.0):
    """Spins that are all up or all down, with a field that prefers one of them."""
    return bf.Parameters(np.full((5, 4), strength), np.full(5, tilt) * [1, 2, 1, 0, 1], np.zeros(4))


def patterns(strength):
    """0/1 units that are in one of two states, one of which random states hardly ever reach."""
    wide = np.array([1.0, 1.0, 1.0, -1.0, -1.0])
    W = strength * np.outer(wide, np.ones(4))
    # The fields of both states are the same far from them: b and c put them at equal heights.
    return bf.Parameters(W, -W.sum(1) / 2 + 0.1 * wide, -W.sum(0) / 2)


# Models of 5 x 4 units. "Slow" ones have relaxation times far beyond the chains' length.
FAST = {
    "independent units": ("bernoulli", bf.Parameters(ZERO, np.array([1.0, -2, 0, 3, 0.3]), np.zeros(4))),
    "weak weights": ("bernoulli", bf.random_parameters(5, 4, seed=1, scale=0.5)),
    "moderate weights": ("bernoulli", bf.random_parameters(5, 4, seed=2, scale=1.2)),
    "spins": ("spin", bf.random_parameters(5, 4, seed=3, scale=0.3)),
    "one deep mode": ("spin", two_modes(0.25, tilt=0.5)),
}
SLOW = {
    "two equal modes": ("spin", two_modes(2.5)),
    "two unequal modes": ("spin", two_modes(2.5, tilt=0.2)),
    "strong random weights": ("spin", bf.random_parameters(5, 4, seed=7, scale=4.0)),
    "two patterns": ("bernoulli", patterns(8.0)),
    "unequal patterns": ("bernoulli", bf.Parameters(patterns(8.0).W, patterns(8.0).b + 0.3, patterns(8.0).c)),
}


def transitions(p, pair):
    """Visible states, their probabilities, and the chance of each step x -> h -> x', ``[states, states]``."""
    x, probabilities = bf.visible_distribution(p, *pair)
    h = bf.space(pair[1], len(p.c))
    return x, probabilities, bf.conditional(x @ p.W + p.c, pair[1], h) @ bf.conditional(h @ p.W.T + p.b, pair[0], x)


def relaxation_time(p, pair):
    """-1 / log of the second largest eigenvalue of the Gibbs step, which is symmetric in sqrt(P)-units."""
    _, probabilities, chance = transitions(p, pair)
    root = np.sqrt(probabilities)
    values = np.linalg.eigvalsh(root[:, None] * chance / root[None, :])
    return -1 / np.log(min(values[-2], 1 - 1e-15))


def integrated_time(p, pair):
    """1 + 2 sum of the autocorrelations of the free energy, by enumeration."""
    x, probabilities, chance = transitions(p, pair)
    f = bf.free_energy(p, x, pair[1])
    f = f - probabilities @ f
    # sum over t >= 0 of chance^t f, on the space without the constant function.
    total = np.linalg.solve(np.eye(len(x)) - chance + probabilities[None, :], f)
    return 2 * (probabilities * f) @ total / ((probabilities * f) @ f) - 1


@pytest.fixture(scope="module")
def found():
    """What `mixing` finds of each model, from random states and from all states in their true proportions."""
    results = {}
    for name, (kind, p) in {**FAST, **SLOW}.items():
        rbm = bf.make_rbm(p, *PAIRS[kind], seed=0)
        x, probabilities = bf.visible_distribution(p, *PAIRS[kind])
        data = x[np.random.default_rng(1).choice(len(x), 200, p=probabilities)]
        results[name] = rbm, mixing(rbm, data, gibbs_steps=STEPS, chains=40, seed=3)
    return results


@pytest.mark.parametrize("name", [*FAST, *SLOW])
def test_right_about_models_whose_truth_is_known(name, found):
    kind, p = {**FAST, **SLOW}[name]
    time = relaxation_time(p, PAIRS[kind])
    assert time < STEPS / 100 if name in FAST else time > 30 * STEPS
    result = found[name][1]
    assert result.mixed is (name in FAST), result
    assert result.reason.startswith(f"Mixed in {STEPS}" if name in FAST else f"Not mixed in {STEPS}")
    assert (result.r_hat < equilibrium.R_HAT_LIMIT) or name in SLOW


@pytest.mark.parametrize("name", ["moderate weights", "spins"])
def test_autocorrelation_time_is_that_of_the_transition_matrix(name, found):
    """At least that of the free energy: it is the worst of several statistics, and no more than the slowest mode's."""
    kind, p = FAST[name]
    time = found[name][1].autocorrelation_time
    slowest = 2 * relaxation_time(p, PAIRS[kind])
    assert 0.85 * integrated_time(p, PAIRS[kind]) < time < 1.3 * slowest + 1
    assert found[name][1].effective_samples == pytest.approx(80 * (STEPS - STEPS // 2) / time)


def test_traces_begin_at_their_starts_and_random_starts_alone_are_diagnosed(found):
    rbm, result = found["two equal modes"]
    assert result.free_energy["random"].shape == result.free_energy["data"].shape == (STEPS + 1, 40)
    np.testing.assert_array_equal(result.steps, np.arange(STEPS + 1))
    assert result.free_energy["random"][0].mean() > result.free_energy["data"][0].mean() + 5
    alone = mixing(rbm, gibbs_steps=STEPS, chains=80, seed=1)  # as many chains in all: nothing is compiled again
    assert not alone.mixed
    assert np.isnan(alone.difference)
    assert set(alone.free_energy) == {"random"}


def test_every_figure_can_fail_by_itself(caplog):
    rng = np.random.default_rng(0)
    good = {name: rng.normal(size=(401, 30, 2)) for name in ("random", "data")}
    assert equilibrium.diagnose(good).mixed
    assert equilibrium.diagnose({name: 0 * trace + 7 for name, trace in good.items()}).mixed  # nothing that could mix
    shifted = {"random": good["random"], "data": good["data"] + [0.0, 0.15]}
    result = equilibrium.diagnose(shifted)
    assert result.r_hat < equilibrium.R_HAT_LIMIT
    assert "`x` differ" in result.reason
    assert "drifts" not in result.reason
    ramp = np.linspace(0, 0.8, 401)[:, None, None] * [1.0, 0.0]
    result = equilibrium.diagnose({name: trace + ramp for name, trace in good.items()})
    assert result.drift > equilibrium.ERRORS_LIMIT
    assert "drifts" in result.reason
    assert "`x` differ" not in result.reason
    stuck = np.broadcast_to(rng.integers(0, 2, (1, 30, 2)), (401, 30, 2)).astype(float)
    result = equilibrium.diagnose({"random": stuck})
    assert not caplog.records  # TFP is made to keep quiet about what is no news
    assert result.r_hat > 10
    assert "R-hat" in result.reason


def test_long_chains_are_looked_at_every_few_steps(monkeypatch, found):
    monkeypatch.setattr(equilibrium, "MOST_RECORDS", 100)
    rbm, fine = found["moderate weights"]
    result = mixing(rbm, gibbs_steps=600, chains=80, seed=3)
    np.testing.assert_array_equal(result.steps, 6 * np.arange(101))
    assert result.mixed
    assert fine.autocorrelation_time < result.autocorrelation_time < 10  # in steps, but no finer than every sixth


def test_sample_warns_once_where_its_chains_are_known_to_be_too_short(found):
    rbm, result = found["two unequal modes"]
    rbm.remember_mixing(result)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        rbm.sample(2, gibbs_steps=2 * STEPS, seed=0)  # nothing is known of so long chains
        rbm.sample(2, gibbs_steps=5, initial=np.ones(5), seed=0)
    with pytest.warns(UserWarning, match="Chains of 100 Gibbs steps do not give samples of this model. Not mixed in"):
        rbm.sample(2, gibbs_steps=100, seed=0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        rbm.sample(2, gibbs_steps=100, seed=0)
        rbm.remember_mixing(result)
        rbm.visible_bias.assign_add(np.ones(5))
        rbm.sample(2, gibbs_steps=100, seed=0)  # it is another model now


def test_the_callback_and_the_figure():
    rbm = tf_wcd.RBMLayer(4, seed=0)
    rbm.compile(bf.sgd(0.1))
    callback = tf_wcd.callbacks.Mixing(every=2, gibbs_steps=50, chains=80)
    rbm.fit(bf.space("bernoulli", 5), epochs=3, callbacks=[callback], verbose=0)
    assert [entry[0] for entry in callback.history] == [0, 1]
    assert rbm.history.history["r_hat"][-1] == callback.last.r_hat
    figure = tf_wcd.plots.compare_starts(callback.last)
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["from random states"]
    left, _ = figure.axes
    np.testing.assert_allclose(left.lines[0].get_ydata(), np.median(callback.last.free_energy["random"], axis=1))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [({"gibbs_steps": 3}, "gibbs_steps=3"), ({"chains": 1}, "chains=1"), ({"x": np.full((2, 5), 7)}, "7.0")],
)
def test_bad_arguments(arguments, message, found):
    with pytest.raises(ValueError, match=message):
        mixing(found["weak weights"][0], **arguments)
