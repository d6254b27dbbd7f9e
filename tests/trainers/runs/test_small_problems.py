"""Runs on small problems: what they record, and how they resume."""

import dataclasses

import keras
import numpy as np
import pytest

import tf_wcd
from trainers.runs.resumable import Plan
from trainers.runs.small_problems import Training, build, load_task, train_group
from trainers.settings.runs import SmallRun

SHORT = SmallRun("BS09", "wcd", 1, 9, 0.03, 0.1, "linear", 0.9, 400)


def test_task_holds_states_out_and_keeps_their_probabilities():
    task = load_task("Mult3G", 0.2)
    states, probabilities = tf_wcd.datasets.load("Mult3G")
    assert task.training == 819
    np.testing.assert_array_equal(task.spins, 2 * states[task.order] - 1)
    np.testing.assert_array_equal(task.probabilities, probabilities[task.order])
    assert sorted(task.order) == list(range(4096))
    whole = load_task("Mult3G")
    assert whole.training == 4096
    np.testing.assert_array_equal(whole.order, np.arange(4096))


def test_record_has_the_minimum_of_the_curve_and_its_distribution():
    result = train_group([SHORT, dataclasses.replace(SHORT, learning_rate=0.001)], Training(0, 20, verbose=False))
    states, probabilities = tf_wcd.datasets.load("BS09")
    for i, record in enumerate(result.records):
        curve = [kl for _, kl in record["curve"]]
        assert len(curve) == 21
        assert record["min_kl"] == min(curve)
        assert record["final_kl"] == curve[-1]
        assert record["curve"][curve.index(min(curve))][0] == record["min_at"]
        kl = np.sum(probabilities * (np.log(probabilities) - result.log_probabilities[i]))
        np.testing.assert_allclose(kl, record["min_kl"], rtol=1e-4)
        final = tf_wcd.evaluation.kl_divergence(result.ensemble.member(i), 2 * states - 1, probabilities)
        np.testing.assert_allclose(final, record["final_kl"], rtol=1e-4)


def test_no_fewer_updates_than_asked_for():
    result = train_group([dataclasses.replace(SHORT, updates=39)], Training(0, 20, verbose=False))
    assert int(result.ensemble.optimizer.iterations) == 40
    assert result.records[0]["looks"] == 20
    assert result.records[0]["curve"][-1][0] == 40


def test_weight_decay_takes_the_same_part_away_from_each_run_and_less_as_the_rate_falls():
    """With a rate of zero nothing but the decay is left: the product of 1 - decay * (1 - t / updates)."""
    still = dataclasses.replace(SHORT, learning_rate=0.0, weight_decay=0.01)
    runs = [still, dataclasses.replace(still, variance=1.0)]
    start = build(runs, 0)
    start.build((None, 9))
    result = train_group(runs, Training(0, 20, verbose=False))
    left = np.prod(1 - 0.01 * (1 - np.arange(400) / 400))
    assert 0.1 < left < 0.2
    np.testing.assert_allclose(result.ensemble.kernel, left * start.kernel.numpy(), rtol=1e-4)
    np.testing.assert_allclose(np.std(result.ensemble.kernel[1]), left, rtol=0.4)  # of 81 weights: 4 sigma are 0.31
    assert result.records[0]["weight_decay"] == 0.01


def test_a_decay_of_everything_is_refused():
    with pytest.raises(ValueError, match="Received: weight_decay=1"):
        dataclasses.replace(SHORT, weight_decay=1.0)


def test_runs_of_different_shape_do_not_go_side_by_side():
    with pytest.raises(ValueError, match="learning rate and variance only"):
        train_group([SHORT, dataclasses.replace(SHORT, hidden=10)], Training(0, 2))


def test_the_exact_gradient_has_no_gibbs_steps():
    with pytest.raises(ValueError, match=r"leave `gibbs_steps` at 1\. Received: 10"):
        dataclasses.replace(SHORT, negative_phase="exact", gibbs_steps=10)


class StopError(Exception):
    pass


class Epochs(keras.callbacks.Callback):
    """Notes the epochs, and stops at one."""

    def __init__(self, stop_at=None):
        super().__init__()
        self.stop_at, self.seen = stop_at, []

    def on_epoch_end(self, epoch, logs=None):
        self.seen.append(epoch)
        if epoch == self.stop_at:
            raise StopError


def test_interrupted_run_ends_as_if_nothing_had_happened(tmp_path):
    run = dataclasses.replace(
        SHORT, problem="Int12", hidden=12, batch_size=100, negative_phase="wpcd", weight_decay=1e-4
    )
    runs = [run] * 2
    alone = Training(3, 10, verbose=False)
    whole = train_group(runs, alone)
    kept = dataclasses.replace(alone, checkpoints=tmp_path, plan=Plan(checkpoint_epochs=1))
    with pytest.raises(StopError):
        train_group(runs, dataclasses.replace(kept, callbacks=(Epochs(stop_at=7),)))
    assert len(list(tmp_path.glob("*.npz"))) == 2  # the last two are kept
    epochs = Epochs()
    resumed = train_group(runs, dataclasses.replace(kept, callbacks=(epochs,)))
    assert epochs.seen == [7, 8, 9]
    for mine, theirs in zip(resumed.ensemble.weights, whole.ensemble.weights, strict=True):
        np.testing.assert_array_equal(mine, theirs)
    for mine, theirs in zip(resumed.records, whole.records, strict=True):
        assert mine | {"seconds": 0} == theirs | {"seconds": 0}
    resumed.forget()
    assert not list(tmp_path.iterdir())
