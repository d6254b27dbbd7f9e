"""Exports of every kind of unit, a stranger's included: right answers, and rows that know nothing of each other."""

import functools

import numpy as np
import pytest
import tensorflow as tf

import tf_wcd
from tests.support.served import signatures
from tests.tf_wcd.test_export import chi_square_z
from tf_wcd.enumeration import all_states
from tf_wcd.export.chains import GIBBS_CHAIN
from tf_wcd.export.layout import LANES
from tf_wcd.random import row_keys, row_uniform
from tf_wcd.units import Binomial, DReLU, Gaussian, Mixed, Potts, ReLU, Unit

ROWS = 33


class Ranks(Unit):
    """A categorical unit as a user may write it: by cumulative probabilities, with one number of each group."""

    name = "ranks"
    columns = 4

    @property
    def states(self):
        return np.eye(4)

    def _groups(self, values):
        return tf.reshape(values, tf.concat([tf.shape(values)[:-1], [values.shape[-1] // 4, 4]], axis=0))

    def cumulant(self, field):
        return tf.math.log(tf.reduce_sum(tf.exp(self._groups(field)), axis=-1))

    def mean(self, field):
        weights = tf.exp(self._groups(field))
        return tf.reshape(weights / tf.reduce_sum(weights, axis=-1, keepdims=True), tf.shape(field))

    def field_of(self, mean):
        return tf.math.log(mean)

    def sample(self, field, uniform):
        below = tf.cumsum(self._groups(self.mean(field)), axis=-1)
        number = tf.reduce_sum(tf.cast(self._groups(uniform)[..., :1] > below[..., :3], tf.int32), axis=-1)
        return tf.reshape(tf.one_hot(number, 4, dtype=field.dtype), tf.shape(field))


class Counter(Unit):
    """A unit that counts to 2.5 in steps that are not integers."""

    name = "counter"
    values = (0.0, 0.25, 2.5)

    def _logits(self, field):
        return field[..., None] * tf.constant(self.values, field.dtype)

    def cumulant(self, field):
        return tf.reduce_logsumexp(self._logits(field), axis=-1)

    def mean(self, field):
        return tf.reduce_sum(tf.nn.softmax(self._logits(field)) * tf.constant(self.values, field.dtype), axis=-1)

    def field_of(self, mean):
        return tf.zeros_like(mean)

    def sample(self, field, uniform):
        below = tf.cumsum(tf.nn.softmax(self._logits(field)), axis=-1)[..., :2]
        number = tf.reduce_sum(tf.cast(uniform[..., None] > below, tf.int32), axis=-1)
        return tf.gather(tf.constant(self.values, field.dtype), number)


PARTS = Mixed([("bernoulli", 4), (Potts(3), 6)])
REAL = Mixed([("bernoulli", 3), ("gaussian", 2), ("spin", 2)])
MODELS = {
    "ranks": (Ranks(), "bernoulli", 8, 5),
    "potts": (Potts(3), "spin", 9, 5),
    "potts of 4": (Potts(4), Potts(2), 12, 6),
    "mixed": (PARTS, "bernoulli", 10, 5),
    "real part": (REAL, "spin", 7, 4),
    "learned variance": (Gaussian(0.5, learn_variance=True), "bernoulli", 5, 4),
    "spin hidden": ("bernoulli", "spin", 9, 7),
    "potts hidden": ("spin", Potts(3), 6, 6),
    "mixed hidden": ("bernoulli", Mixed([(Potts(3), 3), ("spin", 2)]), 6, 5),
    "real hidden": ("bernoulli", Gaussian(0.25), 6, 4),
    "counter": (Counter(), "bernoulli", 5, 4),
    "rectified": (Mixed([(ReLU(), 2), (DReLU(0.5, 0.3), 2), (Binomial(20), 2)]), "bernoulli", 6, 4),
    "rectified hidden": (Binomial(3), Mixed([(ReLU(), 2), (DReLU(0.5, 0.3), 3)]), 4, 5),
    "real": ("gaussian", "relu", 5, 3),  # nothing can be enumerated
}
SCALES = {"real": 0.15}


def make(name):
    visible, hidden, n_v, n_h = MODELS[name]
    rng = np.random.default_rng(5)
    rbm = tf_wcd.RBMLayer(n_h, visible_type=visible, hidden_type=hidden, seed=0)
    rbm.build((None, n_v))
    for variable in (rbm.kernel, rbm.visible_bias, rbm.hidden_bias):
        variable.assign(rng.normal(0.1, SCALES.get(name, 0.6), variable.shape))
    for variable in (*rbm.visible_parameters.values(), *rbm.hidden_parameters.values()):
        variable.assign(rng.normal(-0.5, 0.5, variable.shape))
    return rbm


@pytest.fixture(scope="module")
def served_model(tmp_path_factory):
    @functools.cache
    def get(name):
        rbm = make(name)
        path = tmp_path_factory.mktemp("units") / "m"
        rbm.export(path, gibbs_steps=40, max_rows=20_000)
        return rbm, signatures(path)

    return get


def states_of(rbm, rows=ROWS, seed=3):
    """Random states of the visible units."""
    rng = np.random.default_rng(seed)
    field = tf.constant(rng.normal(size=(rows, rbm.num_visible)), tf.float32)
    uniform = tf.constant(rng.uniform(0.01, 0.99, field.shape), tf.float32)
    return rbm.visible_unit.sample(field, uniform).numpy()


def request(rbm, rows=ROWS):
    rng = np.random.default_rng(7)
    first = rbm.visible_unit.describe_columns(rbm.num_visible).first
    return {
        "visible": states_of(rbm, rows),
        "seed": rng.integers(-(2**63), 2**63, rows),
        "steps": rng.integers(0, 9, rows).astype("int32"),
        "mask": (rng.random((rows, rbm.num_visible)) < 0.4).astype("float32")[:, first],
    }


def ask(served, name, inputs, rows=slice(None)):
    row = next(row for row in tf_wcd.export.SIGNATURES if row.name == name)
    return served[name](**{argument.name: inputs[argument.name][rows] for argument in row.inputs})


@pytest.mark.parametrize("name", MODELS)
def test_answers_are_those_of_the_layer(name, served_model):
    rbm, served = served_model(name)
    x = states_of(rbm)
    wide = rbm.machine().cast("float64")
    rows = tf.constant(x, tf.float64)
    scale = 4 if wide.visible.finite else 40  # real values are rounded to 2**-16
    np.testing.assert_allclose(
        served["encode"](visible=x)["hidden"], wide.hidden.mean(wide.hidden_field(rows)), atol=scale * 1e-6
    )
    np.testing.assert_allclose(
        served["free_energy"](visible=x)["free_energy"], wide.free_energy(rows), atol=scale * 5e-6, rtol=1e-6
    )
    if name == "real":
        assert "log_prob" not in served
        return
    truth = tf_wcd.evaluation.log_prob(rbm, x)
    np.testing.assert_allclose(served["log_prob"](visible=x)["log_prob"], truth, atol=scale * 5e-6, rtol=1e-6)


@pytest.mark.parametrize("name", MODELS)
def test_a_row_depends_on_itself_alone(name, served_model):
    rbm, served = served_model(name)
    inputs = request(rbm)
    for signature in ("sample", "gibbs", "clamp", "encode", "free_energy"):
        whole = ask(served, signature, inputs)
        for size in (1, 2, 3, 7, 16):
            for start in range(0, ROWS, max(size, 5)):
                rows = slice(start, min(start + size, ROWS))
                for key, value in ask(served, signature, inputs, rows).items():
                    np.testing.assert_array_equal(value, whole[key][rows], err_msg=f"{signature} {key} {rows}")
        order = np.random.default_rng(0).permutation(ROWS)
        for key, value in ask(served, signature, inputs, order).items():
            np.testing.assert_array_equal(value, whole[key][order], err_msg=f"{signature} {key} shuffled")


@pytest.mark.parametrize("name", MODELS)
def test_answers_are_states_and_held_units_stay(name, served_model):
    rbm, served = served_model(name)
    inputs = request(rbm)
    for signature in ("sample", "gibbs", "clamp"):
        visible = ask(served, signature, inputs)["visible"]
        assert rbm.visible_unit.are_states(tf.constant(visible)).numpy().all()
    held = inputs["mask"] == 1
    np.testing.assert_array_equal(visible[held], inputs["visible"][held])
    unmoved = inputs["steps"] == 0
    np.testing.assert_array_equal(visible[unmoved], inputs["visible"][unmoved])


@pytest.mark.parametrize("name", MODELS)
def test_chains_are_those_of_python(name, served_model):
    """Three Gibbs steps of every row, with its own random numbers, on the layer's machine in double precision."""
    rbm, served = served_model(name)
    inputs = request(rbm)
    inputs["steps"][:] = 3
    answer = ask(served, "gibbs", inputs)
    wide = rbm.machine().cast("float64")
    keys = row_keys(tf.constant(inputs["seed"]), GIBBS_CHAIN)

    def draw(unit, field, number):
        _, width, positions = unit.padded(field.shape[1], LANES)
        return unit.sample(field, tf.cast(tf.gather(row_uniform(keys, number, width), positions, axis=1), tf.float64))

    x = tf.constant(inputs["visible"], tf.float64)
    for step in range(3):
        h = draw(wide.hidden, wide.hidden_field(x), 2 * step)
        field = wide.visible_field(h)
        x = draw(wide.visible, field, 2 * step + 1)
    # Parameters, and real states, are rounded in an export; a state changes where a random number is next to its limit.
    np.testing.assert_allclose(answer["visible"], x, atol=2e-3)
    expected = rbm.visible_unit.bind(dict(wide.visible.parameters)).upper_share(wide.visible.mean(field))
    np.testing.assert_allclose(answer["probability"], expected, atol=2e-3)


def counts_of(visible, states):
    """How often each state occurs."""
    weights = np.random.default_rng(0).random(states.shape[1])
    keys = (states @ weights).round(6)
    order = np.argsort(keys)
    found = order[np.searchsorted(keys[order], (visible.astype("float64") @ weights).round(6) - 1e-5)]
    np.testing.assert_allclose(states[found], visible, atol=1e-6)
    return np.bincount(found, minlength=len(states))


FINITE = [name for name in MODELS if name not in ("real part", "learned variance", "rectified", "real")]


@pytest.mark.parametrize("name", FINITE)
def test_samples_follow_the_exact_distribution(name, served_model):
    """`sample` starts there, and stays; `gibbs` comes there from one state; `clamp` comes to the conditional."""
    rbm, served = served_model(name)
    wide = rbm.machine().cast("float64")
    states = all_states(wide.visible, wide.num_visible, "float64").numpy()
    log_weights = -wide.free_energy(tf.constant(states)).numpy()
    exact = np.exp(log_weights - log_weights.max())
    exact /= exact.sum()
    rows = 5000
    seeds = np.arange(rows)
    assert abs(chi_square_z(counts_of(served["sample"](seed=seeds)["visible"], states), exact)) < 4
    start = np.repeat(states[:1], rows, 0).astype("float32")
    chain = {"visible": start, "seed": seeds, "steps": np.full(rows, 60, "int32")}
    assert abs(chi_square_z(counts_of(served["gibbs"](**chain)["visible"], states), exact)) < 4
    first = rbm.visible_unit.describe_columns(rbm.num_visible).first
    mask = (first == 0).astype("float32")
    conditional = exact * (states[:, first == 0] == states[0, first == 0]).all(1)
    held = served["clamp"](mask=np.repeat(mask[None], rows, 0), **chain)["visible"]
    assert abs(chi_square_z(counts_of(held, states), conditional / conditional.sum())) < 4


def test_samples_of_a_real_part(served_model):
    """The binary columns follow their exact marginal, and the real ones have their mean and variance."""
    rbm, served = served_model("real part")
    wide = rbm.machine().cast("float64")
    h = all_states(wide.hidden, 4, "float64")
    weights = tf.nn.softmax(-wide.hidden_free_energy(h)).numpy()
    means = wide.visible.mean(wide.visible_field(h)).numpy()
    start = np.zeros([5000, 7], "float32")  # expectations are states to start from, too
    chain = {"visible": start, "seed": np.arange(5000), "steps": np.full(5000, 200, "int32")}
    visible = served["gibbs"](**chain)["visible"].astype("float64")
    truth = weights @ means
    error = np.sqrt(visible.var(0) / len(visible))
    assert np.all(np.abs(visible.mean(0) - truth) < 4.5 * error)
    variance = 1 + weights @ means[:, 3:5] ** 2 - truth[3:5] ** 2
    np.testing.assert_allclose(visible[:, 3:5].var(0), variance, rtol=0.1)  # four standard errors


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("potts", {"visible": 0.5}, r"visible must be in \[0, 1\] with the sum 1 in each group of 3 columns"),
        ("potts", {"mask": np.arange(9) % 2}, "the same in all columns of a unit"),
        ("real part", {"visible": 0.0 * np.arange(7) + 2}, r"in \[0, 1\] in columns 0 to 2.*in \[-1024, 1024\]"),
        ("learned variance", {"visible": 2000.0}, r"visible must be in \[-1024, 1024\]"),
    ],
)
def test_requests_that_are_refused(name, change, message, served_model):
    rbm, served = served_model(name)
    inputs = request(rbm, 2)
    for key, value in change.items():
        inputs[key] = np.broadcast_to(np.asarray(value, "float32"), inputs[key].shape)
    with pytest.raises(tf.errors.InvalidArgumentError, match=message):
        ask(served, "clamp", inputs)


def test_the_table_of_signatures_is_what_is_exported(served_model):
    rbm, served = served_model("potts")
    # Those of models with labels are in test_export_labels.py.
    rows = [row for row in tf_wcd.export.SIGNATURES if row.name not in ("conditional", "classify")]
    assert set(served) == {"serving_default", *(row.name for row in rows)}
    for row in rows:
        answer = ask(served, row.name, request(rbm, 2))
        widths = {"visible": rbm.num_visible, "hidden": rbm.units}
        assert {(key, value.dtype.name, value.shape) for key, value in answer.items()} == {
            (a.name, a.dtype, (2, *a.shape(widths)[1:])) for a in row.outputs
        }
