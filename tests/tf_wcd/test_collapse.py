"""The warning of weights that have collapsed: when, once, and what it says."""

import warnings

import keras
import numpy as np
import pytest
import tensorflow as tf

import tf_wcd
from tf_wcd.negative_phases import BCD, CD, PCD, WCD, WPCD, Exact, FixedPoints, NegativePhase, PointSource
from tf_wcd.negative_phases.collapse import collapse_warning
from tf_wcd.negative_phases.points import Joined, Neighbours, PersistentChains, RandomStates, Reconstructions

WIDE = (np.random.default_rng(0).random((40, 200)) < 0.5).astype("float32")
SCALE = keras.initializers.RandomNormal(stddev=3.0, seed=0)  # free energies that lie far apart


def warnings_of_fits(phase, x=WIDE, fits=1, members=None, **kwargs):
    """What `fit` warns of, for a model whose points have very unequal probabilities."""
    if members is None:
        rbm = tf_wcd.RBMLayer(5, negative_phase=phase, kernel_initializer=SCALE, seed=0)
    else:
        rbm = tf_wcd.RBMEnsemble(5, count=members, initial_stddev=3.0, negative_phase=phase, seed=0)
    rbm.compile(keras.optimizers.SGD(0.0), run_eagerly=True)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in range(fits):
            history = rbm.fit(x, batch_size=20, epochs=2, verbose=0, **kwargs)
    return [str(warning.message) for warning in caught], history.history["ess"]


@pytest.mark.parametrize(
    ("phase", "remedies"),
    [
        (WCD(), 'try negative_phase="bcd", negative_phase="pcd" or `minimum_ess=0.5`.'),
        (WPCD(), 'try negative_phase="pcd" or `minimum_ess=0.5`.'),
        (BCD(side="visible"), 'try negative_phase="pcd" or `minimum_ess=0.5`.'),
    ],
)
def test_collapsed_weights_are_named_once_with_what_to_do(phase, remedies):
    messages, ess = warnings_of_fits(phase, fits=2)
    assert len(messages) == 1
    assert messages[0].endswith(remedies)
    assert f"{20 * ess[0]:.1f} of 20 points" in messages[0]


def test_the_warning_names_the_line_of_the_user():
    rbm = tf_wcd.RBMLayer(5, negative_phase=WPCD(), kernel_initializer=SCALE, seed=0)
    rbm.compile(keras.optimizers.SGD(0.0), run_eagerly=True)
    with pytest.warns(UserWarning, match="of 20 points") as caught:
        rbm.fit(WIDE, batch_size=20, verbose=0)
    assert [warning.filename for warning in caught] == [__file__]


def test_the_mean_of_an_ensemble_and_batches_of_data_sets_count():
    messages, ess = warnings_of_fits(WPCD(chains=30), members=2)
    assert len(messages) == 1
    assert f"{30 * ess[0]:.1f} of 30 points" in messages[0]
    batches = tf.data.Dataset.from_tensor_slices(WIDE).batch(20)
    rbm = tf_wcd.RBMLayer(5, kernel_initializer=SCALE, seed=0)
    rbm.compile(keras.optimizers.SGD(0.0), run_eagerly=True)
    with pytest.warns(UserWarning, match="of 20 points"):
        rbm.fit(batches, verbose=0)


@pytest.mark.parametrize(
    "phase",
    [
        CD(),
        PCD(),
        WCD(minimum_ess=0.3),
        FixedPoints(WIDE),  # points of the user's own choice
        NegativePhase(PersistentChains(), tf_wcd.negative_phases.weights.UniformWeights()),
    ],
    ids=lambda phase: type(phase).__name__,
)
def test_other_phases_do_not_warn(phase):
    assert warnings_of_fits(phase)[0] == []


def test_data_of_which_few_count_do_not_warn():
    weights = np.full(40, 1e-6)
    weights[::20] = 1.0
    messages, ess = warnings_of_fits(CD(), sample_weight=weights, shuffle=False)
    assert ess[0] < 0.07
    assert messages == []


def test_the_exact_phase_of_a_sharp_model_does_not_warn():
    """The distribution of a model may be one state."""
    rbm = tf_wcd.RBMLayer(3, negative_phase=Exact(), visible_bias_initializer=keras.initializers.Constant(20.0))
    rbm.compile(keras.optimizers.SGD(0.0), run_eagerly=True)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        history = rbm.fit(np.ones((12, 6)), verbose=0)
    assert history.history["ess"][0] < 1.1 / 64


def test_when_there_is_something_to_say():
    assert collapse_warning(WCD(), 0.03, 50) is not None
    assert collapse_warning(WCD(), 0.05, 50) is None  # 2.5 points
    assert collapse_warning(WCD(), 0.2, 5) is None  # so few that one of them is no wonder
    assert collapse_warning(WCD(), float("nan"), 50) is None
    assert collapse_warning(WCD(), 0.01, None) is None
    assert collapse_warning(NegativePhase(PointSource()), 0.01, 100) is None
    joined = NegativePhase(Joined([Neighbours(), PersistentChains(), RandomStates(), Reconstructions()]))
    assert '"bcd"' in collapse_warning(joined, 0.01, 100)
    assert collapse_warning(Exact(), 1 / 64, 64) is None


def test_stacks_warn_of_their_top():
    dbn = tf_wcd.DBN([tf_wcd.RBMLayer(4), tf_wcd.RBMLayer(3, negative_phase="wpcd")])
    dbn.build((None, 5))
    assert '"pcd"' in dbn.collapse_warning(0.01, 100)
