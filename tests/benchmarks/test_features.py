"""The benchmark of features: what a search may spend, what is repeated, and what counts."""

import numpy as np
import pytest

from benchmarks import features
from trainers.store.records import Records

TASK = features.Task(
    lambda split: (np.zeros((30, 4)), np.arange(30) % 2, 20),
    splits=2,
    held_back=5,
    budgets=(10.0,),
    components=(3, 5),
    passes=(1, 2),
    initial_stddev=(0.1,),
    centered=True,
    log_c=(0.0, 1.0),
)


@pytest.fixture
def work(tmp_path, monkeypatch):
    """A search whose trials take three core-seconds each, and of which the second is the best."""
    calls = []

    def accuracy(method, settings, train, test):
        calls.append((method, settings, len(train[0]), len(test[0])))
        trials = sum(size == 15 for *_, size, _ in calls)
        return 0.9 if trials == 2 else 0.5, 3.5, 3.0

    monkeypatch.setattr(features, "accuracy", accuracy)
    monkeypatch.setitem(features.TASKS, "digits", TASK)
    return lambda method, split=0: features.Work(tmp_path / "features.jsonl", "digits", method, split), calls


def test_a_search_stays_in_its_time_and_its_best_setting_is_judged_on_test_images(work):
    make, calls = work
    make("RBMTransformer").judge(10.0)
    assert [list(call[2:]) for call in calls] == [[15, 5]] * 4 + [[20, 10]]  # the fourth trial went beyond
    (test,) = make("RBMTransformer").read("test")
    assert (test["trials"], test["validation"]) == (3, 0.9)
    assert calls[-1][1] == calls[1][1] == test["settings"]
    # Nothing is repeated, and another budget goes on where this one has stopped.
    make("RBMTransformer").judge(10.0)
    assert len(calls) == 5
    make("RBMTransformer").judge(13.0)
    assert [list(call[2:]) for call in calls[5:]] == [[15, 5]]
    tests = make("RBMTransformer").read("test")
    assert [(each["budget"], each["trials"]) for each in tests] == [(10.0, 3), (13.0, 4)]
    # Another split has a search of its own.
    make("RBMTransformer", 1).judge(10.0)
    assert len(calls) == 11
    first, second = (make("RBMTransformer", split).read("trial")[0]["settings"] for split in (0, 1))
    assert first != second


def test_both_draw_from_the_same_ranges():
    for number in range(20):
        shared, own = (draw("mnist", np.random.default_rng(number)) for draw in features.SEARCHES.values())
        assert shared | {"batch_size": 0} == {name: own[name] for name in shared} | {"batch_size": 0}
        assert own["batch_size"] in (10, 30)


def test_the_splits_test_every_image_once():
    parts = [features.digits(split) for split in range(features.TASKS["digits"].splits)]
    assert sum(len(x) - count for x, _, count in parts) == len(parts[0][0])
    tested = np.concatenate([x[count:] for x, _, count in parts])
    assert len(np.unique(tested, axis=0)) == len(np.unique(parts[0][0], axis=0))


def test_the_pipelines_run_and_the_table_names_what_there_is(tmp_path):
    x, y = np.tile(np.eye(4), (5, 1)), np.tile(np.arange(4), 5)
    for method, draw in features.SEARCHES.items():
        settings = draw("digits", np.random.default_rng(0)) | {"n_components": 5, "n_iter": 1}
        found, seconds, _ = features.accuracy(method, settings, (x, y), (x, y))
        assert 0 <= found <= 1
        assert seconds > 0
    records = Records(tmp_path / "features.jsonl")
    same = {"task": "mnist", "kind": "test", "method": "BernoulliRBM", "trials": 7, "budget": 60.0}
    ours = same | {"method": "RBMTransformer", "trials": 9}
    records.append({**same, "split": 0, "accuracy": 0.90}, {**ours, "split": 0, "accuracy": 0.94})
    records.append({**same, "split": 2, "accuracy": 0.92}, {**same, "split": 1, "accuracy": 0.5})
    (line,) = features.table(records.read()).splitlines()[2:]
    assert line == "| mnist | 60 | 90.00% (7 settings) | 94.00% (9 settings) | +4.00% | 1 |"
    records.append({**ours, "split": 2, "accuracy": 0.94})
    (line,) = features.table(records.read()).splitlines()[2:]
    assert line == "| mnist | 60 | 91.00% (7 settings) | 94.00% (9 settings) | +3.00% +- 1.00% | 2 |"
