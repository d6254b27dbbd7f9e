"""Several replicas make the update that one makes: every algorithm, any division of the batch."""

import os
import subprocess
import sys

import keras
import numpy as np
import pytest
import tensorflow as tf

import tf_wcd
from tests.support.two_replicas import MAIN, MORE

WITH_CHAINS = ("pcd", "wpcd", "jpcd", "resampled", "tempered chains", "spins", "adam")


def run(folder, part):
    path = folder / f"{part}.npz"
    subprocess.run([sys.executable, "-m", "tests.support.two_replicas", path, part], check=True, env=dict(os.environ))
    return dict(np.load(path))


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    return run(tmp_path_factory.mktemp("replicas"), "main")


@pytest.fixture(scope="module")
def more(tmp_path_factory):
    return run(tmp_path_factory.mktemp("replicas"), "more")


def of(results, case, number):
    start = f"{case}|{number}|"
    return {name.removeprefix(start): value for name, value in results.items() if name.startswith(start)}


def same_update(results, case):
    one, two = of(results, case, 1), of(results, case, 2)
    assert set(one) == set(two)
    assert any(name.startswith("chains") for name in one) == (case in WITH_CHAINS)
    for name in one:
        # Metrics are global: sums over the whole batch and all points, whoever has them.
        tolerance = 1e-5 if name.startswith("metric") else 1e-6
        np.testing.assert_allclose(two[name], one[name], atol=tolerance, rtol=tolerance, err_msg=f"{case}: {name}")
    assert sum(name.startswith("metric") for name in one) == 3


@pytest.mark.parametrize("case", MAIN)
def test_two_replicas_update_as_one_does(results, case):
    same_update(results, case)


@pytest.mark.slow
@pytest.mark.parametrize("case", MORE)
def test_two_replicas_update_as_one_does_with_other_units_batches_and_optimizers(more, case):
    same_update(more, case)


@pytest.mark.slow
def test_layers_of_a_stack_update_as_on_one_device(more):
    one, two = of(more, "stack", 1), of(more, "stack", 2)
    assert len(one) == 6
    for name in one:
        np.testing.assert_allclose(two[name], one[name], atol=2e-6, err_msg=name)


@pytest.mark.slow
def test_replicas_are_put_back_when_training_diverges(more):
    assert "Training diverged" in str(more["diverged message"])
    np.testing.assert_array_equal(more["diverged after"], more["diverged before"])


def counts_agree(visible, exact):
    """Whether states [n, 5] have the probabilities of the 32 states, by chi-square, four standard deviations wide."""
    numbers = (visible @ 2.0 ** np.arange(4, -1, -1)).astype(int)
    expected = len(visible) * exact
    excess = np.sum((np.bincount(numbers, minlength=32) - expected) ** 2 / expected)
    return excess < 31 + 4 * np.sqrt(2 * 31)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["pt", "ptt"])
def test_replicas_swap_states_on_one_ladder(more, name):
    first, second = more[f"exchanged {name} kernels"]
    np.testing.assert_array_equal(first, second)
    parts = np.split(more[f"exchanged {name} visible"], 2)
    assert np.mean(parts[0] != parts[1]) > 0.1, "each replica has chains of its own"
    assert np.all((more[f"exchanged {name} swap_rates"] > 0) & (more[f"exchanged {name} swap_rates"] <= 1))


@pytest.mark.slow
def test_log_partition_and_samples_of_a_ladder_on_two_replicas(more):
    assert more["exchanged rungs"] >= 2
    estimate, error = more["exchanged online"]
    assert 0 < error < 0.5
    assert abs(estimate - more["exchanged log_partition"]) < 4 * error
    assert counts_agree(more["exchanged samples"], more["exchanged ptt exact"])


def test_replicas_draw_their_own_numbers_and_the_same_again(results):
    first, second = np.split(results["draws a"], 2)
    assert results["draws a"].shape == (8, 30)
    assert 0.2 < np.mean(first != second) < 0.8
    np.testing.assert_array_equal(results["draws a"], results["draws b"])


def test_evaluation_before_training(results):
    loss, error, size = results["draws measured"]
    assert np.isfinite(loss)
    assert 0.2 < error < 0.3  # of ones that are predicted to be one half
    assert size == pytest.approx(1)  # of chains of equal weight, all replicas counted


def test_the_up_down_algorithm_refuses_replicas(results):
    assert len(results["up-down messages"]) == 2
    assert all(message.endswith("Received: a strategy of 2 replicas") for message in results["up-down messages"])


def test_all_chains_are_saved_and_spread_again(results):
    np.testing.assert_array_equal(results["draws loaded"], results["draws b"])
    assert np.any(results["draws one"] != results["draws loaded"])
    np.testing.assert_array_equal(results["draws again"], results["draws one"])


def test_replicas_share_the_weights_and_each_watches_with_whole_groups(results):
    assert results["observed weights"].shape == (20, 1)
    np.testing.assert_allclose(results["observed weights"].sum(), 1, rtol=1e-5)  # over all replicas
    assert results["observed resamplings"] > 0
    assert results["observed groups"].shape == (10, 1)
    assert len(set(results["observed groups"].ravel())) == 10  # each replica has its own
    estimate, error = results["observed online"]
    assert abs(estimate - results["observed exact"]) < 4 * error < 2
    np.testing.assert_allclose(results["observed alone"], results["observed online"], rtol=1e-5)
    assert abs(results["observed metric"][-1] - estimate) < 1


def test_a_strategy_of_one_replica_trains_as_no_strategy_does():
    """What `MirroredStrategy()` is on a machine with one device."""
    x = (np.random.default_rng(0).random((12, 5)) < 0.4).astype("float32")
    kernels = []
    for strategy in (tf.distribute.get_strategy(), tf.distribute.MirroredStrategy(["CPU:0"])):
        with strategy.scope():
            rbm = tf_wcd.RBMLayer(3, negative_phase="wpcd", seed=0)
            rbm.compile(keras.optimizers.SGD(0.1))
        rbm.fit(x, batch_size=4, epochs=2, verbose=0)
        kernels.append(rbm.kernel.numpy())
    np.testing.assert_allclose(kernels[0], kernels[1], rtol=1e-6)
