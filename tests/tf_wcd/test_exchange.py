"""Replica exchange in temperature: exact at every temperature, and across modes where plain chains never cross."""

import functools

import keras
import numpy as np
import pytest
import tensorflow as tf

import tf_wcd
from tests.support import brute_force as bf
from tf_wcd import negative_phases as phases
from tf_wcd.negative_phases.composition import start, weighted_points
from tf_wcd.negative_phases.points import TemperedChains
from tf_wcd.random import batch_source, key_of
from tf_wcd.sampling.exchange import Ladder, exchange_step

N = 60_000
BETAS = np.array([0.0, 0.3, 0.7, 1.0])
KEY = tf.constant([3, 4], tf.uint32)
# A model of two well separated modes, one of which is about twice as likely.
MODES = bf.Parameters(np.full((6, 4), 1.5) + 0.1 * np.arange(24).reshape(6, 4) / 24, np.full(6, 0.05), np.zeros(4))
SPINS = ("spin", "spin")


def at_temperature(p, base, beta):
    return bf.Parameters(beta * p.W, base + beta * (p.b - base), beta * p.c)


def pairs_at(p, base, beta, pair, rng, n=N):
    """Exact visible and hidden states at a temperature, and the probabilities of the visible ones."""
    q = at_temperature(p, base, beta)
    x, probabilities = bf.visible_distribution(q, *pair)
    visible = x[rng.choice(len(x), n, p=probabilities)]
    up = bf.hidden_mean(q, visible, pair[1])
    low, high = bf.VALUES[pair[1]]
    hidden = np.where(rng.random(up.shape) < (up - low) / (high - low), high, low)
    return visible.astype("float32"), hidden.astype("float32"), probabilities


def distance_in_floors(states, probabilities):
    distance, floor = bf.total_variation(np.bincount(bf.index_of(states), minlength=len(probabilities)), probabilities)
    return distance / floor


def step_of(ladder, hidden, parity, draw):
    return exchange_step(ladder, hidden, parity, batch_source(KEY), draw)


@pytest.fixture(scope="module")
def stepped():
    """Exact states at all temperatures, before and after four steps of exchange, for both pairs of units."""
    results = {}
    for pair, scale in ((("bernoulli", "spin"), 1.5), (("spin", "bernoulli"), 0.8)):
        p = bf.random_parameters(5, 3, scale=scale)
        base = np.array([0.5, -0.3, 0.0, 1.0, -1.0])
        rng = np.random.default_rng(0)
        visible, hidden, truth = zip(*(pairs_at(p, base, beta, pair, rng) for beta in BETAS), strict=True)
        ladder = Ladder(bf.make_rbm(p, *pair).machine(), tf.constant(base, tf.float32), tf.constant(BETAS, tf.float32))
        run = tf.function(functools.partial(step_of, ladder), autograph=False)
        h, rates = tf.constant(np.stack(hidden)), []
        for i in range(4):
            last = run(h, tf.constant(i % 2), tf.constant(3 * i))
            h = last.hidden
            rates.append(last.acceptance.numpy())
        results[pair] = p, base, np.stack(visible), truth, last, rates
    return results


@pytest.mark.parametrize("pair", [("bernoulli", "spin"), ("spin", "bernoulli")])
def test_each_temperature_keeps_its_distribution(pair, stepped):
    _, _, start, truth, last, rates = stepped[pair]
    visible = last.visible.numpy()
    for r in range(len(BETAS)):
        assert distance_in_floors(visible[r], truth[r]) < 4
    assert np.mean((visible != start).any(-1)) > 0.5  # it did move
    # Pairs take turns: even ones, then odd ones.
    assert [np.isnan(rate).all(1).tolist() for rate in rates] == [[False, True, False], [True, False, True]] * 2
    # It is the exchange that is tested: a good part of the states were swapped.
    assert 0.2 < np.nanmean(rates[0][0]) < 1


@pytest.mark.parametrize("pair", [("bernoulli", "spin"), ("spin", "bernoulli")])
def test_acceptance_is_that_of_the_marginal_densities(pair, stepped):
    p, base, _, truth, _, rates = stepped[pair]
    x = bf.space(pair[0], 5)
    log_p = [-bf.free_energy(at_temperature(p, base, beta), x, pair[1]) for beta in BETAS]
    for lower, upper in ((0, 1), (2, 3)):
        gain = log_p[upper] - log_p[lower]
        chance = np.minimum(1, np.exp(gain[:, None] - gain[None, :]))  # the lower one's state goes up
        expected = truth[lower] @ chance @ truth[upper]
        found = rates[0][lower]
        assert abs(found.mean() - expected) < 4 * found.std() / np.sqrt(N)


def test_hidden_states_are_drawn_at_their_temperature(stepped):
    p, base, _, _, last, _ = stepped[("spin", "bernoulli")]
    for r, beta in enumerate(BETAS):
        mean = bf.hidden_mean(at_temperature(p, base, beta), last.visible[r].numpy().astype("float64"), "bernoulli")
        error = (last.hidden[r].numpy() - mean).mean(0)
        assert np.all(np.abs(error) < 4 * 0.5 / np.sqrt(N))


def mode(states):
    return np.asarray(states).sum(-1) > 0


def proportion(p, pair):
    x, probabilities = bf.visible_distribution(p, *pair)
    return probabilities[mode(x)].sum()


