"""Where the chains of a served model start: it decides what a model answers whose chains do not mix."""

import numpy as np
import pytest
import tensorflow as tf

import tf_wcd
from tests.support.brute_force import (
    Parameters,
    index_of,
    make_rbm,
    parameters_of,
    random_parameters,
    visible_distribution,
)
from tests.support.served import exported, signatures
from tests.tf_wcd.test_export import chi_square_z
from tf_wcd.export.saved_model import read_facts
from tf_wcd.export.starts import MOST_UNITS, start_of

ROWS = 20_000


def frozen_rbm(hidden_type="spin"):
    """Two deep wells of unequal depth, a pattern and its opposite: no chain goes from one to the other."""
    noise = random_parameters(5, 4, seed=3, scale=0.2)
    pattern = np.array([1, -1, -1, 1, 1])
    kernel = 3.0 * np.outer(pattern, [1, -1, 1, -1]) + noise.W
    return make_rbm(Parameters(kernel, noise.b + 0.1 * pattern, noise.c), "spin", hidden_type, seed=0)


def z_of(visible, exact):
    return chi_square_z(np.bincount(index_of(visible > 0), minlength=len(exact)), exact)


@pytest.mark.parametrize("hidden_type", ["spin", "bernoulli"])
def test_a_small_model_starts_from_its_own_distribution(hidden_type, tmp_path):
    rbm = frozen_rbm(hidden_type)
    _, exact = visible_distribution(parameters_of(rbm), "spin", hidden_type)
    assert 0.1 < np.sort(exact)[-2] < 0.45
    served = exported(rbm, tmp_path / "exact", gibbs_steps=20, max_rows=ROWS)
    seeds = np.arange(ROWS)
    assert abs(z_of(served["sample"](seed=seeds)["visible"], exact)) < 4
    # A row picks its start by its own seed alone.
    others = np.random.default_rng(0).integers(-(2**63), 2**63, 64)
    together = served["sample"](seed=others)["visible"]
    for i in (0, 17, 63):
        np.testing.assert_array_equal(served["sample"](seed=others[i : i + 1])["visible"][0], together[i])
    # From means, the wells are filled in other proportions.
    from_means = exported(rbm, tmp_path / "means", gibbs_steps=20, max_rows=ROWS, start=np.zeros(5))
    assert z_of(from_means["sample"](seed=seeds)["visible"], exact) > 10
    assert [read_facts(tmp_path / name)["start"] for name in ("exact", "means")] == ["exact", "means"]


def test_given_states_are_picked_equally_often(tmp_path):
    """A kernel that copies each visible unit to a hidden one holds every state for ever: the answers are the starts."""
    rbm = tf_wcd.RBMLayer(20, visible_type="spin", hidden_type="spin", seed=0)
    rbm.build((None, 20))
    rbm.kernel.assign(30 * np.eye(20))
    states = 2.0 * (np.random.default_rng(1).random((7, 20)) < 0.5) - 1
    rbm.export(tmp_path / "m", gibbs_steps=5, start=states)
    visible = signatures(tmp_path / "m")["sample"](seed=np.arange(7000))["visible"]
    number = (visible[:, None] == states[None]).all(2)
    assert number.any(1).all()
    counts = number.sum(0)
    assert np.abs(counts - 1000).max() < 4 * np.sqrt(7000 / 7 * 6 / 7)
    assert read_facts(tmp_path / "m")["start"] == "states"


def test_real_values_to_start_from(tmp_path):
    rbm = tf_wcd.RBMLayer(3, visible_type="gaussian", seed=0)
    rbm.build((None, 2))
    rbm.export(tmp_path / "m", gibbs_steps=1, start=[[0.1, -0.7], [2000.0, 0.3]])
    loaded = tf.saved_model.load(str(tmp_path / "m"))
    np.testing.assert_allclose(loaded.start_states.numpy()[:, :2], [[0.1, -0.7], [1024.0, 0.3]], atol=2.0**-16)
    assert np.isfinite(signatures(tmp_path / "m")["sample"](seed=np.arange(9))["visible"]).all()


def test_a_stack_starts_from_the_distribution_of_its_top(tmp_path):
    """The layer below copies the top RBM's visible units, so that the answers are what the top RBM draws."""
    top = frozen_rbm()
    below = tf_wcd.RBMLayer(5, visible_type="spin", hidden_type="spin", seed=0)
    below.build((None, 5))
    below.kernel.assign(30 * np.eye(5))
    dbn = tf_wcd.DBN([below, top])
    dbn.build((None, 5))
    dbn.export(tmp_path / "m", gibbs_steps=20, max_rows=ROWS)
    _, exact = visible_distribution(parameters_of(top), "spin", "spin")
    assert abs(z_of(signatures(tmp_path / "m")["sample"](seed=np.arange(ROWS))["visible"], exact)) < 4


