"""Unknown entries: gradients, probabilities and imputations against sums over all that is unknown."""

import itertools

import numpy as np
import pytest
import tensorflow as tf

import tf_wcd
from tests.support import brute_force as bf
from tf_wcd.random import batch_source, key_of
from tf_wcd.sampling import run_chains
from tf_wcd.sampling.unknown import clamped_draw, exact_draw
from tf_wcd.training import missing

NAN = np.nan
SHARES = np.array([0.3, 1.2, 0.7, 2.0, 0.8]) / 5
STATES = {"bernoulli": [[0.0], [1.0]], "spin": [[-1.0], [1.0]], "potts": np.eye(3)}
# kinds of units, and sizes of both sides: now the hidden side is the smaller one, now the visible side
CASES = [
    ("bernoulli", "spin", 5, 3),
    ("spin", "bernoulli", 3, 5),
    ("potts", "bernoulli", 6, 2),
    ("potts", "spin", 6, 4),
    ("gaussian", "spin", 3, 3),
    ("mixed", "bernoulli", 5, 3),
]


def unit_of(name):
    gaussian = tf_wcd.units.Gaussian(variance=0.7, learn_variance=True)
    known = {"potts": tf_wcd.units.Potts(3), "gaussian": gaussian}
    known["mixed"] = tf_wcd.units.Mixed([(gaussian, 1), ("spin", 1), (tf_wcd.units.Potts(3), 3)])
    return known.get(name, name)


def kinds_of(name, width):
    """The kind and the columns of every unit of a layer."""
    if name == "mixed":
        return [("gaussian", [0]), ("spin", [1]), ("potts", [2, 3, 4])]
    size = 3 if name == "potts" else 1
    return [(name, list(range(start, start + size))) for start in range(0, width, size)]


def rows_of(name, width, seed=0, rows=5):
    """Rows of states, a third of whose units are unknown; one row is known, and one has nothing known."""
    rng = np.random.default_rng(seed)
    x = np.empty([rows, width])
    for kind, columns in kinds_of(name, width):
        if kind == "gaussian":
            x[:, columns] = rng.normal(size=(rows, 1))
        else:
            x[:, columns] = np.array(STATES[kind])[rng.integers(0, len(STATES[kind]), rows)]
        x[np.ix_(np.flatnonzero(rng.random(rows) < 0.4), columns)] = NAN
    x[1] = np.where(np.isnan(x[1]), x[0], x[1])
    x[1] = np.where(np.isnan(x[1]), _first_states(name, width), x[1])
    x[2] = NAN
    return x


def _first_states(name, width):
    return np.concatenate([[0.5] if kind == "gaussian" else STATES[kind][0] for kind, _ in kinds_of(name, width)])


def log_joint_of_known(p, x, name, hidden, variance=0.7):
    """log of the sum (integral) of exp(-Energy) over what is unknown, for one row and each hidden state."""
    h = bf.space(hidden, len(p.c))
    field = p.b + h @ p.W.T
    total = h @ p.c
    for kind, columns in kinds_of(name, len(x)):
        own = field[:, columns]
        if not np.isnan(x[columns]).any():
            base = (x[columns] ** 2).sum() / (2 * variance) if kind == "gaussian" else 0.0
            total = total + own @ x[columns] - base
        elif kind == "gaussian":
            total = total + (0.5 * variance * own**2 + 0.5 * np.log(2 * np.pi * variance))[:, 0]
        else:
            total = total + bf.log_sum_exp(own @ np.array(STATES[kind]).T, 1)
    return total


def free_energies(p, x, name, hidden, variance=0.7):
    return np.array([-bf.log_sum_exp(log_joint_of_known(p, row, name, hidden, variance)) for row in x])


def make(visible, hidden, n_v, n_h, seed=3, layer=tf_wcd.RBMLayer, **options):
    p = bf.random_parameters(n_v, n_h, seed=seed)
    rbm = layer(
        n_h, visible_type=unit_of(visible), hidden_type=hidden, missing="nan", dtype="float64", seed=1, **options
    )
    rbm.build((None, n_v))
    if layer is tf_wcd.RBMLayer:
        bf.set_parameters(rbm, p)
    return rbm, p


def update_of(rbm, x, number=0):
    weights = tf.constant(5 * SHARES)
    return rbm.update(tf.constant(x), weights, {}, key_of(tf.constant([5, number], tf.int64)), training=True)


def slope(loss, values):
    """Finite differences of a function of an array."""
    slopes = np.zeros_like(values)
    for place in np.ndindex(values.shape):
        step = np.zeros_like(values)
        step[place] = 1e-5
        slopes[place] = (loss(values + step) - loss(values - step)) / 2e-5
    return slopes


