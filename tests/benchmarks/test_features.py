"""The benchmark of features: what a search may spend, what is repeated, and what counts."""

import numpy as np
import pytest

from benchmarks import features
from trainers.store.records import Records

TASK = features.Task(lambda: (np.zeros((30, 4)), np.arange(30) % 2, 20), held_back=5, budgets=(10.0,))


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
    return lambda method: features.Work(tmp_path / "features.jsonl", "digits", method), calls


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


def test_both_draw_from_the_same_ranges():
    for number in range(20):
        shared, own = (draw(np.random.default_rng(number)) for draw in features.SEARCHES.values())
        assert shared.items() <= own.items()


def test_the_pipelines_run_and_the_table_names_what_there_is(tmp_path):
    x, y = np.tile(np.eye(4), (5, 1)), np.tile(np.arange(4), 5)
    for method, draw in features.SEARCHES.items():
        settings = draw(np.random.default_rng(0)) | {"n_components": 5, "n_iter": 1}
        found, seconds, _ = features.accuracy(method, settings, (x, y), (x, y))
        assert 0 <= found <= 1
        assert seconds > 0
    records = Records(tmp_path / "features.jsonl")
    same = {"task": "mnist", "kind": "test", "method": "BernoulliRBM", "trials": 7}
    records.append({**same, "budget": 60.0, "accuracy": 0.9}, {**same, "kind": "trial"})
    assert features.table(records.read()).splitlines()[2:] == ["| mnist | 60 | 90.00% (7 settings) | - |"]
