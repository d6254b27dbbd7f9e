"""Jarzynski's weights, by enumeration: weighted chains are samples of a model whose parameters move, log Z is right."""

import numpy as np
import pytest
import tensorflow as tf

import tf_wcd
from tf_wcd.evaluation.exact import log_partition_of
from tf_wcd.machine import Machine
from tf_wcd.negative_phases import JPCD, Batch, NegativePhase
from tf_wcd.negative_phases.composition import start, weighted_points
from tf_wcd.negative_phases.points import PersistentChains
from tf_wcd.negative_phases.weights import JarzynskiWeights, UniformWeights
from tf_wcd.random import subkey
from tf_wcd.sampling import exact_sampler
from tf_wcd.sampling.population import annealed_population, follow, log_partitions, pooled

PAIRS = [
    ("bernoulli", "bernoulli"),
    ("spin", "spin"),
    (tf_wcd.units.Potts(3), "spin"),
    (tf_wcd.units.Gaussian(learn_variance=True), "bernoulli"),
    ("spin", tf_wcd.units.Gaussian(2.0)),
]
N_V, N_H, STEPS, RUNS = 3, 2, 4, 40
KEY = tf.constant([3, 4], tf.uint32)


def path(pair, scale=1.0, move=0.4):
    """Parameters along a path of large random steps ``[STEPS + 1, ...]``, asymmetric in every one."""
    rng = np.random.default_rng(5)
    shapes = {"kernel": (N_V, N_H), "visible_bias": (N_V,), "hidden_bias": (N_H,)}
    steps = np.linspace(0, 0.8, STEPS + 1)[:, None]

    def walk(shape):
        start, moves = rng.normal(0.2, scale, shape), rng.normal(0, move, (STEPS, *shape))
        return start + np.concatenate([np.zeros((1, *shape)), np.cumsum(moves, axis=0)])

    def own(unit, columns):
        return {name: v + steps * np.arange(len(v)) for name, v in unit.initial_parameters(columns).items()}

    sides = {"visible": own(tf_wcd.units.get(pair[0]), N_V), "hidden": own(tf_wcd.units.get(pair[1]), N_H)}
    return tf.nest.map_structure(
        lambda v: tf.constant(v, tf.float32), {name: walk(s) for name, s in shapes.items()} | sides
    )


def machine_at(pair, parameters, step, copies=()):
    """The machine of one step of a path; several copies of it along a leading axis are independent runs in one."""
    present = tf.nest.map_structure(lambda v: tf.broadcast_to(v[step], [*copies, *v.shape[1:]]), parameters)
    sides = {
        side: tf_wcd.units.get(unit).bind(present.pop(side))
        for side, unit in zip(("visible", "hidden"), pair, strict=True)
    }
    return Machine(**sides, **present)


def exact_means(machine):
    """E[x], E[h] and E[x h^T] of the model, by a sum over the side that has finitely many states."""
    wide = machine.cast("float64")
    if wide.hidden.finite:
        h = wide.hidden.states_at(tf.range(wide.hidden.num_states(N_H)), N_H, "float64").numpy()
        p = tf.nn.softmax(-wide.hidden_free_energy(h)).numpy()
        x = wide.visible.mean(wide.visible_field(h)).numpy()
    else:
        x = wide.visible.states_at(tf.range(wide.visible.num_states(N_V)), N_V, "float64").numpy()
        p = tf.nn.softmax(-wide.free_energy(x)).numpy()
        h = wide.hidden.mean(wide.hidden_field(x)).numpy()
    return np.concatenate([p @ x, p @ h, np.ravel(np.einsum("m,mi,mj->ij", p, x, h))])


def weighted_means(machine, points, log_weights):
    w = tf.exp(log_weights)[..., None]
    h = machine.hidden.mean(points.hidden_field)
    products = tf.matmul(points.visible, w * h, transpose_a=True)
    sums = [tf.reduce_sum(w * points.visible, -2), tf.reduce_sum(w * h, -2)]
    return tf.concat([*sums, tf.reshape(products, [RUNS, N_V * N_H])], axis=-1)


