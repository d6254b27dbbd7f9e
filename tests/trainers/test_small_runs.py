"""Runs on small problems: what they record, how they resume, and how parameters are chosen."""

import dataclasses

import numpy as np
import pytest
from trainers.records import Records

import tf_wcd
from trainers import checkpoints, paper, selection, small_run, table, tuning
from trainers.settings import Settings

SHORT = Settings("BS09", "wcd", 1, 9, 0.03, 0.1, "linear", 0.9, 400)


def test_task_holds_states_out_and_keeps_their_probabilities():
    task = small_run.load_task("Mult3G", 0.2)
    states, probabilities = tf_wcd.datasets.load("Mult3G")
    assert task.training == 819
    np.testing.assert_array_equal(task.spins, 2 * states[task.order] - 1)
    np.testing.assert_array_equal(task.probabilities, probabilities[task.order])
    assert sorted(task.order) == list(range(4096))
    whole = small_run.load_task("Mult3G")
    assert whole.training == 4096
    np.testing.assert_array_equal(whole.order, np.arange(4096))


def test_record_has_the_minimum_of_the_curve_and_its_distribution():
    result = small_run.train_group([SHORT, dataclasses.replace(SHORT, learning_rate=0.001)], 0, looks=20, verbose=False)
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
    result = small_run.train_group([dataclasses.replace(SHORT, updates=39)], 0, looks=20, verbose=False)
    assert int(result.ensemble.optimizer.iterations) == 40
    assert result.records[0]["looks"] == 20
    assert result.records[0]["curve"][-1][0] == 40


def test_weight_decay_takes_the_same_part_away_from_each_run_and_less_as_the_rate_falls():
    """With a rate of zero nothing but the decay is left: the product of 1 - decay * (1 - t / updates)."""
    still = dataclasses.replace(SHORT, learning_rate=0.0, weight_decay=0.01)
    runs = [still, dataclasses.replace(still, variance=1.0)]
    start = small_run.build(runs, 0)
    start.build((None, 9))
    result = small_run.train_group(runs, 0, looks=20, verbose=False)
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
        small_run.train_group([SHORT, dataclasses.replace(SHORT, hidden=10)], 0, looks=2)


def test_settings_of_a_cell_from_before_there_was_decay_can_be_read(tmp_path):
    cell = table.Cell("BS09", paper.METHODS["WCD_1"], "own")
    old = {name: value for name, value in SHORT.as_dict().items() if name != "weight_decay"}
    table.records_of(cell, tmp_path).append(old)
    assert table.settings_used(cell, tmp_path) == SHORT


def test_interrupted_run_ends_as_if_nothing_had_happened(tmp_path, monkeypatch):
    monkeypatch.setattr(checkpoints, "SECONDS_BETWEEN_CHECKPOINTS", 0.0)
    run = dataclasses.replace(
        SHORT, problem="Int12", hidden=12, batch_size=100, negative_phase="wpcd", weight_decay=1e-4
    )
    runs = [run] * 2
    whole = small_run.train_group(runs, 3, looks=10, verbose=False)

    class StopError(Exception):
        pass

    look = small_run.KLAlongTraining.on_epoch_end

    def stop_at_seven(self, epoch, logs=None):
        if epoch == 7:
            raise StopError
        look(self, epoch, logs)

    with monkeypatch.context() as patch:
        patch.setattr(small_run.KLAlongTraining, "on_epoch_end", stop_at_seven)
        with pytest.raises(StopError):
            small_run.train_group(runs, 3, looks=10, checkpoints=tmp_path, verbose=False)
    assert len(list(tmp_path.glob("*.npz"))) == 2  # the last two are kept
    epochs = []
    monkeypatch.setattr(
        small_run.KLAlongTraining, "on_epoch_end", lambda self, e, logs=None: (epochs.append(e), look(self, e, logs))
    )
    resumed = small_run.train_group(runs, 3, looks=10, checkpoints=tmp_path, verbose=False)
    assert epochs == [7, 8, 9]
    for mine, theirs in zip(resumed.ensemble.weights, whole.ensemble.weights, strict=True):
        np.testing.assert_array_equal(mine, theirs)
    for mine, theirs in zip(resumed.records, whole.records, strict=True):
        assert mine | {"seconds": 0} == theirs | {"seconds": 0}
    resumed.checkpoints.remove()
    assert not list(tmp_path.iterdir())


