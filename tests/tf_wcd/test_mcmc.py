"""Block Gibbs as a kernel of TFP: exact at every temperature, and with replica exchange between separated modes."""

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_probability as tfp

import tf_wcd
from tests.support import brute_force as bf
from tf_wcd import mcmc

N = 100_000
BETAS = [1.0, 0.6, 0.25, 0.0]


def run(kernel, state, steps, seed=1, jit_compile=False, **options):
    options = {"trace_fn": None, "seed": tf.constant([0, seed]), **options}
    sample = lambda: tfp.mcmc.sample_chain(steps, state, kernel=kernel, **options)  # noqa: E731
    return tf.function(sample, jit_compile=jit_compile, autograph=False)()


def joint_distribution(p, pair, beta=1.0):
    """All x, all h, and the probability of each pair, [states of x * states of h]."""
    x, h, log_joint = bf.log_joint(bf.Parameters(*(beta * a for a in p)), *pair)
    return x, h, np.exp(log_joint - bf.log_sum_exp(log_joint)).ravel()


def draw_pairs(p, pair, beta, rng, n=N):
    x, h, probabilities = joint_distribution(p, pair, beta)
    i, j = np.divmod(rng.choice(probabilities.size, n, p=probabilities), len(h))
    return x[i].astype("float32"), h[j].astype("float32")


def assert_distribution(indices, probabilities):
    """The distance of exact samples is near its expectation: over many states it hardly varies."""
    counts = np.bincount(indices, minlength=len(probabilities))
    distance, floor = bf.total_variation(counts, probabilities)
    spread = 0.5 * np.sqrt((1 - 2 / np.pi) * (probabilities * (1 - probabilities)).sum() / counts.sum())
    assert distance < floor + 5 * spread < 4 * floor


def joint_index(x, h):
    return bf.index_of(x) * 2 ** h.shape[1] + bf.index_of(h)


# One step


@pytest.mark.parametrize("pair", bf.BINARY_PAIRS[2:])
def test_a_step_keeps_the_distribution_of_x_and_of_the_pair(pair):
    p = bf.random_parameters(5, 3)
    kernel = mcmc.BlockGibbs(bf.make_rbm(p, *pair))
    x, h = draw_pairs(p, pair, 1.0, np.random.default_rng(0))
    _, probabilities = bf.visible_distribution(p, *pair)
    new_x = run(kernel, x, 3)[-1].numpy()
    assert set(np.unique(new_x)) == set(bf.VALUES[pair[0]])
    assert_distribution(bf.index_of(new_x), probabilities)
    assert np.mean((new_x != x).any(1)) > 0.5  # it did move
    pair_x, pair_h = (part[-1].numpy() for part in run(kernel, [x, h], 3))
    assert_distribution(joint_index(pair_x, pair_h), joint_distribution(p, pair)[2])