def loss_of(update, x, visible, hidden):
    """Mean F of the known entries minus that of the points, as the update holds them."""
    points, weights = np.array(update.points.visible), np.exp(update.log_weights)

    def loss(p, variance=0.7):
        data = SHARES @ free_energies(p, x, visible, hidden, variance)
        return data - weights @ free_energies(p, points, visible, hidden, variance)

    return loss


@pytest.mark.parametrize("case", CASES, ids="-".join(map(str, range(6))).split("-"))
def test_the_gradient_is_that_of_the_known_entries(case):
    visible, hidden, n_v, _ = case
    rbm, p = make(*case, negative_phase="cd")
    x = rows_of(visible, n_v)
    update = update_of(rbm, x)
    gradient, loss = rbm.gradient(update), loss_of(update, x, visible, hidden)
    for name, part in zip("Wbc", gradient[:3], strict=True):
        expected = slope(lambda v, name=name: loss(p._replace(**{name: v})), getattr(p, name))
        np.testing.assert_allclose(part, expected, rtol=1e-6, atol=1e-8)
    for part in gradient.visible_unit.values():  # the logarithms of variances
        expected = slope(lambda v: loss(p, 0.7 * np.exp(v[0])), np.zeros(1))
        np.testing.assert_allclose(np.sum(part), expected[0], rtol=1e-6)
    measures = rbm.measures(update)
    assert float(measures["loss"]) == pytest.approx(loss(p), rel=1e-9)
    known = ~np.isnan(np.nan_to_num(x, nan=NAN))
    np.testing.assert_array_equal(np.array(update.batch.visible)[known], x[known])


def test_the_whole_gradient_is_that_of_the_likelihood():
    """With the exact negative phase: of -log P(known entries), Z included."""
    rbm, p = make("potts", "bernoulli", 6, 2, negative_phase="exact")
    x = rows_of("potts", 6)

    def loss(p):
        states = np.array([np.concatenate(s) for s in itertools.product(np.eye(3), repeat=2)])
        return SHARES @ free_energies(p, x, "potts", "bernoulli") + bf.log_sum_exp(
            -free_energies(p, states, "potts", "bernoulli")
        )

    gradient = rbm.gradient(update_of(rbm, x))
    for name, part in zip("Wbc", gradient[:3], strict=True):
        np.testing.assert_allclose(
            part, slope(lambda v, name=name: loss(p._replace(**{name: v})), getattr(p, name)), rtol=1e-6, atol=1e-8
        )


@pytest.mark.parametrize("standardized", [False, True])
def test_the_centred_gradient(standardized):
    """It is a linear map of the plain one, and its offsets follow the expectations of what is unknown."""
    case = ("spin", "bernoulli", 3, 5)
    x = rows_of("spin", 3)
    plain, p = make(*case, negative_phase="cd")
    rbm, _ = make(*case, negative_phase="cd", centered=True, standardized=standardized)
    rng = np.random.default_rng(1)
    for variable in (v for v in rbm.weights if not v.trainable and v.shape and v.dtype == "float64"):
        variable.assign(rng.random(variable.shape))
    mine, theirs = rbm.gradient(update_of(rbm, x)), plain.gradient(update_of(plain, x))
    offsets = rbm.offsets()
    mu, lam = np.array(offsets.visible), np.array(offsets.hidden)
    kernel = np.array(theirs.kernel) - np.outer(theirs.visible_bias, lam) - np.outer(mu, theirs.hidden_bias)
    visible, hidden = np.array(theirs.visible_bias), np.array(theirs.hidden_bias)
    if standardized:
        scales = [1 / (np.array(v) + 0.01) for v in (offsets.visible_variance, offsets.hidden_variance)]
        kernel, visible, hidden = kernel * np.outer(*scales), visible * scales[0], hidden * scales[1]
    np.testing.assert_allclose(mine.kernel, kernel, rtol=1e-9)
    np.testing.assert_allclose(mine.visible_bias, visible - kernel @ lam, rtol=1e-9)
    np.testing.assert_allclose(mine.hidden_bias, hidden - mu @ kernel, rtol=1e-9)
    slopes = slope(lambda v: -SHARES @ free_energies(p._replace(b=v), x, "spin", "bernoulli"), p.b)
    np.testing.assert_allclose(mine.data_means.visible, slopes, rtol=1e-6)
    slopes = slope(lambda v: -SHARES @ free_energies(p._replace(c=v), x, "spin", "bernoulli"), p.c)
    np.testing.assert_allclose(mine.data_means.hidden, slopes, rtol=1e-6)


