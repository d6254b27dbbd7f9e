"""Exported models: the mathematics of every signature against enumeration."""

import functools
import json

import keras
import numpy as np
import pytest
import tensorflow as tf
from google.protobuf import wrappers_pb2
from tensorflow.core.protobuf import saved_model_pb2

import tf_wcd
from tests.support.brute_force import (
    BINARY_PAIRS,
    UNIT_PAIRS,
    conditional,
    free_energy,
    hidden_mean,
    index_of,
    parameters_of,
    random_parameters,
    sgd,
    space,
    visible_distribution,
)
from tests.support.served import exported, signatures, small_rbm
from tf_wcd.export import export_machines
from tf_wcd.export.layer_facts import training_summary
from tf_wcd.export.saved_model import read_facts


@pytest.fixture(scope="module")
def served_pair(tmp_path_factory):
    """The model of a pair of unit types and its signatures; one export for all tests."""

    @functools.cache
    def get(pair):
        rbm = small_rbm(*pair)
        path = tmp_path_factory.mktemp("export") / "m"
        return rbm, exported(rbm, path, gibbs_steps=60, max_rows=50_000, start=np.full(5, 0.3))

    return get


def chi_square_z(counts, probabilities):
    """How many standard deviations chi-square is above its mean; states expected less than 5 times are one bin."""
    expected = probabilities * counts.sum()
    common = expected >= 5
    observed = np.append(counts[common], counts[~common].sum())
    expected = np.append(expected[common], expected[~common].sum())
    keep = expected > 0
    statistic = ((observed[keep] - expected[keep]) ** 2 / expected[keep]).sum()
    degrees = keep.sum() - 1
    return (statistic - degrees) / np.sqrt(2 * degrees)


def counts_of(visible, unit, n):
    low = min(space(unit, 1).ravel())
    return np.bincount(index_of(visible != low), minlength=2**n)


@pytest.mark.parametrize("pair", BINARY_PAIRS)
def test_samples_follow_the_exact_distribution(pair, served_pair):
    rbm, served = served_pair(pair)
    _, p = visible_distribution(parameters_of(rbm), *pair)
    answer = served["sample"](seed=np.arange(20_000))
    assert abs(chi_square_z(counts_of(answer["visible"], pair[0], 5), p)) < 4
    # The probabilities are those of the last step: their mean is the model's, with less noise than the states have.
    truth = p @ (space(pair[0], 5) > 0)
    assert np.abs(answer["probability"].mean(0) - truth).max() < 4 * 0.5 / np.sqrt(20_000)


@pytest.mark.parametrize("pair", BINARY_PAIRS)
def test_exact_samples_stay_exact(pair, served_pair):
    """Stationarity of the chain with row-wise randomness, rows of different steps in one batch."""
    rbm, served = served_pair(pair)
    states, p = visible_distribution(parameters_of(rbm), *pair)
    rng = np.random.default_rng(1)
    start = states[rng.choice(len(states), 20_000, p=p)].astype("float32")
    steps = np.tile([0, 1, 2, 7], 5_000).astype("int32")
    visible = served["gibbs"](visible=start, seed=np.arange(20_000), steps=steps)["visible"]
    for number in (1, 2, 7):
        assert abs(chi_square_z(counts_of(visible[steps == number], pair[0], 5), p)) < 4
    np.testing.assert_array_equal(visible[steps == 0], start[steps == 0])


@pytest.mark.parametrize("pair", [("bernoulli", "spin"), ("spin", "bernoulli")])
def test_one_gibbs_step_has_the_transition_probabilities(pair, served_pair):
    rbm, served = served_pair(pair)
    parameters = parameters_of(rbm)
    x = np.array([space(pair[0], 5)[11]])
    h = space(pair[1], 4)
    to_hidden = conditional(x @ parameters.W + parameters.c, pair[1], h)
    transition = (to_hidden @ conditional(h @ parameters.W.T + parameters.b, pair[0], space(pair[0], 5)))[0]
    rows = 30_000
    answer = served["gibbs"](
        visible=np.repeat(x, rows, 0).astype("float32"), seed=np.arange(rows), steps=np.ones(rows, "int32")
    )
    assert abs(chi_square_z(counts_of(answer["visible"], pair[0], 5), transition)) < 4