@pytest.mark.parametrize("phase", ["pcd", "pt"])
def test_chains_of_training_cross_between_modes_only_with_exchange(phase):
    """At a learning rate of zero, from one mode alone."""
    share = proportion(MODES, SPINS)
    assert 0.55 < share < 0.85
    options = {"temperatures": 8} if phase == "pt" else {}
    made = phases.get(phase, chains=1000, **options)
    rbm = bf.make_rbm(MODES, *SPINS, negative_phase=made, seed=1)
    rbm.compile(bf.sgd(0.0))
    rbm.start_chains(np.ones((1000, 6)))
    rbm.fit(np.ones((10, 6)), batch_size=10, steps_per_epoch=250, verbose=0)
    found = mode(rbm.chain_states()["visible"]).mean()
    if phase == "pcd":
        assert found == 1.0
    else:
        assert abs(found - share) < 4 * np.sqrt(share * (1 - share) / 1000)
        rates = rbm.chain_states()["swap_rates"]
        assert rbm.history.history["swap_rate"][-1] == pytest.approx(rates.min(), rel=0.3)
        assert 0.1 < rates.min() < rates.max() <= 1


@pytest.mark.parametrize("method", ["gibbs", "pt"])
def test_samples_cross_between_modes_only_with_exchange(method):
    rbm = bf.make_rbm(MODES, *SPINS)
    samples = rbm.sample(2000, gibbs_steps=150, initial=np.ones(6), seed=1, method=method, temperatures=8).numpy()
    _, probabilities = bf.visible_distribution(MODES, *SPINS)
    if method == "gibbs":
        assert mode(samples).all()
    else:
        share = proportion(MODES, SPINS)
        assert abs(mode(samples).mean() - share) < 4 * np.sqrt(share * (1 - share) / 2000)
        assert distance_in_floors(samples, probabilities) < 4


def test_exchange_holds_units_and_takes_no_steps():
    rbm = bf.make_rbm(bf.random_parameters(5, 3), seed=0)
    rbm.data_means = np.array([0.3, 0.9, 0.5, 0.1, 0.0])
    value, held = np.array([1, 0, 1, 0, 1.0]), np.array([1, 1, 0, 0, 0])
    samples = rbm.sample(5000, gibbs_steps=40, initial=value, clamp=held, seed=1, method="pt", temperatures=4).numpy()
    np.testing.assert_array_equal(samples[:, :2], np.broadcast_to(value[:2], (5000, 2)))
    x, probabilities = bf.visible_distribution(bf.random_parameters(5, 3), "bernoulli", "bernoulli")
    fits = (x[:, :2] == value[:2]).all(1)
    assert distance_in_floors(samples, np.where(fits, probabilities, 0) / probabilities[fits].sum()) < 4
    none = rbm.sample(3, gibbs_steps=0, initial=value, seed=1, method="pt", temperatures=4)
    np.testing.assert_array_equal(none, np.broadcast_to(value, (3, 5)))


def test_points_are_the_models_chains_or_all_of_them():
    machine = bf.make_rbm(bf.random_parameters(5, 3)).machine()
    batch = phases.Batch(machine, tf.zeros([2, 5]), tf.fill([2], -tf.math.log(2.0)))
    key = key_of(tf.constant([1, 2], tf.int64))
    for phase, count in ((phases.PT(2, 7, BETAS), 7), (phases.WPT(1, 7, BETAS, all_points=True), 28)):
        state = start(phase, machine, key, 2)
        points, log_weights, new = weighted_points(phase, machine, batch, state, key)
        assert points.visible.shape == (count, 5)
        np.testing.assert_allclose(points.hidden_field, machine.hidden_field(points.visible), rtol=1e-5)
        np.testing.assert_array_equal(points.visible[-7:], new["visible"])
        expected = tf.nn.log_softmax(-machine.free_energy(points.visible)) if count == 28 else np.full(7, -np.log(7))
        np.testing.assert_allclose(log_weights, expected, rtol=1e-4)
        assert {name: value.shape for name, value in state.items()} == {n: v.shape for n, v in new.items()}


def test_an_ensemble_and_a_saved_model_go_on(tmp_path):
    x = (np.random.default_rng(0).random((20, 5)) < 0.4).astype("float32")
    ensemble = tf_wcd.RBMEnsemble(3, count=2, negative_phase=phases.PT(chains=6, temperatures=3), seed=0)
    ensemble.compile(bf.sgd(0.1))
    ensemble.fit(x, batch_size=10, epochs=2, verbose=0)
    assert ensemble.chain_states()["ladder_hidden"].shape == (2, 3, 6, 3)
    rbm = ensemble.member(1)
    np.testing.assert_array_equal(rbm.chain_states()["ladder_hidden"], ensemble.chain_states()["ladder_hidden"][1])
    rbm.save(tmp_path / "rbm.keras")
    again = keras.models.load_model(tmp_path / "rbm.keras")
    assert again.negative_phase.get_config() == {"gibbs_steps": 1, "chains": 6, "temperatures": 3}
    for name, value in rbm.chain_states().items():
        np.testing.assert_array_equal(value, again.chain_states()[name])


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: phases.PT(temperatures=1), "temperatures=1"),
        (lambda: phases.PT(temperatures=[0.0, 0.5]), "increase from 0 to 1"),
        (lambda: TemperedChains(chains=0), "chains=0"),
        (lambda: bf.make_rbm(MODES).sample(2, method="heat"), "method='heat'"),
    ],
)
def test_bad_arguments(make, message):
    with pytest.raises(ValueError, match=message):
        make()