def test_larger_models_start_from_means():
    rbm = tf_wcd.RBMLayer(3, seed=0)
    rbm.build((None, MOST_UNITS + 1))
    means = np.linspace(0.1, 0.9, MOST_UNITS + 1)
    start = start_of(None, means, rbm.machine())
    assert (start.name, start.states) == ("means", None)
    np.testing.assert_array_equal(start.means, means)


def labelled():
    rbm = tf_wcd.RBMLayer(3, visible_type=tf_wcd.units.Labelled("bernoulli", 2), seed=0)
    dbn = tf_wcd.DBN([rbm])
    dbn.build((None, 2))
    return dbn


def test_states_with_labels(tmp_path):
    labelled().export(tmp_path / "m", gibbs_steps=1, start=[[0, 1, 1, 0], [1, 1, 0, 1]])
    assert signatures(tmp_path / "m")["sample"](seed=np.arange(9))["visible"].shape == (9, 2)


@pytest.mark.parametrize(
    ("model", "start", "message"),
    [
        (frozen_rbm, [[1, -1, 0.5, 1, 1]], r"-1 or 1\. Received: 0.5 at \[0, 2\]"),
        (frozen_rbm, np.zeros([0, 5]), r"Received: shape \(0, 5\)"),
        (frozen_rbm, np.ones([2, 4]), r"Received: shape \(2, 4\)"),
        (frozen_rbm, [[1, -1, np.nan, 1, 1]], "finite"),
        (labelled, [[0, 1, 1, 0], [0, 1, 1, 1]], r"the sum 1 in the last 2 .*Received: \[1.0, 1.0\] at \[1, 2:4\]"),
    ],
)
def test_states_that_cannot_be_started_from(model, start, message, tmp_path):
    with pytest.raises(ValueError, match=message):
        model().export(tmp_path / "m", start=start)
    assert not (tmp_path / "m").exists()


def trained_by_trajectory(**kwargs):
    """A layer of 20 units, more than are enumerated for the start, with two modes of unequal weight."""
    rng = np.random.default_rng(0)
    pattern = rng.integers(0, 2, 20)
    data = np.where(rng.random((100, 1)) < 0.8, pattern, 1 - pattern).astype("float32")
    rbm = tf_wcd.RBMLayer(4, negative_phase="ptt", chains=50, seed=0, **kwargs)
    rbm.compile("sgd")
    labels = (data[:, 0] == pattern[0]).astype(int) if kwargs else None
    rbm.fit(data, labels, batch_size=50, epochs=2, verbose=0)
    return rbm


def test_a_model_of_ptt_starts_from_its_equilibrium_states(tmp_path):
    rbm = trained_by_trajectory(classes=2)
    rbm.export(tmp_path / "ptt", gibbs_steps=1)
    facts = read_facts(tmp_path / "ptt")
    assert (facts["start"], facts["start_states"], facts["mixing"]) == ("ptt", 500, None)
    kept = tf.saved_model.load(str(tmp_path / "ptt")).start_states.numpy()
    assert set(np.unique(kept)) == {0, 1}
    assert (kept[:, 20:].sum(1) == 1).all()
    # They are samples by `method="ptt"`, sorted by their labels; the same ones at each export.
    own = rbm.sample(500, gibbs_steps=100, seed=0, method="ptt").numpy()
    np.testing.assert_array_equal(np.sort(own @ 2.0 ** np.arange(20)), np.sort(kept[:, :20] @ 2.0 ** np.arange(20)))
    # What was found about mixing is in the metadata, as long as it is of these parameters.
    found = tf_wcd.evaluation.mixing(rbm, gibbs_steps=32, chains=4, seed=0)
    rbm.export(tmp_path / "known", gibbs_steps=1, start=np.full(22, 0.5))
    facts = read_facts(tmp_path / "known")
    assert facts["start"] == "means"
    assert "start_states" not in facts
    assert facts["mixing"]["mixed"] == found.mixed
    assert facts["mixing"]["reason"] == found.reason
    rbm.visible_bias.assign_add(np.ones(22))
    assert rbm.known_mixing() is None


def test_other_models_have_no_equilibrium_states(tmp_path):
    rbm = tf_wcd.RBMLayer(4, negative_phase="pcd", chains=10, seed=0)
    rbm.compile("sgd")
    rbm.fit(np.random.default_rng(0).integers(0, 2, (20, 20)), batch_size=10, verbose=0)
    rbm.export(tmp_path / "pcd", gibbs_steps=1)
    assert read_facts(tmp_path / "pcd")["start"] == "means"