@pytest.mark.parametrize("grey", [False, True])
@pytest.mark.parametrize("pair", BINARY_PAIRS[1:3])
def test_clamped_units_stay_and_the_others_follow_their_conditional(pair, grey, served_pair):
    """Held units may be in between their states: the others then follow exp(-F) with them at that value."""
    rbm, served = served_pair(pair)
    low, high = (float(v) for v in sorted(np.unique(space(pair[0], 1))))
    mask = np.array([1, 0, 1, 0, 0], "float32")
    held = np.array([low + 0.3 * (high - low), high]) if grey else np.array([low, high])
    full = np.full([8, 5], 0.0)
    full[:, [0, 2]], full[:, [1, 3, 4]] = held, space(pair[0], 3)
    weights = np.exp(-free_energy(parameters_of(rbm), full, pair[1]))
    p = weights / weights.sum()
    rows = 20_000
    start = np.repeat(full[:1], rows, 0).astype("float32")
    answer = served["clamp"](
        visible=start, mask=np.repeat(mask[None], rows, 0), seed=np.arange(rows), steps=np.full(rows, 60, "int32")
    )
    np.testing.assert_array_equal(answer["visible"][:, [0, 2]], start[:, [0, 2]])
    np.testing.assert_allclose(answer["probability"][:, 0], (start[:, 0] - low) / (high - low), rtol=1e-6)
    assert abs(chi_square_z(counts_of(answer["visible"][:, [1, 3, 4]], pair[0], 3), p)) < 4


def test_clamp_of_nothing_is_gibbs_and_of_everything_is_nothing(served_pair):
    _, served = served_pair(("bernoulli", "bernoulli"))
    x = np.random.default_rng(0).random((20, 5)).astype("float32")
    common = {"visible": x, "seed": np.arange(20), "steps": np.arange(20, dtype="int32")}
    free, fixed = (served["clamp"](mask=np.full_like(x, value), **common) for value in (0, 1))
    plain = served["gibbs"](**common)
    for name in plain:
        np.testing.assert_array_equal(plain[name], free[name])
        np.testing.assert_array_equal(fixed[name], x)


@pytest.mark.parametrize("pair", UNIT_PAIRS)
def test_energies_and_codes(pair, served_pair):
    rbm, served = served_pair(pair)
    parameters = parameters_of(rbm)
    rng = np.random.default_rng(3)
    x = rng.normal(size=(30, 5)).astype("float32") if pair[0] == "gaussian" else space(pair[0], 5).astype("float32")
    np.testing.assert_allclose(
        served["encode"](visible=x)["hidden"], hidden_mean(parameters, x.astype("float64"), pair[1]), atol=2e-5
    )
    wide = tf_wcd.evaluation.exact.free_energies(rbm.machine().cast("float64"), x.astype("float64"))
    np.testing.assert_allclose(served["free_energy"](visible=x)["free_energy"], wide, atol=2e-4)
    np.testing.assert_allclose(served["log_prob"](visible=x)["log_prob"], tf_wcd.evaluation.log_prob(rbm, x), atol=2e-4)


@pytest.mark.parametrize("learned", [False, True])
def test_gaussian_visible_units(learned, tmp_path):
    """Mean and covariance of the served samples are those of the mixture of Gaussians that the model is."""
    unit = tf_wcd.units.Gaussian(variance=0.5, learn_variance=learned)
    rbm = tf_wcd.RBMLayer(3, visible_type=unit, seed=0)
    rbm.build((None, 4))
    parameters = random_parameters(4, 3, seed=2)
    for variable, value in zip((rbm.kernel, rbm.visible_bias, rbm.hidden_bias), parameters, strict=True):
        variable.assign(value)
    if learned:
        rbm.visible_parameters["log_variance"].assign(np.log([0.3, 0.5, 0.8, 1.2]))
    variance = np.array([0.3, 0.5, 0.8, 1.2]) if learned else np.full(4, 0.5)
    h = space("bernoulli", 3)
    field = h @ parameters.W.T + parameters.b
    log_weight = h @ parameters.c + 0.5 * (variance * field**2).sum(1)
    weight = np.exp(log_weight - log_weight.max())
    weight /= weight.sum()
    means = variance * field
    mean = weight @ means
    covariance = np.diag(variance) + (means - mean).T @ ((means - mean) * weight[:, None])
    served = exported(rbm, tmp_path / "m", gibbs_steps=100, max_rows=40_000)
    visible = served["sample"](seed=np.arange(40_000))["visible"].astype("float64")
    error = np.sqrt(np.diag(covariance) / len(visible))
    assert np.all(np.abs(visible.mean(0) - mean) < 4 * error)
    np.testing.assert_allclose(np.cov(visible.T), covariance, atol=0.05 * np.diag(covariance).max())


