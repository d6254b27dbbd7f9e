"""Neighbours, random states, and sources joined: which points there are, and what P is divided by."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import tf_wcd
from tests.support import importance
from tests.support.importance import check_density, drawn_sets, fitted_exponent, model
from tf_wcd.enumeration import all_states
from tf_wcd.negative_phases import CD, PCD, WCD, Batch, NegativePhase
from tf_wcd.negative_phases.points import (
    GivenPoints,
    Joined,
    Neighbours,
    PersistentChains,
    RandomStates,
    Reconstructions,
)
from tf_wcd.negative_phases.weights import BalancedWeights, DataWeights, ModelWeights, UniformWeights
from tf_wcd.training.step import phases_of

KEY = tf.constant([3, 4], tf.uint32)
KINDS = {
    "bernoulli": 5,
    "spin": 4,
    tf_wcd.units.Potts(3): 6,
    importance.MIXED: 4,
    tf_wcd.units.Labelled("spin", 3): 5,
    importance.BINOMIAL: 2,
}
VISIBLE = BalancedWeights("visible")
FINITE_PAIRS = [
    ("bernoulli", "bernoulli"),
    ("spin", tf_wcd.units.Potts(3)),
    (tf_wcd.units.Potts(3), "spin"),
    (importance.MIXED, "bernoulli"),
    ("bernoulli", "gaussian"),
    (importance.BINOMIAL, "relu"),
]
SOURCES = {
    "reconstructions, neighbours and random states": Joined(
        [Reconstructions(1), Neighbours(share=0.4), RandomStates(per_example=0.5)]
    ),
    "examples, all neighbours and random states": Joined([Reconstructions(0), Neighbours(), RandomStates(2.0)]),
    "random states": RandomStates(),
}


def machine_of(kind, columns):
    rbm = tf_wcd.RBMLayer(2, visible_type=kind, kernel_initializer=keras.initializers.RandomNormal(seed=1))
    rbm.build((None, columns))
    return rbm.machine()


def points_of(source, machine, x):
    x = tf.constant(x)
    batch = Batch(machine, x, tf.fill(x.shape[:-1], -np.log(x.shape[-2])))
    return source.points(machine, batch, {}, KEY)[0]


def changed_units(unit, a, b):
    """Number of units in which rows differ, [rows of a, rows of b]."""
    columns = a.shape[-1]
    first = np.unique(unit.describe_columns(columns).first)
    pieces = [np.split(rows, first[1:], axis=-1) for rows in (np.asarray(a), np.asarray(b))]
    return sum((p[:, None] != q[None]).any(-1).astype(int) for p, q in zip(*pieces, strict=True))


@pytest.mark.parametrize("kind", KINDS, ids=importance.name)
def test_all_neighbours_are_the_states_with_one_unit_changed(kind):
    machine = machine_of(kind, KINDS[kind])
    unit = machine.visible
    space = all_states(unit, KINDS[kind]).numpy()
    x = space[[1, 5, 0]]
    visible = points_of(Neighbours(), machine, x).visible.numpy()
    expected = np.concatenate([space[changed_units(unit, row[None], space)[0] == 1] for row in x])
    np.testing.assert_array_equal(np.unique(visible, axis=0), np.unique(expected, axis=0))
    assert len(visible) == len(expected)
    assert sorted(map(tuple, visible)) == sorted(map(tuple, expected))  # each once for each example
    np.testing.assert_array_equal(unit.numbered_states(unit.state_numbers(space), KINDS[kind]), space)


def test_a_share_of_the_neighbours_is_spread_evenly():
    """Of 20 pairs of an example and a neighbour, 8: each as often as any other, two for each example."""
    machine = machine_of("bernoulli", 5)
    x = np.tile(all_states(machine.visible, 5).numpy()[[0, 7, 25, 30]], [4000, 1, 1]).astype("float32")
    batch = Batch(machine, tf.constant(x), tf.zeros(x.shape[:-1]))
    visible = Neighbours(share=0.4).points(machine, batch, {}, KEY)[0].visible.numpy()
    assert visible.shape == (4000, 8, 5)
    own = x[:, np.repeat(np.arange(4), 2)]
    assert (np.abs(visible - own).sum(-1) == 1).all()
    which = np.abs(visible - own).argmax(-1).reshape(4000, 4, 2)
    assert (which[..., 0] <= 2).all()  # one of each half of the five, of which the third belongs to both
    assert (which[..., 1] >= 2).all()
    counts = np.stack([np.bincount(which[:, i].ravel(), minlength=5) for i in range(4)])
    assert np.abs(counts - 1600).max() < 4 * np.sqrt(1600 * 0.6)


@pytest.mark.parametrize("kind", KINDS, ids=importance.name)
def test_random_states_are_uniform(kind):
    machine = machine_of(kind, KINDS[kind])
    space = all_states(machine.visible, KINDS[kind]).numpy()
    visible = points_of(RandomStates(per_example=4000), machine, space[:5]).visible.numpy()
    _, counts = np.unique(np.concatenate([space, visible]), axis=0, return_counts=True)
    assert len(counts) == len(space)
    expected = 20000 / len(space)
    chi_square = np.sum((counts - 1 - expected) ** 2 / expected)
    assert abs(chi_square - (len(space) - 1)) < 4 * np.sqrt(2 * (len(space) - 1))


def test_expectations_are_taken_at_the_nearest_state():
    machine = machine_of("bernoulli", 3)
    visible = points_of(Neighbours(), machine, np.array([[0.9, 0.2, 0.6]], "float32")).visible
    np.testing.assert_array_equal(visible, [[0, 0, 1], [1, 1, 1], [1, 0, 0]])


def brute_force_log_density(machine, parts, x, states):
    """Log of the density of joined points at states, term by term over examples and hidden states."""
    total, count = 0.0, sum(len(part.visible) for part in parts)
    for part in parts:
        if getattr(part, "visible_field", None) is not None:
            fields = tf.cast(part.visible_field, "float64")
            own = np.mean([np.exp(machine.visible.log_prob(states, field[None])) for field in fields], axis=0)
        elif hasattr(part, "distance"):
            near = changed_units(machine.visible, states, x) == part.distance
            own = near.mean(axis=1) / (sum(machine.visible.state_counts(x.shape[1]) - 1) if part.distance else 1)
        else:
            own = np.full(len(states), 1 / machine.visible.num_states(x.shape[1]))
        total = total + len(part.visible) / count * own
    return np.log(total)


@pytest.mark.parametrize("kind", KINDS, ids=importance.name)
def test_the_density_is_the_mixture_of_all_sources(kind):
    machine = machine_of(kind, KINDS[kind])
    space = all_states(machine.visible, KINDS[kind]).numpy()
    x = space[[1, 5, 1, 0]]  # one of them twice
    for source in SOURCES.values():
        points = points_of(source, machine, x)
        parts = getattr(points, "parts", (points,))
        density = points.log_density(machine, tf.constant(space)).numpy()
        expected = brute_force_log_density(machine.cast("float64"), parts, x, space.astype("float64"))
        np.testing.assert_allclose(density, expected, rtol=1e-5, atol=1e-5)
        np.testing.assert_allclose(np.exp(density).sum(), 1, rtol=1e-5)


def first_ratio(machine, phases, log_z):
    """log P / q of the first point of each set, with the density that the test above has checked."""
    states = phases.points.visible[:, :1]
    density = phases.points.log_density(machine, states)
    return tf.cast(-machine.free_energy(states) - density, "float64")[:, 0] - log_z


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("pair", FINITE_PAIRS, ids=importance.ids)
def test_balanced_weights_of_joined_points_tend_to_the_model(pair, source):
    """With sample weights; the examples and their neighbours alone would not reach every state."""
    rbm = model(pair)
    sets = drawn_sets(rbm, NegativePhase(SOURCES[source], VISIBLE), 4, 300, first_ratio)
    check_density(sets)
    more = drawn_sets(rbm, NegativePhase(SOURCES[source], VISIBLE), 16, 150, first_ratio)
    (few, _), (many, error) = importance.bias(sets), importance.bias(more)
    assert many < few / 2 + 4 * error


@pytest.mark.slow
@pytest.mark.parametrize("pair", FINITE_PAIRS, ids=importance.ids)
def test_their_bias_falls_as_one_over_the_number_of_points(pair):
    rbm = model(pair)
    for source in SOURCES:
        slope, error = fitted_exponent(rbm, NegativePhase(SOURCES[source], VISIBLE), first_ratio)
        print(f"{importance.ids(pair)}, {source}: {slope:.3f} +- {error:.3f}")
        assert error < 0.3
        assert abs(slope + 1) < 4 * error + 0.15


def test_reconstructions_of_other_points_are_balanced_on_the_hidden_side():
    """Starts: the examples, their neighbours and random states; each hidden state divided by the mixture of all."""
    start = Joined([Reconstructions(0), Neighbours(share=0.4), RandomStates(per_example=0.5)])

    def ratio(machine, phases, log_z):
        points = phases.points
        hidden, fields = (tf.cast(v, "float64") for v in (points.hidden[:, :1], points.start.hidden_field))
        density = tf.reduce_logsumexp(machine.cast("float64").hidden.log_prob(hidden, fields), axis=-1)
        energy = machine.cast("float64").hidden_free_energy(hidden)[:, 0]
        return -energy - log_z - density + np.log(fields.shape[-2])

    for pair in (("spin", "bernoulli"), (tf_wcd.units.Potts(3), "gaussian")):
        rbm = model(pair)
        for steps in (1, 2):
            phase = NegativePhase(Reconstructions(steps, start=start), BalancedWeights())
            check_density(drawn_sets(rbm, phase, 8, 500, ratio))


def test_model_weights_are_those_of_one_set():
    """softmax(-F) over all points, whatever source they are of; the first source draws what it draws alone."""
    rbm = model(("spin", "spin"))
    machine, x = rbm.machine(), tf.constant(importance.examples(rbm))
    joined = phases_of(machine, NegativePhase(Joined([Reconstructions(1), RandomStates(2.0)])), x, None, {}, KEY)
    alone = phases_of(machine, WCD(), x, None, {}, KEY)
    np.testing.assert_array_equal(joined.points.visible[:3], alone.points.visible)
    assert joined.points.visible.shape == (9, 3)
    np.testing.assert_allclose(
        joined.log_weights, tf.nn.log_softmax(-machine.free_energy(joined.points.visible)), rtol=1e-5
    )
    equal = phases_of(machine, NegativePhase(joined_chains(), UniformWeights()), x, None, chains_state(machine), KEY)
    np.testing.assert_allclose(tf.exp(equal.log_weights), np.full(7, 1 / 7), rtol=1e-6)


def joined_chains():
    return Joined([RandomStates(), PersistentChains(chains=4)])


def chains_state(machine):
    return joined_chains().initial_state(machine, 3, KEY)


def trained(rbm, x, **kwargs):
    rbm.compile(keras.optimizers.SGD(0.1), run_eagerly=True)
    rbm.fit(x, batch_size=4, verbose=0, **kwargs)
    return rbm


def test_joined_chains_live_on_are_started_and_saved(tmp_path):
    x = all_states(tf_wcd.units.get("bernoulli"), 4).numpy()[[1, 5, 7, 9, 10, 12]]
    phase = NegativePhase(joined_chains(), ModelWeights(0.2))
    rbm = tf_wcd.RBMLayer(3, negative_phase=phase, seed=0)
    rbm.start_chains(x[:4])
    np.testing.assert_array_equal(rbm.chain_states()["visible"], x[:4])
    trained(rbm, x, epochs=2, sample_weight=np.arange(1, 7))
    assert set(rbm.chain_states()) == {"visible", "hidden"}
    rbm.save(tmp_path / "rbm.keras")
    again = keras.models.load_model(tmp_path / "rbm.keras")
    for name, value in rbm.chain_states().items():
        np.testing.assert_array_equal(again.chain_states()[name], value)
    assert again.negative_phase.get_config() == phase.get_config()
    trained(rbm, x)
    trained(again, x)
    np.testing.assert_array_equal(again.kernel, rbm.kernel)


def test_nested_sources_are_saved():
    source = Reconstructions(2, start=Joined([Reconstructions(0), Neighbours(0.5), RandomStates(0.25)]))
    again = keras.saving.deserialize_keras_object(keras.saving.serialize_keras_object(source))
    assert again.get_config() == source.get_config()
    assert again.start.sources[1].share == 0.5
    assert again.start.sources[2].per_example == 0.25


def test_an_ensemble_trains_with_joined_points():
    phase = NegativePhase(SOURCES["reconstructions, neighbours and random states"], VISIBLE)
    ensemble = tf_wcd.RBMEnsemble(3, count=2, negative_phase=phase, seed=0)
    trained(ensemble, np.eye(4, dtype="float32"), epochs=2)
    assert np.abs(np.diff(ensemble.kernel.numpy(), axis=0)).max() > 0
    assert 0 < ensemble.history.history["ess"][-1] <= 1


def test_the_compiled_loop_knows_how_many_points_there_are():
    rbm = tf_wcd.RBMLayer(3)
    rbm.build((None, 4))
    machine = rbm.machine()
    every = Joined([Reconstructions(1), Neighbours(), RandomStates(0.5), PersistentChains(chains=7)])
    assert every.num_points(machine, 10, {}) == 10 + 40 + 5 + 7
    assert every.num_points(machine, 10, {"visible": (9, 4)}) == 10 + 40 + 5 + 9
    assert Joined([Reconstructions(1), tf_wcd.negative_phases.PointSource()]).num_points(machine, 10, {}) is None
    assert (
        len(points_of(Joined([Neighbours(0.2), GivenPoints(np.eye(4))]), machine, np.eye(4, dtype="float32")).visible)
        == 7
    )


@pytest.mark.parametrize("source", [Neighbours(), RandomStates(), Joined([Reconstructions(1), Neighbours(0.1)])])
def test_units_without_finitely_many_states_are_refused(source):
    rbm = tf_wcd.RBMLayer(2, visible_type="gaussian", negative_phase=NegativePhase(source))
    rbm.compile("sgd")
    with pytest.raises(ValueError, match=r"finitely many states. Received: visible_type='gaussian'"):
        rbm.fit(np.eye(3), verbose=0)


def test_bad_arguments():
    for make, message in (
        (lambda: Neighbours(0), "share=0"),
        (lambda: Neighbours(1.5), "share=1.5"),
        (lambda: RandomStates("many"), "per_example='many'"),
        (lambda: Joined([]), r"sources=\[\]"),
        (lambda: Joined([WCD()]), "sources="),
        (lambda: Reconstructions(1, start="data"), "start='data'"),
    ):
        with pytest.raises(ValueError, match=message):
            make()


def test_what_does_not_go_together_says_so():
    machine = model(("bernoulli", "bernoulli")).machine()
    x = tf.constant(np.eye(3, dtype="float32"))
    joined = Joined([Reconstructions(1), RandomStates()])
    for phase, message in (
        (NegativePhase(joined, BalancedWeights()), r'BalancedWeights\(side="visible"\).*side=\'hidden\''),
        (NegativePhase(joined, BalancedWeights("visible", mixture=False)), "mixture=False"),
        (NegativePhase(joined, DataWeights()), "6 points and 3 examples"),
        (NegativePhase(Joined([Reconstructions(1), GivenPoints(np.eye(3))]), VISIBLE), "density is known"),
    ):
        with pytest.raises(ValueError, match=message):
            phases_of(machine, phase, x, None, {}, KEY)
    with pytest.raises(ValueError, match=r"At most one of joined sources.*\['hidden', 'visible'\]"):
        Joined([PersistentChains(), PersistentChains()]).initial_state(machine, 3, KEY)
    assert CD().weights.log_weights(
        machine, Batch(machine, x, tf.zeros([3])), points_of(Reconstructions(1), machine, x), {}
    )
    assert PCD().source.alternatives() == ("pcd",)
