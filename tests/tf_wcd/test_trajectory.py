"""Exchange with frozen moments of the training: exact on every rung, across modes, and log Z of the whole ladder."""

import dataclasses
import functools

import keras
import numpy as np
import pytest
import tensorflow as tf

import tf_wcd
from tests.support import brute_force as bf
from tf_wcd import negative_phases as phases
from tf_wcd.negative_phases.points import TrajectoryChains
from tf_wcd.random import batch_source, subkey
from tf_wcd.sampling import independent, trajectory

KEY = tf.constant([3, 4], tf.uint32)
PAIR = ("spin", "bernoulli")
N = 20_000
# A path of asymmetric machines that is not one of temperatures; the first has no weights.
TARGET = bf.random_parameters(5, 3, seed=3, scale=0.9)
OTHER = bf.random_parameters(5, 3, seed=4, scale=0.4)
PATH = [
    bf.Parameters(s * TARGET.W + s * (1 - s) * OTHER.W, s * TARGET.b + (1 - s) * OTHER.b, TARGET.c * s)
    for s in (0.0, 0.4, 0.7, 1.0)
]


def machine_of(p, pair=PAIR):
    unit = bf.make_rbm(p, *pair).machine()
    return dataclasses.replace(unit, kernel=tf.constant(p.W, tf.float32))


def exact(p, n, rng, pair=PAIR):
    x, probabilities = bf.visible_distribution(p, *pair)
    return x[rng.choice(len(x), n, p=probabilities)].astype("float32")


def distance_in_floors(states, p, pair=PAIR):
    _, probabilities = bf.visible_distribution(p, *pair)
    distance, floor = bf.total_variation(np.bincount(bf.index_of(states), minlength=len(probabilities)), probabilities)
    return distance / floor


def log_z(p, pair=PAIR):
    return bf.log_sum_exp(bf.log_joint(p, *pair)[2])


def ladder_state(source, path, chains, key=KEY):
    """The state of a ladder of the given machines, of which the last is the model; chains ``[rungs, M, n_v]``."""
    pair = PAIR if chains.shape[-1] == 5 else ("spin", "spin")
    model = machine_of(path[-1], pair)
    state = source.state_at(model, tf.constant(chains[-1]), {}, key)
    parameters = state["ladder_parameters"].numpy()
    visible = state["ladder_visible"].numpy()
    for i, p in enumerate(path[:-1]):
        parameters[i, 0] = trajectory.packed(machine_of(p, pair))
        visible[i] = chains[i]
    moved = np.stack([chains[0], chains[1]])
    new = {"ladder_parameters": parameters, "ladder_visible": visible, "moved_visible": moved}
    return model, {**state, **{n: tf.constant(v) for n, v in new.items()}, "rungs": tf.constant(len(path) - 1.0)}


def updates(source, model, state, count, key=KEY):
    """The state after so many updates in which the model does not change, and the swap rates on the way."""

    @tf.function(autograph=False)
    def step(state, i):
        batch = phases.Batch(model, state["visible"][:1], tf.zeros([1]))
        points, new = source.points(model, batch, state, subkey(key, i))
        tf.debugging.assert_near(points.hidden_field, model.hidden_field(points.visible), atol=1e-4)
        return new

    for i in range(count):
        state = step(state, tf.constant(i))
    return state


# Parameters as vectors


def test_parameters_as_vectors_and_back():
    rbm = tf_wcd.RBMEnsemble(3, count=2, visible_type=tf_wcd.units.Gaussian(learn_variance=True), seed=0)
    rbm.build((None, 4))
    rbm.visible_parameters["log_variance"].assign(np.arange(8.0).reshape(2, 4))
    machine = rbm.machine()
    vector = trajectory.packed(machine)
    assert vector.shape == (2, 4 * 3 + 4 + 3 + 4)
    again = trajectory.unpacked(machine, vector)
    member = trajectory.unpacked(machine, vector[1])
    x = np.random.default_rng(0).normal(size=(2, 6, 4)).astype("float32")
    np.testing.assert_array_equal(again.free_energy(x), machine.free_energy(x))
    np.testing.assert_allclose(member.free_energy(x[1]), machine.free_energy(x)[1], rtol=1e-5)


def test_log_z_of_a_machine_without_weights():
    machine = independent.without_weights(machine_of(TARGET))
    expected = log_z(bf.Parameters(0 * TARGET.W, TARGET.b, TARGET.c))
    assert float(independent.independent_log_partition(machine)) == pytest.approx(expected, rel=1e-6)


