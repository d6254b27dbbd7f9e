"""Exported models with labels: samples of a class and classification against enumeration, row by row."""

import numpy as np
import pytest
import tensorflow as tf

import tf_wcd
from tests.support import brute_force as bf
from tests.support import dbn_enumeration as de
from tests.support.served import requests, signatures
from tests.tf_wcd.test_labels import CLASSES, COLUMNS, PAIRS, log_softmax, log_weights
from tests.tf_wcd.test_labels import make as make_labelled
from tf_wcd.export.class_starts import class_states
from tf_wcd.export.saved_model import read_facts
from tf_wcd.export.table import SIGNATURES, example_inputs

ROWS = 20_000
P = bf.random_parameters(COLUMNS + CLASSES, 3, seed=9, scale=0.5)
# The classes differ, and none of them has all the probability.
P.W[-CLASSES:] = 2.5 * (P.W[-CLASSES:] - P.W[-CLASSES:].mean(0))
P.b[-CLASSES:] = [0.1, -0.2, 0.3]


def make(*pair):
    return make_labelled(*pair, dtype="float32", parameters=P)


def assert_follows(visible, truth):
    counts = np.bincount(bf.index_of(visible > visible.min()), minlength=len(truth))
    distance, floor = bf.total_variation(counts, truth)
    assert distance < 4 * floor, (distance, floor)
    return floor


def of_class(served, label):
    return served["conditional"](label=np.full(ROWS, label), seed=np.arange(ROWS))


@pytest.mark.parametrize(("pair", "start"), [(PAIRS[0], "exact"), (PAIRS[1], "exact"), (PAIRS[1], "means")])
def test_samples_of_a_class_follow_the_enumerated_conditional(pair, start, tmp_path):
    """From exact starts one step keeps P(x | label); from means a chain of 60 comes to it."""
    rbm = make(*pair)
    exact = start == "exact"
    means = None if exact else rbm.machine().visible.midpoints(COLUMNS + CLASSES)
    rbm.export(tmp_path / "m", gibbs_steps=1 if exact else 60, max_rows=ROWS, start=means)
    assert read_facts(tmp_path / "m")["start"] == start
    served = signatures(tmp_path / "m")
    assert set(served) == {
        "serving_default", "sample", "gibbs", "clamp", "encode", "conditional", "classify",
    }  # fmt: skip
    weights = log_weights(P, *pair)
    truths = np.exp(weights - bf.log_sum_exp(weights, 0))
    for label in range(CLASSES):
        answer = of_class(served, label)
        floor = assert_follows(answer["visible"], truths[:, label])
        # The test can fail: another class is further away than allowed.
        assert 0.5 * np.abs(truths - truths[:, label : label + 1]).sum(0).max() > 8 * floor
        upper = truths[:, label] @ (bf.space(pair[0], COLUMNS) > 0)
        assert np.abs(answer["probability"].mean(0) - upper).max() < 2 / np.sqrt(ROWS)
    assert_follows(served["sample"](seed=np.arange(ROWS))["visible"], np.exp(weights - bf.log_sum_exp(weights)).sum(1))


@pytest.mark.parametrize(("unit", "untied"), [("bernoulli", True), ("spin", False)])
def test_a_stack_draws_and_recognises_classes(unit, untied, tmp_path):
    dbn = de.make_dbn((4, 3, 3), unit, labels=3, seed=2, scale=0.6 if unit == "bernoulli" else 0.35)
    if untied:
        dbn.untie()
        dbn.generative.kernels[0].assign(bf.random_parameters(4, 3, seed=9).W)
    dbn.export(tmp_path / "m", gibbs_steps=1, max_rows=ROWS)
    served = signatures(tmp_path / "m")
    for label in range(3):
        assert_follows(of_class(served, label)["visible"], de.class_distribution(dbn, label, unit))
    # Labels by brute force: expectations upwards, and a sum over all states of the top hidden units.
    x = bf.space(unit, 4)
    below, top = (bf.parameters_of(rbm) for rbm in dbn.rbms)
    h = bf.hidden_mean(below, x, unit)
    rows = [np.hstack([h, np.tile(row, (16, 1))]) for row in np.eye(3)]
    truth = log_softmax(np.stack([bf.log_sum_exp(-bf.energy(top, r, bf.space(unit, 3)), 1) for r in rows], axis=1))
    answer = served["classify"](visible=x.astype("float32"))
    np.testing.assert_allclose(answer["log_prob"], truth, atol=2e-6)
    np.testing.assert_array_equal(answer["label"], truth.argmax(1))
    np.testing.assert_allclose(answer["log_prob"], dbn.label_log_prob(x), atol=2e-5)


@pytest.mark.parametrize("pair", PAIRS)
def test_classes_of_data(pair, tmp_path):
    """Against brute force, for states and for expectations, and against Python."""
    rbm = make(*pair)
    rbm.export(tmp_path / "m", gibbs_steps=1)
    served = signatures(tmp_path / "m")
    states = bf.space(pair[0], COLUMNS)
    for x in (states, 0.5 * states):
        truth = log_softmax(log_weights(P, *pair, x=x))
        answer = served["classify"](visible=x.astype("float32"))
        np.testing.assert_allclose(answer["log_prob"], truth, atol=2e-6)
        np.testing.assert_array_equal(answer["label"], truth.argmax(1))
        assert answer["label"].dtype == np.int64
        np.testing.assert_allclose(answer["log_prob"], rbm.label_log_prob(x), atol=2e-5)
    assert len(set(served["classify"](visible=states.astype("float32"))["label"])) > 1