def test_members_of_an_ensemble():
    ensemble, _ = make("potts", "bernoulli", 6, 2, layer=tf_wcd.RBMEnsemble, count=2, initial_stddev=0.8)
    x = rows_of("potts", 6)
    means, energies = ensemble.impute(x), ensemble.free_energy(x)
    update = update_of(ensemble, x)
    gradient = ensemble.gradient(update)
    for number in range(2):
        rbm = ensemble.member(number)
        assert rbm.missing == "nan"
        np.testing.assert_allclose(means[number], rbm.impute(x), rtol=1e-9)
        np.testing.assert_allclose(energies[number], rbm.free_energy(x), rtol=1e-9)
        p = bf.parameters_of(rbm)
        own = update._replace(
            points=type(update.points)(update.points.visible[number], update.points.hidden_field[number]),
            log_weights=update.log_weights[number],
        )
        loss = loss_of(own, x, "potts", "bernoulli")
        expected = slope(lambda v, p=p, loss=loss: loss(p._replace(W=v)), p.W)
        np.testing.assert_allclose(gradient.kernel[number], expected, rtol=1e-5, atol=1e-8)


# Draws

DRAWS = 20_000


def exact_posterior(p, x):
    """All completions of a row of a 0/1 machine with spins, and their probabilities."""
    states = bf.space("bernoulli", len(x))
    known = ~np.isnan(x)
    states = states[(states[:, known] == x[known]).all(1)]
    weights = -free_energies(p, states, "bernoulli", "spin")
    return states, np.exp(weights - bf.log_sum_exp(weights))


def z_scores(drawn, states, chances):
    counts = np.array([(drawn == state).all(1).sum() for state in states])
    assert counts.sum() == len(drawn)  # known entries stay
    return (counts - len(drawn) * chances) / np.sqrt(len(drawn) * chances * (1 - chances))


@pytest.mark.parametrize("sizes", [(5, 3), (3, 5)], ids=["hidden side", "visible side"])
def test_draws_have_the_distribution_given_the_known_entries(sizes):
    rbm, p = make("bernoulli", "spin", *sizes)
    row = np.array([1.0, NAN, NAN, 0.0, NAN])[: sizes[0]]
    states, chances = exact_posterior(p, row)
    x = np.tile(row, [DRAWS, 1])
    machine, source = rbm.machine(), batch_source(key_of(tf.constant([1, 2], tf.int64)))
    unknown = tf.constant(np.isnan(x))
    exact = exact_draw(machine, tf.constant(x), unknown, source)
    assert np.abs(z_scores(exact.numpy(), states, chances)).max() < 4
    long = clamped_draw(machine, tf.constant(x), unknown, tf.constant(60), source)
    assert np.abs(z_scores(long.numpy(), states, chances)).max() < 4
    # Stationary: exact draws are still exact after a few steps.
    other = batch_source(key_of(tf.constant([3, 2], tf.int64)))
    moved = run_chains(machine, exact, ~unknown, tf.constant(2), other).visible
    assert np.abs(z_scores(moved.numpy(), states, chances)).max() < 4
    assert (moved.numpy() != exact.numpy()).any()


@pytest.mark.parametrize("exact", [True, False])
def test_imputation(exact, monkeypatch):
    if not exact:
        monkeypatch.setattr("tf_wcd.training.imputation.is_enumerable", lambda machine: False)
        tf_wcd.programs._compiled.cache_clear()
    rbm, p = make("bernoulli", "spin", 5, 3)
    x = np.array([[1, NAN, NAN, 0, NAN], [0, 1, 1, 0, 1], [NAN, 1, 0, NAN, 1]])
    means = np.stack([chances @ states for states, chances in (exact_posterior(p, row) for row in x)])
    many = np.repeat(x, 400, axis=0)
    found = rbm.impute(many, gibbs_steps=200, seed=1).numpy().reshape(3, 400, 5)
    np.testing.assert_allclose(found.mean(1), means, atol=1e-9 if exact else 0.01)
    np.testing.assert_array_equal(found[:, 0][~np.isnan(x)], x[~np.isnan(x)])
    drawn = rbm.impute(many, samples=True, gibbs_steps=40, seed=1).numpy()
    assert np.isin(drawn, (0, 1)).all()
    assert np.abs(drawn.reshape(3, 400, 5).mean(1) - means).max() < 4 * 0.5 / 20
    np.testing.assert_array_equal(drawn, rbm.impute(many, samples=True, gibbs_steps=40, seed=1))
    assert (drawn != rbm.impute(many, samples=True, gibbs_steps=40, seed=2).numpy()).any()
    if not exact:
        tf_wcd.programs._compiled.cache_clear()


