"""The event files for TensorBoard, read back."""

import io

import keras
import numpy as np
import pytest
from matplotlib import image
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.util import tensor_util

import tf_wcd


def read(folder):
    events = EventAccumulator(str(folder), size_guidance={"tensors": 0})
    events.Reload()
    return {
        tag: {event.step: tensor_util.make_ndarray(event.tensor_proto) for event in events.Tensors(tag)}
        for tag in events.Tags()["tensors"]
    }


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A short training: the model at its end, its history, the data, and what is in the event files."""
    folder = tmp_path_factory.mktemp("logs")
    states, probabilities = tf_wcd.datasets.load("BS16")
    spins = 2 * states - 1
    train, validation = spins[:20], spins[20:]
    rbm = tf_wcd.RBMLayer(12, visible_type="spin", hidden_type="spin", negative_phase="wcd", seed=0)
    rbm.compile(keras.optimizers.SGD(0.05))
    board = tf_wcd.callbacks.RBMTensorBoard(
        folder, train, validation, target=(spins, probabilities), every=2, samples=8, filters=5, gibbs_steps=10
    )
    history = rbm.fit(train, validation_data=(validation,), epochs=4, callbacks=[board], verbose=0)
    return rbm, history.history, (train, validation, spins, probabilities), read(folder)


def test_keras_logs_are_written_after_each_epoch(run):
    _, history, _, events = run
    for name in ("loss", "reconstruction_error", "ess"):
        for tag, key in ((f"training/{name}", name), (f"validation/{name}", f"val_{name}")):
            assert list(events[tag]) == [0, 1, 2, 3]
            np.testing.assert_allclose(list(events[tag].values()), history[key], rtol=1e-6)


def test_the_gap_of_free_energies_is_that_of_the_model(run):
    rbm, _, (train, validation, _, _), events = run
    assert list(events["free_energy/gap"]) == [0, 1, 3]
    mean = {name: np.mean(rbm.free_energy(x)) for name, x in (("train", train), ("validation", validation))}
    for name, value in mean.items():
        assert events[f"free_energy/{name}"][3] == pytest.approx(value, rel=1e-5)
    assert events["free_energy/gap"][3] == pytest.approx(mean["validation"] - mean["train"], abs=1e-4)


def test_the_kl_is_exact(run):
    rbm, _, (_, _, spins, probabilities), events = run
    exact = tf_wcd.evaluation.kl_divergence(rbm, spins, probabilities)
    assert events["kl"][3] == pytest.approx(exact, rel=1e-5)
    assert events["kl"][3] != pytest.approx(float(events["kl"][0]), rel=1e-4)


def test_histograms_hold_the_weights(run):
    rbm, _, _, events = run
    for name, variable in (("kernel", rbm.kernel), ("visible_bias", rbm.visible_bias)):
        buckets = events[f"weights/{name}"][3]
        assert buckets[:, 2].sum() == np.size(variable)
        assert buckets[0, 0] == pytest.approx(np.min(variable), rel=1e-5)
    hidden = events["hidden/mean of each unit given the training examples"][3]
    assert hidden[:, 2].sum() == 20 * 12


def test_pictures_of_samples_and_filters(run):
    *_, events = run
    pictures = {}
    for tag in ("samples", "filters"):
        width, height, encoded = events[tag][3]
        pictures[tag] = image.imread(io.BytesIO(encoded))
        assert pictures[tag].shape[:2] == (int(height), int(width))
    # Samples are ink on paper; filters have red and blue.
    grey = pictures["samples"]
    assert np.ptp(grey, axis=-1).max() < 0.02
    assert grey.min() < 0.1
    assert np.ptp(pictures["filters"], axis=-1).max() > 0.5


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"every": 0}, "`every` must be"),
        ({"validation": np.zeros((2, 4))}, "needs `train`"),
        ({"target": (np.eye(2), [0.5, 0.2])}, "must have the sum 1"),
    ],
)
def test_wrong_arguments_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        tf_wcd.callbacks.RBMTensorBoard(**arguments)


def test_a_picture_larger_than_the_data_is_refused(tmp_path):
    rbm = tf_wcd.RBMLayer(2, seed=0)
    rbm.compile("sgd")
    rbm.build((None, 4))
    board = tf_wcd.callbacks.RBMTensorBoard(tmp_path, image_shape=(3, 3))
    with pytest.raises(ValueError, match=r"at most 4 pixels. Received: image_shape=\(3, 3\)"):
        rbm.fit(np.eye(4), callbacks=[board], verbose=0)