# Exchange


def test_a_swap_keeps_both_distributions():
    rng = np.random.default_rng(0)
    lower, upper = PATH[1], PATH[3]
    chains = [tf.constant(exact(p, N, rng)) for p in (lower, upper)]
    swapped = trajectory.swap(machine_of(lower), machine_of(upper), *chains, tf.constant(rng.random(N), tf.float32))
    assert distance_in_floors(swapped.lower.numpy(), lower) < 4
    assert distance_in_floors(swapped.upper.numpy(), upper) < 4
    np.testing.assert_allclose(swapped.upper_field, machine_of(upper).hidden_field(swapped.upper), atol=1e-4)
    x = bf.space(PAIR[0], 5)
    gain = bf.free_energy(lower, x, PAIR[1]) - bf.free_energy(upper, x, PAIR[1])
    _, p = bf.visible_distribution(lower, *PAIR)
    _, q = bf.visible_distribution(upper, *PAIR)
    expected = p @ np.minimum(1, np.exp(gain[:, None] - gain[None, :])) @ q
    found = swapped.acceptance.numpy()
    assert 0.1 < expected < 0.9
    assert abs(found.mean() - expected) < 4 * found.std() / np.sqrt(N)


@pytest.fixture(scope="module")
def after_updates():
    rng = np.random.default_rng(1)
    chains = np.stack([exact(p, N, rng) for p in PATH])
    source = TrajectoryChains(gibbs_steps=2, max_rungs=3, threshold=0.02, floor=0.01)
    model, state = ladder_state(source, PATH, chains)
    return source, model, updates(source, model, state, 13), chains


def test_updates_keep_the_distribution_of_every_rung(after_updates):
    """Thirteen turns: each rung has moved, and each pair has swapped, twice at least."""
    source, model, state, before = after_updates
    machines, chains = source.ladder(model, state)
    assert chains.shape == (4, N, 5)
    for i, p in enumerate(PATH):
        assert distance_in_floors(chains[i].numpy(), p) < 4
        assert np.mean((chains[i].numpy() != before[i]).any(1)) > 0.5
        np.testing.assert_allclose(machines.kernel[i], p.W, atol=1e-6)
    np.testing.assert_array_equal(chains[-1], state["visible"])
    assert float(state["rungs"]) == 3
    # The first visits of all pairs have moved their averages; the place above the newest rung has none.
    assert np.all(state["swap_rates"].numpy()[:3] < 1)
    assert state["swap_rates"].numpy()[3] == 1
    assert float(source.metrics(state)["swap_rate"]) == pytest.approx(state["swap_rates"].numpy()[:3].min())