def fake_training(best):
    """Stands for training: the KL of a run is its distance from the best settings, and shrinks with its length."""
    seen = []

    def train(runs, keep, seed, looks, **_):
        seen.append(list(runs))
        keep(
            [
                {
                    **run.as_dict(),
                    "seed": seed,
                    "min_kl": None
                    if run.learning_rate == 0.1
                    else abs(np.log(run.learning_rate / best)) + 1 / run.updates,
                    "final_kl": 1.0,
                    "seconds": 0.0,
                    "date": "",
                }
                for run in runs
            ]
        )

    return train, seen


def test_halving_keeps_the_better_settings_and_resumes(tmp_path):
    method = paper.METHODS["CD_1"]
    train, seen = fake_training(best=0.003)
    chosen = selection.select("BS09", method, 16_000, tmp_path, train=train)
    assert chosen.learning_rate == 0.003
    assert chosen.updates == 16_000
    grid = selection.default_grid(method).settings("BS09", method, 16_000)
    assert [len(runs) for runs in seen] == [len(grid), 8, 2]
    assert [runs[0].updates for runs in seen] == [1000, 4000, 16_000]
    # What goes on does so with its rate, and with one that is smaller by as much as the run is longer.
    assert {run.learning_rate for run in seen[1]} == {0.003, 0.00075}
    assert [run.learning_rate for run in seen[2]] == [0.003, 0.00075]
    # All runs are in the records: nothing is trained again.
    train, seen = fake_training(best=0.001)
    assert selection.select("BS09", method, 16_000, tmp_path, train=train) == chosen
    assert seen == [[], [], []]


@pytest.mark.parametrize("best_length", [1000, 16_000])
def test_weighted_settings_are_judged_by_the_mean_of_several_seeds(tmp_path, best_length):
    """The rate that is best with the first seed fails with the second; the run that is better, short or long, wins."""
    method, seen = paper.METHODS["WCD_1"], {}

    def train(runs, keep, seed, looks, **_):
        again = runs[0].updates in seen.values() if runs else False
        seen[seed] = runs[0].updates if runs else 0
        keep(
            [
                {
                    **run.as_dict(),
                    "seed": seed,
                    "min_kl": 0.5
                    if again and run.learning_rate == 0.03
                    else abs(run.learning_rate - 0.03) + 0.001 * (run.updates != best_length),
                    "final_kl": 1.0,
                    "seconds": 0.0,
                    "date": "",
                }
                for run in runs
            ]
        )

    chosen = selection.select("BS09", method, 16_000, tmp_path, train=train)
    assert list(seen.values()) == [1000] * 8 + [16_000] * 3, "each time with a seed of its own"
    assert (chosen.learning_rate, chosen.updates) == (0.01, best_length)
    seen.clear()
    assert selection.select("BS09", method, 16_000, tmp_path, train=train) == chosen
    assert set(seen.values()) == {0}, "nothing is trained again"


@pytest.mark.parametrize(("decay", "length"), [(0.0, 4000), (0.001, 16_000)])
def test_a_short_run_with_decay_does_not_win(tmp_path, monkeypatch, decay, length):
    """The shorter a run the better it is here; with decay, half of it in runs four times as long, only these count."""
    grid = selection.Grid((1,), (1.0,), (0.1, 0.01), ("linear",), (0.9,), (decay,))
    monkeypatch.setattr(selection, "default_grid", lambda method: grid)

    def train(runs, keep, seed, looks, **_):
        rest = {"seed": seed, "final_kl": 1.0, "seconds": 0.0, "date": ""}
        keep([{**run.as_dict(), "min_kl": run.updates + run.learning_rate, **rest} for run in runs])

    chosen = selection.select("BS09", paper.METHODS["WCD_10"], 16_000, tmp_path, train=train)
    assert (chosen.updates, chosen.weight_decay) == (length, decay / 2)


