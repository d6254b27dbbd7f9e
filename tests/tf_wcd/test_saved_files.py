"""Files that version 0.1 wrote: they load, give the same numbers, and training goes on from them."""

import json
from pathlib import Path

import keras
import numpy as np
import pytest
import tensorflow as tf

import tf_wcd

FOLDER = Path(__file__).parents[1] / "fixtures" / "saved_0_1"
ANSWERS = json.loads((FOLDER / "answers.json").read_text())


@pytest.mark.parametrize("name", ["bernoulli_wpcd_centered", "spin_cd_named", "gaussian_pcd"])
def test_layers(name, tmp_path):
    answers = ANSWERS[name]
    x = np.array(answers["x"], "float32")
    rbm = keras.models.load_model(FOLDER / f"{name}.keras")
    np.testing.assert_allclose(rbm.free_energy(x), answers["free_energy"], rtol=1e-6)
    assert tf_wcd.evaluation.log_partition(rbm) == pytest.approx(answers["log_partition"], rel=1e-9)
    assert set(rbm.chain_states()) == set(answers["chains"])
    for array, value in rbm.chain_states().items():
        np.testing.assert_array_equal(value, answers["chains"][array])
    assert int(rbm.optimizer.iterations.numpy()) == answers["iterations"]
    # They train on, and are saved in the present form.
    rbm.fit(x, batch_size=6, epochs=2, verbose=0)
    rbm.save(tmp_path / "again.keras")
    again = keras.models.load_model(tmp_path / "again.keras")
    np.testing.assert_array_equal(again.free_energy(x), rbm.free_energy(x))


def test_settings_of_the_phases():
    weighted = keras.models.load_model(FOLDER / "bernoulli_wpcd_centered.keras").negative_phase
    assert type(weighted) is tf_wcd.negative_phases.WPCD
    assert weighted.get_config() == {"gibbs_steps": 2, "chains": None, "minimum_ess": 0.3}
    assert keras.models.load_model(FOLDER / "spin_cd_named.keras").negative_phase.get_config() == {"gibbs_steps": 3}
    assert keras.models.load_model(FOLDER / "gaussian_pcd.keras").negative_phase.source.chains == 6


def test_an_ensemble():
    ensemble = keras.models.load_model(FOLDER / "ensemble.keras")
    np.testing.assert_allclose(
        tf_wcd.evaluation.log_partition(ensemble), ANSWERS["ensemble"]["log_partition"], rtol=1e-9
    )
    assert ensemble.learning_rates == [0.1, 0.01, 0.3]


def test_a_labelled_stack():
    answers = ANSWERS["labelled_dbn"]
    x = np.array(answers["x"], "float32")
    dbn = keras.models.load_model(FOLDER / "labelled_dbn.keras")
    assert dbn.untied
    assert dbn.classes == 3
    np.testing.assert_allclose(dbn.label_log_prob(x), answers["label_log_prob"], rtol=1e-5)
    np.testing.assert_allclose(dbn(x), answers["output"], rtol=1e-6)
    np.testing.assert_allclose(dbn.reconstruct(x), answers["reconstruct"], rtol=1e-6)
    dbn.fit(x, np.arange(6) % 3, batch_size=3, verbose=0)


def test_a_saved_model():
    answers = ANSWERS["saved_model"]
    served = tf.saved_model.load(str(FOLDER / "saved_model")).signatures
    energies = served["free_energy"](visible=tf.constant(answers["x"]))["free_energy"]
    np.testing.assert_allclose(energies, answers["free_energy"], rtol=1e-5)
    drawn = served["sample"](seed=tf.constant([1, 2], tf.int64))["visible"]
    assert drawn.shape == (2, 5)