def labelled_rbm(visible, width=19, hidden=7, labels=5, scale=0.4):
    rbm = tf_wcd.RBMLayer(hidden, visible, classes=labels, seed=1)
    rbm.build((None, width))
    bf.set_parameters(rbm, bf.random_parameters(width + labels, hidden, seed=4, scale=scale))
    return rbm


@pytest.mark.parametrize(("visible", "starts"), [("bernoulli", True), ("spin", False), ("gaussian", False)])
def test_a_row_depends_on_itself_alone(visible, starts, tmp_path):
    rbm = labelled_rbm(visible, scale=0.15)
    rng = np.random.default_rng(0)
    start = None
    if starts:  # the last class has no states
        start = rbm.with_labels(rng.integers(0, 2, (11, 19)), rng.integers(0, 4, 11))
    rbm.export(tmp_path / "m", gibbs_steps=9, start=start)
    served = signatures(tmp_path / "m")
    inputs = requests(33, 19, visible, labels=5)
    for name in ("conditional", "classify", "sample", "encode"):
        whole = served[name](**inputs[name])
        for rows in ([5], [32, 0, 7], np.arange(33)[::-1], np.repeat([1, 20, 8], 9)):
            part = served[name](**{key: value[rows] for key, value in inputs[name].items()})
            for key, value in part.items():
                np.testing.assert_array_equal(value, whole[key][rows], err_msg=f"{name} {key}")
    assert served["conditional"](label=np.zeros(0, "int64"), seed=np.zeros(0, "int64"))["visible"].shape == (0, 19)


def test_chains_of_a_class_start_from_its_states(tmp_path):
    """Weights of zero but for one huge one: the hidden unit, and the chain, keep what they start with."""
    rbm = tf_wcd.RBMLayer(1, classes=3, kernel_initializer="zeros", seed=0)
    rbm.build((None, 2))
    rbm.kernel.assign([[60.0], [0.0], [0.0], [0.0], [0.0]])
    rbm.visible_bias.assign([-30.0, 0.0, 0.0, 0.0, 0.0])
    rbm.hidden_bias.assign([-30.0])
    states = [[1, 0, 1, 0, 0], [0, 0, 0, 1, 0], [0, 1, 0, 1, 0], [1, 1, 0, 1, 0]]
    rbm.export(tmp_path / "m", gibbs_steps=20, start=states, max_rows=ROWS)
    served = signatures(tmp_path / "m")
    first = [of_class(served, label)["visible"][:, 0].mean() for label in range(3)]
    assert first[0] == 1.0
    assert abs(first[1] - 1 / 3) < 4 * np.sqrt(2 / 9 / ROWS)
    assert abs(first[2] - 1 / 2) < 4 * np.sqrt(1 / 4 / ROWS)  # without states of its own: any of the others'
    assert abs(served["sample"](seed=np.arange(ROWS))["visible"][:, 0].mean() - 1 / 2) < 4 * np.sqrt(1 / 4 / ROWS)


def test_sorted_states_keep_their_shares():
    rng = np.random.default_rng(1)
    shares = rng.dirichlet(np.ones(7))
    labels = np.array([2, 0, 2, 2, 0, 0, 3])
    states = np.hstack([np.arange(7.0)[:, None], np.eye(5)[labels]])
    found = class_states(states, np.cumsum(shares), 5)
    overall = np.diff(found.cumulative, prepend=0.0)
    for number in range(7):
        assert abs(overall[found.states[:, 0] == number].sum() - shares[number]) < 1e-12
    assert overall[found.states[:, 1:].argmax(1) == 1].sum() == overall[found.states[:, 1:].argmax(1) == 4].sum() == 0
    assert np.floor(found.within_class[-1]) == 5


def test_labels_are_checked_in_the_graph(tmp_path):
    rbm = make()
    rbm.export(tmp_path / "m", gibbs_steps=1)
    served = signatures(tmp_path / "m")
    seed = np.arange(2)
    for label, message in [
        ([0, 3], r"label must be from 0 to 2\]"),
        ([-1, 0], r"label must be from 0 to 2\]"),
        ([0, 1, 2], r"seed must have one entry for each row of label"),
        ([[0, 1]], r"label must have the shape \[rows\]"),
    ]:
        with pytest.raises(tf.errors.InvalidArgumentError, match=message):
            served["conditional"](label=np.array(label), seed=seed)


def test_an_rbm_whose_units_are_labelled_is_exported_too(tmp_path):
    dbn = de.make_dbn((4, 3), labels=3)
    dbn.rbms[0].export(tmp_path / "rbm", gibbs_steps=2)
    dbn.export(tmp_path / "dbn", gibbs_steps=2)
    one, other = (signatures(tmp_path / name) for name in ("rbm", "dbn"))
    inputs = {"label": np.arange(3), "seed": np.arange(3)}
    np.testing.assert_array_equal(one["conditional"](**inputs)["visible"], other["conditional"](**inputs)["visible"])


def test_the_table_makes_shapes_and_warm_up(tmp_path):
    rbm = make()
    rbm.export(tmp_path / "m", gibbs_steps=1)
    widths = {"visible": COLUMNS, "hidden": 3, "classes": CLASSES}
    loaded = tf.saved_model.load(str(tmp_path / "m"))
    served = signatures(tmp_path / "m")
    for row in SIGNATURES:
        if row.name not in served:
            continue
        answer = served[row.name](**example_inputs(row, np.zeros(COLUMNS)))
        assert {key: [-1, *value.shape[1:]] for key, value in answer.items()} == {
            a.name: a.shape(widths) for a in row.outputs
        }
        assert {a.name: a.dtype for a in row.outputs} == {key: str(value.dtype) for key, value in answer.items()}
        given = loaded.signatures[row.name].structured_input_signature[1]
        assert {name: spec.dtype.name for name, spec in given.items()} == {a.name: a.dtype for a in row.inputs}