def test_a_stack_samples_its_top_and_passes_down(tmp_path):
    """What a deep belief network does, against enumeration of both layers."""
    lower, upper = small_rbm(n_v=4, n_h=3, seed=1), small_rbm("bernoulli", "spin", n_v=3, n_h=2, seed=2)
    export_machines([lower.machine(), upper.machine()], tmp_path / "m", gibbs_steps=200, max_rows=40_000)
    served = signatures(tmp_path / "m")
    assert set(served) == {"serving_default", "sample", "gibbs", "clamp", "encode"}
    states, p = visible_distribution(parameters_of(upper), "bernoulli", "spin")
    below = parameters_of(lower)
    truth = p @ conditional(states @ below.W.T + below.b, "bernoulli", space("bernoulli", 4))
    visible = served["sample"](seed=np.arange(40_000))["visible"]
    assert abs(chi_square_z(counts_of(visible, "bernoulli", 4), truth)) < 4
    start = np.zeros([40_000, 4], "float32")
    visible = served["gibbs"](visible=start, seed=np.arange(40_000), steps=np.full(40_000, 100, "int32"))["visible"]
    assert abs(chi_square_z(counts_of(visible, "bernoulli", 4), truth)) < 4
    x = space("bernoulli", 4).astype("float32")
    np.testing.assert_allclose(served["encode"](visible=x)["hidden"], upper(lower(x)), atol=1e-5)


# What the folder says


def test_metadata_warm_up_and_graph(tmp_path):
    rbm = small_rbm("spin", "spin")
    rbm.compile(sgd(0.01))
    rbm.fit(space("spin", 5), batch_size=32, epochs=2, verbose=0)
    rbm.export(tmp_path / "m", gibbs_steps=33, max_steps=77)
    facts = read_facts(tmp_path / "m")
    assert (facts["visible_units"], facts["hidden_units"], facts["visible_type"]) == (5, [4], "spin")
    assert (facts["gibbs_steps"], facts["max_steps"]) == (33, 77)
    assert facts["tf_wcd"] == tf_wcd.__version__
    assert facts["tensorflow"] == tf.__version__
    assert facts["log_partition"] == pytest.approx(tf_wcd.evaluation.log_partition(rbm))
    assert facts["training"]["updates"] == 2
    assert (facts["training"]["negative_phase"], facts["training"]["gibbs_steps"]) == ("wcd", 1)
    assert "ess" in facts["training"]["last_epoch"]

    saved = saved_model_pb2.SavedModel.FromString((tmp_path / "m" / "saved_model.pb").read_bytes())
    (graph,) = saved.meta_graphs
    inside = wrappers_pb2.StringValue()
    assert graph.meta_info_def.any_info.Unpack(inside)
    assert json.loads(inside.value) == facts
    shapes = {
        (name, key): [dim.size for dim in info.tensor_shape.dim]
        for name, signature in graph.signature_def.items()
        for part in (signature.inputs, signature.outputs)
        for key, info in part.items()
    }
    assert shapes["serving_default", "seed"] == [-1]
    assert shapes["clamp", "mask"] == shapes["clamp", "visible"] == [-1, 5]
    assert shapes["sample", "probability"] == shapes["gibbs", "visible"] == [-1, 5]
    assert shapes["encode", "hidden"] == [-1, 4]
    assert shapes["log_prob", "log_prob"] == shapes["free_energy", "free_energy"] == [-1]
    # Nothing that TF-Serving cannot run, nothing that changes between requests or differs between replicas.
    functions = graph.graph_def.library.function
    operations = {node.op for function in functions for node in function.node_def}
    assert "MatMul" in operations
    assert not {op for op in operations if "PyFunc" in op or "Random" in op or "Xla" in op}
    assert not any(function.attr["_XlaMustCompile"].b for function in functions if "_XlaMustCompile" in function.attr)
    served = {name for name in (f.signature.name for f in functions) if "save" not in name and "restore" not in name}
    writing = {f.signature.name for f in functions for node in f.node_def if node.op.startswith("Assign")}
    assert not writing & served


def test_metadata_have_the_steps_of_a_phase_that_was_passed_as_an_object():
    phases = tf_wcd.negative_phases
    for phase, steps in ((phases.WCD(gibbs_steps=7), 7), (phases.Exact(), None)):
        assert training_summary(tf_wcd.RBMLayer(3, negative_phase=phase))["gibbs_steps"] == steps