def test_full_grid_is_the_papers(tmp_path):
    train, seen = fake_training(best=0.001)
    chosen = selection.select("BS09", paper.METHODS["CD_1"], 100, tmp_path, full=True, train=train)
    assert len(seen[0]) == 5 * 5 * 5 * 2
    assert chosen.learning_rate == 0.001
    assert len(selection.full_grid(paper.METHODS["WPCD"]).settings("BS09", paper.METHODS["WPCD"], 100)) == 5 * 8 * 2 * 2


def test_a_cell_of_the_table_from_beginning_to_end(tmp_path, monkeypatch):
    monkeypatch.setattr(table, "effort_of", lambda problem, method: table.Effort(320, 3))
    monkeypatch.setattr(table, "LOOKS", 8)
    grid = selection.Grid((1,), (0.1,), (0.03, 0.001), ("linear",), (0.9,))
    monkeypatch.setattr(selection, "default_grid", lambda method: grid)
    weighted = [cell for cell in table.cells(["BS09"], ["CD_1", "WCD_1"]) if cell.method.name == "WCD_1"]
    assert [cell.parameters for cell in weighted] == ["paper", "own"]
    assert table.run_table(tmp_path, ["BS09"], ["CD_1", "WCD_1"], verbose=False) == 0
    for name, phase in (("BS09-CD_1-paper", "cd"), ("BS09-WCD_1-own", "wcd"), ("BS09-WCD_1-paper", "wcd")):
        records = Records(tmp_path / "table" / f"{name}.jsonl").read()
        assert [record["member"] for record in records] == [0, 1, 2]
        assert {record["negative_phase"] for record in records} == {phase}
        assert len({record["min_kl"] for record in records}) == 3, "each seed has random numbers of its own"
        assert np.load(tmp_path / "distributions" / f"{name}.npz")["log_probabilities"].shape == (14,)
    plain, taken_over = (
        Records(tmp_path / "table" / f"BS09-{name}-paper.jsonl").read()[0] for name in ("CD_1", "WCD_1")
    )
    for name in ("hidden", "learning_rate", "variance", "schedule", "momentum"):
        assert plain[name] == taken_over[name]
    monkeypatch.setattr(table, "run_cell", None)
    assert table.run_table(tmp_path, ["BS09"], ["CD_1", "WCD_1"]) == 0, "nothing is run again"
    assert table.run_table(tmp_path, ["BS16"], ["CD_1"], deadline=0.0) == 1, "nothing new is begun after the deadline"


def test_tuner_trains_the_same_runs_as_the_plain_loop(tmp_path):
    pytest.importorskip("keras_tuner", reason="the extra `tune` is not installed")
    runs = [
        dataclasses.replace(SHORT, hidden=hidden, learning_rate=rate) for hidden in (4, 9) for rate in (0.03, 0.001)
    ]
    plain, tuned = [], []
    small_run.train_all(runs, plain.extend, seed=1, looks=4, verbose=False)
    tuning.train_with_tuner(runs, tuned.extend, seed=1, looks=4, checkpoints=tmp_path, verbose=False)
    key = [f.name for f in dataclasses.fields(Settings)]
    assert sorted([[r[k] for k in key], r["min_kl"]] for r in tuned) == sorted(
        [[r[k] for k in key], r["min_kl"]] for r in plain
    )
    # The search is finished: asked again, it trains nothing.
    tuning.train_with_tuner(runs, tuned.extend, seed=1, looks=4, checkpoints=tmp_path, verbose=False)
    assert len(tuned) == 4
