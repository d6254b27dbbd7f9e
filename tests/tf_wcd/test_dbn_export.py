"""Exported Deep Belief Networks: what is served against enumeration, and rows that know nothing of each other."""

import numpy as np
import pytest
import tensorflow as tf

import tf_wcd
from tests.support import brute_force as bf
from tests.support import dbn_enumeration as de
from tests.support.served import requests, signatures
from tf_wcd.export.saved_model import read_facts

ROWS = 20_000


def assert_follows(visible, truth):
    counts = np.bincount(bf.index_of(visible > visible.min()), minlength=len(truth))
    distance, floor = bf.total_variation(counts, truth)
    assert distance < 4 * floor, (distance, floor)
    return floor


def served_dbn(path, sizes=(4, 3, 3), unit="bernoulli", labels=0, untied=False, **kwargs):
    """A small model and its signatures; untied, its weights downwards are not those upwards."""
    dbn = de.make_dbn(sizes, unit, labels=labels, seed=2, scale=0.6 if unit == "bernoulli" else 0.35)
    if untied:
        dbn.untie()
        dbn.generative.kernels[0].assign(bf.random_parameters(sizes[0], sizes[1], seed=9).W)
    dbn.export(path, **{"gibbs_steps": 60, "max_rows": ROWS, **kwargs})
    return dbn, signatures(path)


@pytest.mark.parametrize(
    ("unit", "labels", "untied"),
    [("bernoulli", 0, False), ("bernoulli", 3, True), ("spin", 3, False)],
)
def test_served_samples_follow_the_enumerated_distribution(unit, labels, untied, tmp_path):
    dbn, served = served_dbn(tmp_path / "m", unit=unit, labels=labels, untied=untied)
    of_labels = {"conditional", "classify"} if labels else set()
    assert set(served) == {"serving_default", "sample", "gibbs", "clamp", "encode"} | of_labels
    truth = de.data_distribution(dbn, unit)
    floor = assert_follows(served["sample"](seed=np.arange(ROWS))["visible"], truth)
    start = np.tile(bf.space(unit, 4)[3], (ROWS, 1)).astype("float32")
    answer = served["gibbs"](visible=start, seed=np.arange(ROWS), steps=np.full(ROWS, 60, "int32"))
    assert_follows(answer["visible"], truth)
    assert np.abs(answer["probability"].mean(0) - truth @ (bf.space(unit, 4) > 0)).max() < 2 / np.sqrt(ROWS)
    # The test can fail: another model is further away than allowed.
    other = de.make_dbn((4, 3, 3), unit, labels=labels, seed=5, scale=0.6)
    assert 0.5 * np.abs(de.data_distribution(other, unit) - truth).sum() > 8 * floor
    x = bf.space(unit, 4).astype("float32")
    np.testing.assert_allclose(served["encode"](visible=x)["hidden"], dbn(x), atol=1e-5)


@pytest.mark.parametrize("steps", [1, 2])
def test_a_round_of_clamp_has_the_transition_probabilities(steps, tmp_path):
    """Up, one Gibbs step in the top RBM, down, and the held units put back: as matrices over all states."""
    dbn, served = served_dbn(tmp_path / "m", untied=True)
    x, h = bf.space("bernoulli", 4), bf.space("bernoulli", 3)
    up, top = (bf.parameters_of(rbm) for rbm in dbn.rbms)
    (down,) = de.generative_parameters(dbn)
    transition = bf.conditional(x @ up.W + up.c, "bernoulli", h)
    transition = transition @ bf.conditional(h @ top.W + top.c, "bernoulli", h)
    transition = transition @ bf.conditional(h @ top.W.T + top.b, "bernoulli", h)
    transition = transition @ bf.conditional(h @ down.W.T + down.b, "bernoulli", x)
    mask, row = np.array([1, 0, 0, 1]), x[9]
    put_back = np.zeros([16, 16])
    put_back[np.arange(16), bf.index_of(np.where(mask, row, x))] = 1
    truth = np.linalg.matrix_power(transition @ put_back, steps)[9]
    start = np.tile(row, (ROWS, 1)).astype("float32")
    answer = served["clamp"](
        visible=start,
        mask=np.tile(mask, (ROWS, 1)).astype("float32"),
        seed=np.arange(ROWS),
        steps=np.where(np.arange(ROWS) % 2, steps, 3).astype("int32"),  # every other row goes further
    )
    np.testing.assert_array_equal(answer["visible"][:, [0, 3]], start[:, [0, 3]])
    assert_follows(answer["visible"][1::2], truth)


@pytest.mark.parametrize(("sizes", "labels"), [((19, 7, 6, 5), 3), ((19, 6), 3)])
def test_a_row_depends_on_itself_alone(sizes, labels, tmp_path):
    _, served = served_dbn(tmp_path / "m", sizes=sizes, labels=labels, gibbs_steps=9)
    inputs = requests(33, 19, "bernoulli", labels=labels)
    for name in ("sample", "gibbs", "clamp", "encode", "conditional", "classify"):
        whole = served[name](**inputs[name])
        for rows in ([5], [32, 0, 7], np.arange(33)[::-1], np.repeat([1, 20, 8], 9)):
            part = served[name](**{key: value[rows] for key, value in inputs[name].items()})
            for key, value in part.items():
                np.testing.assert_array_equal(value, whole[key][rows], err_msg=f"{name} {key}")


def test_facts_and_what_cannot_be_exported(tmp_path):
    dbn, served = served_dbn(tmp_path / "m", sizes=(4, 3, 2), labels=3)
    facts = read_facts(tmp_path / "m")
    assert (facts["visible_units"], facts["hidden_units"], facts["labels"]) == (4, [3, 2], 3)
    assert facts["visible_type"] == "bernoulli"
    assert facts["signatures"] == sorted(served)
    x = np.zeros([2, 4], "float32")
    same = served["gibbs"](visible=x, seed=np.arange(2), steps=np.zeros(2, "int32"))
    np.testing.assert_array_equal(same["visible"], x)
    with pytest.raises(ValueError, match=r"start.*Received: shape \(3,\)"):
        dbn.export(tmp_path / "n", start=[0.5] * 3)
    with pytest.raises(ValueError, match="visible units yet"):
        tf_wcd.DBN([tf_wcd.RBMLayer(3)]).export(tmp_path / "n")


def test_chains_start_from_what_the_top_layer_was_trained_on(tmp_path):
    dbn = de.make_dbn((4, 3, 2), labels=2)
    for rbm in dbn.rbms:
        rbm.compile("sgd")
    rng = np.random.default_rng(0)
    dbn.pretrain(rng.integers(0, 2, (40, 4)), np.repeat([0, 1], [30, 10]), batch_size=40, verbose=0)
    dbn.export(tmp_path / "m")
    start = tf.saved_model.load(str(tmp_path / "m")).start.numpy()
    np.testing.assert_allclose(start[:3], dbn.rbms[-1].data_means[:3], rtol=1e-6)
    np.testing.assert_allclose(start[16:18], [0.75, 0.25])