@pytest.fixture(scope="module")
def swept():
    rng = np.random.default_rng(2)
    machines = trajectory.unpacked(machine_of(TARGET), tf.stack([trajectory.packed(machine_of(p)) for p in PATH]))
    run = tf.function(functools.partial(step_of, machines), autograph=False)
    visible, works = tf.constant(np.stack([exact(p, N // 2, rng) for p in PATH])), []
    for i in range(4):
        visible, lower, upper = run(visible, tf.constant(i))
        works.append((lower.numpy(), upper.numpy()))
    return visible.numpy(), [np.stack(work) for work in zip(*works, strict=True)]


def step_of(machines, visible, i):
    return trajectory.sweep(machines, visible, i % 2, batch_source(subkey(KEY, i)))


def test_sweeps_keep_the_distribution_of_every_rung(swept):
    for states, p in zip(swept[0], PATH, strict=True):
        assert distance_in_floors(states, p) < 4


def test_bennett_gives_log_z_and_its_error(swept):
    lower, upper = swept[1]
    truth = log_z(PATH[-1]) - log_z(PATH[0])
    ratio, error = trajectory.bennett_ladder(lower, upper)
    assert abs(ratio - truth) < 4 * error < 0.1
    # A hundred estimates from a hundred chains each: their spread is what the errors say.
    parts = [trajectory.bennett_ladder(lower[..., i::100], upper[..., i::100]) for i in range(100)]
    scores = np.array([(r - truth) / e for r, e in parts])
    assert 0.75 < np.sqrt(np.mean(scores**2)) < 1.3
    one = trajectory.bennett_ladder(lower[..., :1], upper[..., :1])
    assert one[1] == np.inf
    far = trajectory.bennett_ladder(lower - 80.0, upper + 80.0)  # machines without a state in common
    assert far[1] == np.inf


# Modes


def test_chains_cross_between_modes_through_the_ladder():
    """From one mode alone, in the proportion of the model."""
    modes = bf.Parameters(np.full((6, 4), 1.5) + np.arange(24).reshape(6, 4) / 240, np.full(6, 0.05), np.zeros(4))
    path = [bf.Parameters(s * modes.W, modes.b, s * modes.c) for s in (0.0, 0.15, 0.25, 0.4, 1.0)]
    chains = np.ones((5, 1000, 6), "float32")
    source = TrajectoryChains(max_rungs=4, threshold=0.02, floor=0.01)
    model, state = ladder_state(source, path, chains)
    state = updates(source, model, state, 500)
    x, probabilities = bf.visible_distribution(modes, "spin", "spin")
    share = probabilities[x.sum(1) > 0].sum()
    found = (state["visible"].numpy().sum(1) > 0).mean()
    assert 0.55 < share < 0.8
    assert abs(found - share) < 4 * np.sqrt(share * (1 - share) / 1000)


# The ladder grows, and holds


def test_a_rung_is_frozen_at_the_threshold_and_an_update_that_breaks_the_ladder_goes_back():
    source = TrajectoryChains(gibbs_steps=20, chains=300, max_rungs=3)
    near, between, far = (machine_of(bf.Parameters(s * TARGET.W, TARGET.b, TARGET.c)) for s in (0, 1, 8))

    @tf.function(autograph=False)
    def step(parameters, state, key):
        machine = trajectory.unpacked(near, parameters)
        return source.points(machine, phases.Batch(machine, tf.zeros([1, 5]), tf.zeros([1])), state, key)[1]

    def updated(machine, state, number):
        return step(trajectory.packed(machine), state, subkey(KEY, number))

    state = updated(near, source.initial_state(near, 1, KEY), 1)
    assert float(state["rungs"]) == 1
    assert float(state["returns"]) == 0
    state = updated(near, state, 2)
    # Between the two limits: the present moment is frozen, with the chains of the model.
    frozen = updated(between, state, 3)
    assert 0.1 < float(5 * (frozen["swap_rates"][0] - 0.8 * state["swap_rates"][0])) < 0.3
    assert float(frozen["rungs"]) == 2
    machines, chains = source.ladder(between, frozen)
    np.testing.assert_allclose(machines.kernel[1], TARGET.W, rtol=1e-6)
    np.testing.assert_array_equal(chains[1], frozen["visible"])
    assert source.corrected(between, between, frozen).kernel.numpy() == pytest.approx(between.kernel.numpy())
    # Below both: half-way back to where the swap rate was good, again and again; and then it is left as it is.
    for i in range(6):
        state = {**updated(far, state, 4), "turn": state["turn"]}
        assert float(state["going_back"]) == (i < 5)
        assert float(state["rungs"]) == (1 if i < 5 else 2)
        middle = 0.5 * (near.kernel + far.kernel) if i < 5 else far.kernel
        np.testing.assert_allclose(source.corrected(far, far, state).kernel, middle, rtol=1e-6)


@pytest.fixture(scope="module")
def trained():
    states, _ = tf_wcd.datasets.load("BS09")
    rbm = tf_wcd.RBMLayer(6, negative_phase=phases.PTT(chains=150, max_rungs=8), centered=True, seed=0)
    rbm.compile(bf.sgd(0.8))
    rbm.fit(states, batch_size=14, steps_per_epoch=300, verbose=0)
    return rbm


def test_training_builds_a_ladder_that_holds(trained):
    logs = trained.history.history
    assert 2 <= logs["rungs"][-1] <= 8
    assert logs["swap_rate"][-1] > 0.1
    found = tf_wcd.evaluation.online_log_partition(trained)
    truth = tf_wcd.evaluation.log_partition(trained)
    assert abs(found.estimate - truth) < 4 * found.standard_error < 0.6


def test_samples_of_the_ladder_are_those_of_the_model(trained):
    samples = trained.sample(4000, gibbs_steps=40, seed=1, method="ptt").numpy()
    np.testing.assert_array_equal(samples, trained.sample(4000, gibbs_steps=40, seed=1, method="ptt"))
    p = bf.parameters_of(trained)
    x, probabilities = bf.visible_distribution(p, "bernoulli", "bernoulli")
    # Chains that share a start are not independent at once: the effective number is between 150 and 4000.
    bars, _ = tf_wcd.datasets.load("BS09")
    mass = probabilities[np.isin(bf.index_of(x), bf.index_of(bars))].sum()
    found = np.isin(bf.index_of(samples), bf.index_of(bars)).mean()
    assert abs(found - mass) < 4 * np.sqrt(mass * (1 - mass) / 1000)
    assert np.all(np.abs(samples.mean(0) - probabilities @ x) < 4 * 0.5 / np.sqrt(1000))


def test_a_saved_ladder_goes_on_to_the_same_bits(trained, tmp_path):
    states, _ = tf_wcd.datasets.load("BS09")
    trained.save(tmp_path / "rbm.keras")
    again = keras.models.load_model(tmp_path / "rbm.keras")
    assert again.negative_phase.get_config() == trained.negative_phase.get_config()
    for rbm in (trained, again):
        rbm.fit(states, batch_size=14, steps_per_epoch=20, verbose=0, shuffle=False)
    np.testing.assert_array_equal(trained.kernel, again.kernel)
    for name, value in trained.chain_states().items():
        np.testing.assert_array_equal(value, again.chain_states()[name])


def test_an_update_of_a_model_is_taken_back():
    rbm = bf.make_rbm(
        bf.Parameters(0 * TARGET.W, TARGET.b, TARGET.c), *PAIR, negative_phase=phases.PTT(20, 100), seed=0
    )
    rbm.compile(bf.sgd(0.0), run_eagerly=True)
    rbm.train_on_batch(np.ones((4, 5)))
    rbm.train_on_batch(np.ones((4, 5)))
    rbm.kernel.assign(8 * TARGET.W)
    rbm.train_on_batch(np.ones((4, 5)))
    np.testing.assert_allclose(rbm.kernel, 4 * TARGET.W, rtol=1e-6)


def test_an_ensemble_has_a_ladder_for_each_member():
    x = np.repeat([[1, 1, 1, 0, 0], [0, 0, 1, 1, 1]], 10, axis=0)
    ensemble = tf_wcd.RBMEnsemble(
        3, learning_rates=[0.0, 0.3], initial_stddev=0.1, negative_phase=phases.PTT(chains=50, max_rungs=3), seed=0
    )
    ensemble.compile(bf.sgd(1.0))
    ensemble.fit(x, batch_size=10, epochs=50, verbose=0)
    state = {name: tf.constant(value) for name, value in ensemble.chain_states().items()}
    assert state["rungs"].numpy()[0] == 1 < state["rungs"].numpy()[1]
    found = tf_wcd.evaluation.online_log_partition(ensemble)
    errors = (found.estimate - tf_wcd.evaluation.log_partition(ensemble)) / found.standard_error
    assert np.all(np.abs(errors) < 4)
    member = ensemble.member(1).chain_states()
    np.testing.assert_array_equal(member["ladder_parameters"], state["ladder_parameters"][1])


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: phases.PTT(threshold=0.1, floor=0.2), r"floor=0.2, threshold=0.1"),
        (lambda: phases.PTT(max_rungs=0), "max_rungs=0"),
        (lambda: bf.make_rbm(TARGET).sample(2, method="ptt"), "trained with negative_phase='ptt'"),
        (
            lambda: tf_wcd.evaluation.online_log_partition(bf.make_rbm(TARGET, negative_phase="ptt")),
            "no running log Z.*before its first",
        ),
        (lambda: bf.make_rbm(TARGET).sample(2, method="ptt", initial=np.ones(5)), "no `initial`"),
    ],
)
def test_bad_arguments(make, message):
    with pytest.raises(ValueError, match=message):
        make()


@pytest.mark.slow
def test_persistent_chains_are_wrong_about_clustered_data_where_the_ladder_is_not():
    """Bars and Stripes in 0/1 units: exact divergence after the same updates of the same rate."""
    states, probabilities = tf_wcd.datasets.load("BS16")
    divergence = {}
    for phase in ("pcd", "ptt"):
        rbm = tf_wcd.RBMLayer(12, negative_phase=phase, chains=200, centered=True, seed=0)
        rbm.compile(bf.sgd(0.1))
        rbm.fit(states, batch_size=30, steps_per_epoch=7500, verbose=0)
        divergence[phase] = tf_wcd.evaluation.kl_divergence(rbm, states, probabilities)
    assert divergence["ptt"] < 0.25
    assert divergence["pcd"] > 4 * divergence["ptt"]