def test_warm_up_requests_are_prediction_logs(tmp_path):
    prediction_log_pb2 = pytest.importorskip("tensorflow_serving.apis.prediction_log_pb2")
    rbm = small_rbm("spin", "bernoulli")
    rbm.export(tmp_path / "m")
    served = signatures(tmp_path / "m")
    records = list(tf.data.TFRecordDataset(str(tmp_path / "m" / "assets.extra" / "tf_serving_warmup_requests")))
    seen = set()
    for record in records:
        request = prediction_log_pb2.PredictionLog.FromString(record.numpy()).predict_log.request
        name = request.model_spec.signature_name
        served[name](**{key: tf.make_ndarray(value) for key, value in request.inputs.items()})
        seen.add(name)
    assert seen == set(served)
    rbm.export(tmp_path / "n", warmup=False)
    assert not (tmp_path / "n" / "assets.extra" / "tf_serving_warmup_requests").exists()


def test_chains_start_from_the_means_of_the_data(tmp_path):
    """With no step of mixing to speak of (a model without weights has none), starts show in one step's hidden units."""
    x = np.repeat([[0.0, 1.0, 1.0, 0.0, 0.0], [0.0, 1.0, 0.0, 0.0, 1.0]], 10, 0)
    rbm = tf_wcd.RBMLayer(4, seed=0)
    rbm.compile(sgd(1e-9))
    rbm.fit(x, batch_size=20, verbose=0)
    np.testing.assert_allclose(rbm.data_means, [0, 1, 0.5, 0, 0.5])
    rbm.save(tmp_path / "rbm.keras")
    again = keras.models.load_model(tmp_path / "rbm.keras")
    np.testing.assert_array_equal(again.data_means, rbm.data_means)
    again.export(tmp_path / "m")
    loaded = tf.saved_model.load(str(tmp_path / "m"))
    np.testing.assert_allclose(loaded.start.numpy()[:5], [0.001, 0.999, 0.5, 0.001, 0.5])
    again.export(tmp_path / "n", start=[0.1, 0.2, 0.3, 0.4, 0.5])
    np.testing.assert_allclose(tf.saved_model.load(str(tmp_path / "n")).start.numpy()[:5], [0.1, 0.2, 0.3, 0.4, 0.5])


def test_data_sets_give_their_first_batch_and_evaluation_changes_nothing():
    x = np.random.default_rng(0).random((40, 5)).astype("float32")
    rbm = tf_wcd.RBMLayer(4, seed=0)
    rbm.compile(sgd(1e-9))
    rbm.fit(tf.data.Dataset.from_tensor_slices(x).batch(20), verbose=0)
    np.testing.assert_allclose(rbm.data_means, x[:20].mean(0), rtol=1e-6)
    rbm.evaluate(tf.data.Dataset.from_tensor_slices(x[20:]).batch(20), verbose=0)
    np.testing.assert_allclose(rbm.data_means, x[:20].mean(0), rtol=1e-6)


@pytest.mark.parametrize(
    ("kwargs", "message"),
    [
        ({"gibbs_steps": 0}, "gibbs_steps=0"),
        ({"max_steps": -1}, "max_steps=-1"),
        ({"max_rows": True}, "max_rows=True"),
        ({"max_rows": "many"}, "max_rows='many'"),
        ({"max_rows": 2**31}, "at most 2147483646. Received: max_rows=2147483648"),
        ({"start": [0.1, 0.2]}, "Received: shape"),
        ({"start": [0.1, 0.2, 0.3, 0.4, 7.0]}, "from 0.1 to 7"),
    ],
)
def test_bad_arguments(kwargs, message, tmp_path):
    with pytest.raises(ValueError, match=message):
        small_rbm().export(tmp_path / "m", **kwargs)


def test_what_cannot_be_exported(tmp_path):
    (tmp_path / "file").write_text("something")
    with pytest.raises(ValueError, match="empty folder"):
        small_rbm().export(tmp_path)
    ensemble = tf_wcd.RBMEnsemble(3, count=2)
    ensemble.build((None, 4))
    with pytest.raises(ValueError, match=r"ensemble.member.*Received: an ensemble of 2 members"):
        ensemble.export(tmp_path / "m")
    broken = small_rbm()
    broken.hidden_bias.assign([1, 2, np.nan, 4])
    with pytest.raises(ValueError, match="finite"):
        broken.export(tmp_path / "m")
    with pytest.raises(ValueError, match="3 hidden units below 5 visible"):
        export_machines([small_rbm(n_h=3).machine(), small_rbm().machine()], tmp_path / "m")
    with pytest.raises(ValueError, match="build"):
        tf_wcd.RBMLayer(3).export(tmp_path / "m")