def along_path(pair, phase, chains=1000, **how):
    """Weighted means of each run at the end of a path that began with exact samples; and the exact ones."""
    parameters = path(pair, **how)

    @tf.function(autograph=False)
    def run():
        samples = exact_sampler(machine_at(pair, parameters, 0)).sample(RUNS * chains, KEY)
        visible = tf.reshape(samples, [RUNS, chains, N_V])
        state = start(phase, machine_at(pair, parameters, 0, [RUNS]), KEY, visible=visible)
        batch = tf.zeros([RUNS, 1, N_V])

        def update(step, state, _):
            machine = machine_at(pair, parameters, step, [RUNS])
            points, log_weights, after = weighted_points(
                phase, machine, Batch(machine, batch, batch[..., 0]), state, subkey(KEY, step)
            )
            return step + 1, {name: after[name] for name in state}, weighted_means(machine, points, log_weights)

        nothing = tf.zeros([RUNS, N_V + N_H + N_V * N_H])
        return tf.while_loop(lambda step, *_: step <= STEPS, update, [tf.constant(1), state, nothing])[2]

    return run().numpy(), exact_means(machine_at(pair, parameters, STEPS))


def deviation(means, truth, bias):
    """Largest deviation of the mean of all runs in its standard errors, and in what a few chains more would change."""
    error = means.std(0, ddof=1) / np.sqrt(RUNS)
    return np.max(np.abs(means.mean(0) - truth) / (error + bias))


@pytest.mark.parametrize("pair", PAIRS, ids=str)
def test_weighted_chains_stay_samples_of_a_model_that_moves(pair):
    """Within 4 standard errors; ratios of sums over 1000 chains have a bias of the order of 1/1000.

    Real hidden units are large, and so are the changes of the energy: their path is smoother.
    """
    how = {} if tf_wcd.units.get(pair[1]).finite else {"scale": 0.5, "move": 0.2}
    means, truth = along_path(pair, JPCD(observers=0), **how)
    assert deviation(means, truth, 1e-3) < 4


def test_equal_weights_do_not_stay():
    """The test above can fail: without the weights the chains lag behind."""
    means, truth = along_path(PAIRS[1], NegativePhase(PersistentChains(), UniformWeights()))
    assert deviation(means, truth, 1e-3) > 20


@pytest.mark.parametrize("threshold", [0.0, 1.0])
def test_resampling_leaves_expectations_as_they_are(threshold):
    """Never, and at each update."""
    phase = NegativePhase(PersistentChains(2), JarzynskiWeights(threshold, observers=0))
    means, truth = along_path(PAIRS[1], phase)
    assert deviation(means, truth, 1e-3) < 4


@pytest.mark.parametrize("pair", PAIRS, ids=str)
def test_the_mean_of_z_is_exact_whatever_the_chains_do(pair):
    """Small groups along a rough path, from independent units on: each group's Z is unbiased, so the mean of 400 is
    within 4 of its standard errors."""
    parameters = path(pair, scale=0.5, move=0.25)

    @tf.function(autograph=False)
    def run(threshold):
        def update(step, population):
            machine = machine_at(pair, parameters, step, [RUNS])
            return step + 1, follow(machine, population, 1, threshold, subkey(KEY, 100 + step))

        population = annealed_population(machine_at(pair, parameters, 0, [RUNS]), 10, 20, KEY)
        loop = tf.while_loop(lambda step, _: step <= STEPS, update, [tf.constant(1), population])
        return log_partitions(loop[1])

    truth = float(log_partition_of(machine_at(pair, parameters, STEPS)))
    for threshold in (0.0, 0.5, 1.0):
        ratios = np.exp(run(tf.constant(threshold)).numpy().astype("float64") - truth).ravel()
        error = ratios.std(ddof=1) / np.sqrt(ratios.size)
        assert error < 0.1
        assert abs(ratios.mean() - 1) < 4 * error


def test_the_pooled_estimate_and_its_jackknife():
    values = np.log(np.random.default_rng(0).gamma(3.0, size=(7, 10)))
    estimate, error = pooled(tf.constant(values))
    np.testing.assert_allclose(estimate, np.log(np.exp(values).mean(-1)))
    left = [np.log(np.exp(np.delete(values, i, axis=-1)).mean(-1)) for i in range(10)]
    distance = values.mean(-1) + 0.5 * values.var(-1, ddof=1) - estimate
    np.testing.assert_allclose(error, np.sqrt(9 * np.var(left, axis=0) + distance**2), rtol=1e-9)
    # One group that has all the weight is no reason to trust it.
    assert float(pooled(tf.constant([0.0] * 9 + [20.0])).standard_error) > 10
