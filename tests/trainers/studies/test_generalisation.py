"""Training on a part of the states, in miniature."""

import numpy as np
import pytest

import tf_wcd
from trainers.settings import paper
from trainers.settings.protocol import SHORT
from trainers.studies import generalisation
from trainers.studies.work import Work


@pytest.mark.slow
def test_generalisation_measures_the_whole_target(tmp_path):
    work = Work(tmp_path, protocol=SHORT, verbose=False)
    records = generalisation.run_one("Mult3G", paper.METHODS["WCD_1"], 0.2, work)
    _, probabilities = tf_wcd.datasets.load("Mult3G")
    path = tmp_path / "small" / "distributions" / "Mult3G-WCD_1-20.npz"
    kept = np.load(path)
    log_probabilities, held_out = kept["log_probabilities"].astype("float64"), kept["held_out"]
    assert len(held_out) == 4096 - 819
    kl = np.sum(probabilities * (np.log(probabilities) - log_probabilities))
    np.testing.assert_allclose(records[0]["full_kl"], kl, rtol=1e-4)
    np.testing.assert_allclose(records[0]["held_out_mass"], np.exp(log_probabilities[held_out]).sum(), atol=1e-4)
    np.testing.assert_allclose(records[0]["target_mass"], probabilities[held_out].sum(), atol=1e-4)
    train = np.setdiff1d(np.arange(4096), held_out)
    target = probabilities[train] / probabilities[train].sum()
    seen = log_probabilities[train] - np.logaddexp.reduce(log_probabilities[train])
    np.testing.assert_allclose(records[0]["min_kl"], np.sum(target * (np.log(target) - seen)), rtol=1e-3)
    before = path.stat().st_mtime_ns
    assert generalisation.run_one("Mult3G", paper.METHODS["WCD_1"], 0.2, work) == records
    assert path.stat().st_mtime_ns == before, "nothing runs again"


@pytest.mark.parametrize(("fraction", "wished", "units"), [(1.0, 60, 60), (0.4, 60, 60), (0.2, 60, 24), (0.2, 12, 12)])
def test_fewer_hidden_units_where_few_states_are_seen(fraction, wished, units):
    assert generalisation.hidden_for("Mult3G", fraction, wished) == units
    assert 12 * units + 12 + units <= fraction * 4096 / 2