def test_clamped_chains_estimate_the_same_gradient(monkeypatch):
    """The mean over many updates, against the exact one."""
    case = ("bernoulli", "spin", 5, 3)
    rbm, _ = make(*case, negative_phase="exact", missing_steps=30)
    x = rows_of("bernoulli", 5)
    expected = rbm.gradient(update_of(rbm, x))
    rows, weights = tf.constant(np.tile(x, [200, 1])), tf.constant(np.tile(5 * SHARES, 200))
    monkeypatch.setattr(missing, "is_enumerable", lambda machine: False)

    @tf.function
    def step(number):
        update = rbm.update(rows, weights, {}, key_of(tf.stack([5, number])), training=True)
        return rbm.gradient(update)[:3]

    steps = [step(tf.constant(number, tf.int64)) for number in range(40)]
    for got, part in zip(zip(*steps, strict=True), expected[:3], strict=True):
        got = np.array(got)
        error = got.std(axis=0) / np.sqrt(len(got))
        assert (np.abs(got.mean(axis=0) - part) < 4 * error + 1e-9).all()
        assert 1e-4 < error.max() < 0.01  # they are draws


def test_probabilities_of_known_entries():
    for case in (("potts", "spin", 6, 4), ("potts", "bernoulli", 6, 2)):
        rbm, p = make(*case)
        x = rows_of("potts", 6)
        energies = free_energies(p, x, *case[:2])
        np.testing.assert_allclose(rbm.free_energy(x), energies, rtol=1e-10)
        log_z = tf_wcd.evaluation.log_partition(rbm)
        np.testing.assert_allclose(tf_wcd.evaluation.log_prob(rbm, x), -energies - log_z, rtol=1e-9, atol=1e-12)
        assert tf_wcd.evaluation.log_prob(rbm, x)[2] == pytest.approx(0, abs=1e-9)  # nothing known: certain


# Labels

LABELLED = bf.random_parameters(7, 3, seed=3)


def labelled(**options):
    rbm = tf_wcd.RBMLayer(3, classes=3, missing="nan", dtype="float64", seed=1, **options)
    rbm.build((None, 4))
    bf.set_parameters(rbm, LABELLED)
    return rbm


def test_unknown_labels():
    rbm = labelled(negative_phase="cd")
    x = rows_of("bernoulli", 4)
    y = np.array([2, 0, NAN, NAN, 1])
    rows = rbm.with_labels(np.nan_to_num(x), np.nan_to_num(y))
    rows[:, :4][np.isnan(x)] = NAN
    rows[:, 4:][np.isnan(y)] = NAN
    np.testing.assert_array_equal(rbm.data_spec().joined(x, y), rows)

    def energies(p):
        sums = []
        for row in rows:
            pixels = [[0, 1] if np.isnan(v) else [v] for v in row[:4]]
            codes = np.eye(3) if np.isnan(row[4]) else row[None, 4:]
            every = np.array([[*s, *code] for s in itertools.product(*pixels) for code in codes])
            sums.append(-bf.log_sum_exp(-bf.free_energy(p, every, "bernoulli")))
        return np.array(sums)

    np.testing.assert_allclose(rbm.free_energy(rows), energies(LABELLED), rtol=1e-10)
    np.testing.assert_allclose(rbm.free_energy(x[2:4]), energies(LABELLED)[2:4], rtol=1e-10)  # without labels
    update = update_of(rbm, rows)
    points, weights = np.array(update.points.visible), np.exp(update.log_weights)

    def loss(p):
        return SHARES @ energies(p) - weights @ bf.free_energy(p, points, "bernoulli")

    for name, part in zip("Wbc", rbm.gradient(update)[:3], strict=True):
        expected = slope(lambda v, name=name: loss(LABELLED._replace(**{name: v})), getattr(LABELLED, name))
        np.testing.assert_allclose(part, expected, rtol=1e-6, atol=1e-8)
    # The accuracy counts rows without any unknown entry.
    whole = ~np.isnan(rows).any(1)
    assert 0 < whole.sum() < 5
    right = np.argmax(rbm.label_log_prob(x[whole]), axis=1) == y[whole]
    accuracy = rbm.measures(update)["accuracy"]
    assert float(accuracy.value) == pytest.approx(SHARES[whole] @ right / SHARES[whole].sum())
    assert float(accuracy.weight) == pytest.approx(5 * SHARES[whole].sum())
    np.testing.assert_allclose(rbm.impute(x, labels=[0, 1, 2, 2, 1])[1], x[1])
    assert rbm.impute(x).shape == (5, 4)