@pytest.mark.parametrize("pair", bf.BINARY_PAIRS[2:])
def test_each_replica_keeps_its_own_tempered_joint_distribution(pair):
    p = bf.random_parameters(4, 3, scale=1.5)
    rng = np.random.default_rng(0)
    starts = [draw_pairs(p, pair, beta, rng, N // 2) for beta in BETAS]
    state = [np.stack(part) for part in zip(*starts, strict=True)]
    x, h = (part[-1].numpy() for part in run(mcmc.BlockGibbs(bf.make_rbm(p, *pair), BETAS), state, 2))
    for i, beta in enumerate(BETAS):
        assert_distribution(joint_index(x[i], h[i]), joint_distribution(p, pair, beta)[2])
    # The marginal of the tempered joint is another distribution than the tempered marginal, which is why states are
    # pairs.
    marginal = joint_distribution(p, pair, BETAS[2])[2].reshape(16, 8).sum(1)
    tempered = bf.visible_distribution(p, *pair)[1] ** BETAS[2]
    assert 0.5 * np.abs(marginal - tempered / tempered.sum()).sum() > 0.01


def gaussian_pairs(p, hidden_type, beta, rng, n):
    """Exact x and h at an inverse temperature, and the probabilities of h and centres of x that they come from."""
    h = bf.space(hidden_type, len(p.c))
    centres = beta * (p.b + h @ p.W.T)
    log_weights = beta * (h @ p.c) + 0.5 * (centres**2).sum(1)
    probabilities = np.exp(log_weights - bf.log_sum_exp(log_weights))
    chosen = rng.choice(len(h), n, p=probabilities)
    x = centres[chosen] + rng.normal(size=(n, len(p.b)))
    return x.astype("float32"), h[chosen].astype("float32"), probabilities, centres


@pytest.mark.parametrize(("hidden_type", "exchange"), [("bernoulli", False), ("spin", True)])
def test_gaussian_replicas_keep_their_distributions(hidden_type, exchange):
    p = bf.random_parameters(3, 2)
    rng = np.random.default_rng(0)
    starts = [gaussian_pairs(p, hidden_type, beta, rng, N // 2) for beta in BETAS]
    state = [np.stack([start[part] for start in starts]) for part in (0, 1)]
    rbm = bf.make_rbm(p, "gaussian", hidden_type)
    kernel = (
        mcmc.replica_exchange(rbm, BETAS, state_includes_replicas=True) if exchange else mcmc.BlockGibbs(rbm, BETAS)
    )
    x, h = (part[-1].numpy().astype("float64") for part in run(kernel, state, 4))
    for i, (_, _, probabilities, centres) in enumerate(starts):
        assert_distribution(bf.index_of(h[i]), probabilities)
        second = np.eye(3) + np.einsum("k,ki,kj->ij", probabilities, centres, centres)
        products = x[i][:, :, None] * x[i][:, None, :]
        for got, expected in ((x[i], probabilities @ centres), (products, second)):
            assert np.all(np.abs(got.mean(0) - expected) < 4.5 * got.std(0) / np.sqrt(len(got)))


@pytest.mark.parametrize("pair", bf.UNIT_PAIRS)
def test_target_log_prob(pair):
    p = bf.random_parameters(4, 3)
    rng = np.random.default_rng(1)
    draw = lambda unit, n: rng.normal(size=(2, 5, n)) if unit == "gaussian" else rng.choice(bf.VALUES[unit], (2, 5, n))  # noqa: E731
    x, h = (draw(unit, n).astype("float32") for unit, n in zip(pair, (4, 3), strict=True))
    rbm = bf.make_rbm(p, *pair)
    free_energy = rbm.free_energy(x.reshape(10, 4)).numpy().reshape(2, 5)
    energy = rbm.energy(x.reshape(10, 4), h.reshape(10, 3)).numpy().reshape(2, 5)
    kernel = mcmc.BlockGibbs(rbm)
    np.testing.assert_allclose(kernel.bootstrap_results(x).target_log_prob, -free_energy, rtol=1e-5)
    np.testing.assert_allclose(kernel.bootstrap_results([x, h]).target_log_prob, -energy, rtol=1e-4)
    # One chain, without any axis for chains.
    np.testing.assert_allclose(kernel.bootstrap_results(x[0, 0]).target_log_prob, -free_energy[0, 0], rtol=1e-5)
    base = 0.5 * (x**2).sum(-1) if pair[0] == "gaussian" else 0.0
    scaled = mcmc.BlockGibbs(rbm, [0.5, 0.0]).bootstrap_results([x, h]).target_log_prob
    np.testing.assert_allclose(scaled, np.array([[0.5], [0.0]]) * (base - energy) - base, rtol=1e-4, atol=1e-5)
    # A step's results are those of the state that it returns.
    for state in (x, [x, h]):
        new, results = kernel.one_step(state, kernel.bootstrap_results(state), seed=tf.constant([0, 3]))
        np.testing.assert_allclose(
            results.target_log_prob, kernel.bootstrap_results(new).target_log_prob, rtol=1e-4, atol=1e-5
        )


def test_seeds_compiled_steps_and_copies():
    rbm = bf.make_rbm(bf.random_parameters(6, 4))
    kernel = mcmc.BlockGibbs(rbm)
    assert kernel.is_calibrated
    start = np.zeros((50, 6), "float32")
    first = run(kernel, start, 3, seed=7).numpy()
    np.testing.assert_array_equal(first, run(kernel.copy(), start, 3, seed=7))
    assert (first != run(kernel, start, 3, seed=8).numpy()).any()
    step = lambda: kernel.one_step(start, None, seed=tf.constant([3, 4]))[0]  # noqa: E731
    np.testing.assert_array_equal(step(), tf.function(step, jit_compile=True)())
    assert kernel.copy(inverse_temperatures=[1.0, 0.5]).inverse_temperatures.tolist() == [1.0, 0.5]
    assert (kernel.one_step(start, None)[0].numpy() != kernel.one_step(start, None)[0].numpy()).any()
    # The kernel follows the layer.
    rbm.visible_bias.assign(np.full(6, 50.0))
    np.testing.assert_array_equal(kernel.one_step(start, None, seed=1)[0], np.ones((50, 6)))


def test_float64():
    rbm = bf.make_rbm(bf.random_parameters(5, 3), dtype="float64")
    x, h = run(mcmc.replica_exchange(rbm, BETAS), [np.zeros((2, 5)), np.zeros((2, 3))], 5)
    assert x.dtype == h.dtype == tf.float64


@pytest.mark.parametrize(
    ("state", "betas", "message"),
    [
        (np.zeros((2, 5)), None, "float32 and .*Received: float64"),
        (np.zeros((2, 4), "float32"), None, r"\[..., 5\].*shape \(2, 4\)"),
        ([np.zeros((2, 5), "float32")], None, r"needs \[x, h\].*length 1"),
        ([np.zeros((2, 5), "float32"), np.zeros((2, 5), "float32")], None, r"`h`.*\[..., 3\]"),
        ([np.zeros((2, 5), "float32"), np.zeros((3, 3), "float32")], None, "leading axes"),
        (np.zeros((3, 5), "float32"), [1.0, 0.5], "length 2, one entry for each"),
        (np.zeros(5, "float32"), [1.0, 0.5], "length 2, one entry for each"),
    ],
)
def test_bad_states(state, betas, message):
    kernel = mcmc.BlockGibbs(bf.make_rbm(bf.random_parameters(5, 3)), betas)
    with pytest.raises(ValueError, match=message):
        kernel.bootstrap_results(state)
    with pytest.raises(ValueError, match=message):
        kernel.one_step(state, None, seed=0)


def test_bad_arguments():
    rbm = bf.make_rbm(bf.random_parameters(5, 3))
    for betas in ([], [1.0, -0.1], [1.0, np.inf], 1.0):
        with pytest.raises(ValueError, match="inverse_temperatures"):
            mcmc.BlockGibbs(rbm, betas)
    with pytest.raises(ValueError, match=r"first .* must be 1.*\[0.5, 1.0\]"):
        mcmc.replica_exchange(rbm, [0.5, 1.0])
    with pytest.raises(ValueError, match="does not know its number of visible units"):
        mcmc.BlockGibbs(tf_wcd.RBMLayer(3))


# Two modes


def two_modes(pair):
    """A model without symmetry whose states lie near two patterns opposite to each other; and which is near the first.

    Written in spins, the kernel is that of two patterns of x and h with a factor of its own for each weight. The same
    model in 0/1 units has four times the kernel, and biases that make up for the shift.
    """
    rng = np.random.default_rng(4)
    pattern, hidden_pattern = rng.choice([-1.0, 1.0], 8), rng.choice([-1.0, 1.0], 6)
    W = 0.5 * np.outer(pattern, hidden_pattern) * rng.uniform(0.8, 1.2, (8, 6))
    b, c = 0.03 * pattern + rng.normal(0, 0.05, 8), rng.normal(0, 0.05, 6)
    if pair == ("bernoulli", "bernoulli"):
        W, b, c = 4 * W, 2 * b - 2 * W.sum(1), 2 * c - 2 * W.sum(0)
    p = bf.Parameters(*(a.astype("float32").astype("float64") for a in (W, b, c)))
    middle = np.mean(bf.VALUES[pair[0]])
    return p, lambda x: (x - middle) @ pattern > 0


def transitions(p, pair):
    """The chance of each x to become each other x in one step of block Gibbs."""
    x, h = bf.space(pair[0], len(p.b)), bf.space(pair[1], len(p.c))
    return bf.conditional(x @ p.W + p.c, pair[1], h) @ bf.conditional(h @ p.W.T + p.b, pair[0], x)


LADDER = [1.0, 0.7, 0.5, 0.35, 0.2, 0.1, 0.0]


@pytest.mark.parametrize("pair", [("spin", "spin"), pytest.param(("bernoulli", "bernoulli"), marks=pytest.mark.slow)])
def test_replica_exchange_mixes_where_plain_gibbs_is_stuck(pair):
    p, in_first = two_modes(pair)
    states, probabilities = bf.visible_distribution(p, *pair)
    first = in_first(states)
    share = probabilities[first].sum()
    assert 0.55 < share < 0.8  # two modes, of different weight
    step = transitions(p, pair)
    np.testing.assert_allclose(probabilities @ step, probabilities, atol=1e-12)
    crossing = probabilities[first] @ step[np.ix_(first, ~first)].sum(1) / share
    assert crossing < 1e-6  # exactly: from within the mode, less than one step in a million leaves it

    rbm = bf.make_rbm(p, *pair)
    chains, steps = 32, 1500
    # All chains start at the likeliest state.
    top = states[probabilities.argmax()].astype("float32")
    h = bf.space(pair[1], 6)
    top_h = h[(h @ (top @ p.W + p.c)).argmax()].astype("float32")
    start = [np.tile(top, (chains, 1)), np.tile(top_h, (chains, 1))]
    plain = run(mcmc.BlockGibbs(rbm), start[0], steps).numpy()
    assert (in_first(plain) == in_first(top)).all()
    assert (plain != top).any()  # it moves within its mode

    kernel = mcmc.replica_exchange(rbm, LADDER)
    (x, _), (accepted, proposed) = run(
        kernel, start, steps, num_burnin_steps=200,
        trace_fn=lambda _, results: (results.is_swap_accepted_adjacent, results.is_swap_proposed_adjacent),
    )  # fmt: skip
    rates = np.sum(accepted, (0, 2)) / np.sum(proposed, (0, 2))
    assert (rates > 0.2).all()
    inside = in_first(x.numpy()).astype("float64")
    effective = tfp.mcmc.effective_sample_size(inside, cross_chain_dims=1).numpy()
    assert effective > 500
    assert abs(inside.mean() - share) < 4 * np.sqrt(share * (1 - share) / effective)
    assert tfp.mcmc.potential_scale_reduction(inside).numpy() < 1.05


def test_replica_exchange_stays_exact():
    """From exact samples of every replica, each still has its exact joint distribution after exchanges."""
    pair = ("spin", "bernoulli")
    p = bf.random_parameters(5, 3)
    rng = np.random.default_rng(2)
    starts = [draw_pairs(p, pair, beta, rng) for beta in BETAS]
    state = [np.stack(part) for part in zip(*starts, strict=True)]
    kernel = mcmc.replica_exchange(bf.make_rbm(p, *pair), BETAS, state_includes_replicas=True)
    (x, h), accepted = run(kernel, state, 4, trace_fn=lambda _, results: results.is_swap_accepted_adjacent)
    assert np.mean(accepted) > 0.1
    for i, beta in enumerate(BETAS):
        assert_distribution(joint_index(x[-1, i].numpy(), h[-1, i].numpy()), joint_distribution(p, pair, beta)[2])


def test_replica_exchange_made_by_hand():
    """Binary units have no base energy: TFP's plain form, with the target tempered as a whole, is the same sampler."""
    p = bf.random_parameters(5, 3)
    rbm = bf.make_rbm(p)
    start = [np.zeros((3, 5), "float32"), np.zeros((3, 3), "float32")]
    by_hand = tfp.mcmc.ReplicaExchangeMC(
        target_log_prob_fn=lambda x, h: -rbm.machine().energy(x, h),
        inverse_temperatures=[1.0, 0.5],
        make_kernel_fn=lambda _: mcmc.BlockGibbs(rbm, [1.0, 0.5]),
    )
    ours = run(mcmc.replica_exchange(rbm, [1.0, 0.5]), start, 50)
    for a, b in zip(run(by_hand, start, 50), ours, strict=True):
        np.testing.assert_array_equal(a, b)


def test_diagnostics_of_chains():
    """Fast chains count almost fully; chains stuck in two modes are seen by the scale reduction."""
    rbm = bf.make_rbm(bf.random_parameters(5, 3, scale=0.1))
    chains = run(mcmc.BlockGibbs(rbm), np.zeros((8, 5), "float32"), 2000, num_burnin_steps=50)
    effective = tfp.mcmc.effective_sample_size(chains, cross_chain_dims=1).numpy()
    assert effective.shape == (5,)
    assert np.all((effective > 0.7 * 16000) & (effective < 1.3 * 16000))
    assert np.all(np.abs(tfp.mcmc.potential_scale_reduction(chains).numpy() - 1) < 0.01)

    p, _ = two_modes(("spin", "spin"))
    states, probabilities = bf.visible_distribution(p, "spin", "spin")
    top = states[probabilities.argmax()].astype("float32")
    stuck = run(mcmc.BlockGibbs(bf.make_rbm(p, "spin", "spin")), np.stack([top] * 4 + [-top] * 4), 500)
    assert np.all(tfp.mcmc.potential_scale_reduction(stuck).numpy() > 2)
