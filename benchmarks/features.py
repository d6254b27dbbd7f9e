"""Features for a classifier: RBMTransformer against BernoulliRBM, each before logistic regression, at equal time.

``python -m benchmarks.features`` does what is not done yet; it may be stopped and started again at any time. Both draw
settings at random, from the same ranges (ours has the negative phase and the momentum beside), and are judged on
validation images until their time is used up: the search counts, and so does compiling. The setting that was best by
then is trained anew on all training images, and judged on test images. Time is that of the processor, over all cores.
"""

from __future__ import annotations

import argparse
import datetime
import os
import time
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from trainers.store.records import Records

RESULTS = Path(__file__).parent / "results"
SEED = 3


class Task(NamedTuple):
    """Images with their labels, and the time that each method gets.

    Attributes:
        load: gives images and labels, training ones first, and the number of training ones.
        held_back: how many of these are validation images of the search.
        budgets: core-seconds of search after which the best setting is judged.
    """

    load: Callable[[], tuple[np.ndarray, np.ndarray, int]]
    held_back: int
    budgets: tuple[float, ...]


def digits() -> tuple[np.ndarray, np.ndarray, int]:
    """scikit-learn's 1797 digits of 8 x 8 pixels, a third of them for the test."""
    from sklearn.datasets import load_digits

    x, y = load_digits(return_X_y=True)
    order = np.random.default_rng(SEED).permutation(len(x))
    return (x[order] / 16).astype("float32"), y[order], 1198


def mnist() -> tuple[np.ndarray, np.ndarray, int]:
    """The first 10,000 training images of MNIST, and all test images."""
    import tf_wcd

    (x, y), (x_test, y_test) = tf_wcd.datasets.load("mnist")
    return np.concatenate([x[:10_000], x_test]), np.concatenate([y[:10_000], y_test]), 10_000


TASKS = {
    "digits": Task(digits, 300, (30.0, 60.0, 120.0)),
    "mnist": Task(mnist, 2000, (100.0, 200.0, 400.0, 800.0)),
}


def shared_settings(rng: np.random.Generator) -> dict[str, Any]:
    """What both estimators have: drawn from ranges in which good settings of either lie."""
    return {
        "n_components": int(rng.choice([100, 200, 400])),
        "learning_rate": float(np.round(10 ** rng.uniform(-2, -0.5), 4)),
        "batch_size": int(rng.choice([10, 30, 100])),
        "n_iter": int(rng.choice([10, 20, 40])),
        "C": float(np.round(10 ** rng.uniform(0.5, 2.5), 2)),
    }


def own_settings(rng: np.random.Generator) -> dict[str, Any]:
    """Those of RBMTransformer, beside the same ones."""
    shared = shared_settings(rng)
    return shared | {
        "negative_phase": str(rng.choice(["cd", "pcd"])),
        "momentum": float(rng.choice([0.0, 0.5])),
        "centered": True,
    }


def pipeline(method: str, settings: Mapping[str, Any]) -> Any:
    """The estimator of a method with these settings, before logistic regression."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.neural_network import BernoulliRBM
    from sklearn.pipeline import make_pipeline

    from tf_wcd.sklearn import RBMTransformer

    options = {name: value for name, value in settings.items() if name != "C"}
    kind = {"RBMTransformer": RBMTransformer, "BernoulliRBM": BernoulliRBM}[method]
    return make_pipeline(kind(random_state=SEED, **options), LogisticRegression(C=settings["C"], max_iter=200))


SEARCHES = {"BernoulliRBM": shared_settings, "RBMTransformer": own_settings}


def accuracy(
    method: str, settings: Mapping[str, Any], train: tuple[Any, Any], test: tuple[Any, Any]
) -> tuple[float, float, float]:
    """Accuracy on the test part, and the seconds of a clock and of the processor that training took."""
    clock, processor = time.perf_counter(), time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # logistic regression that has not converged is judged as it is
        model = pipeline(method, settings).fit(*train)
    seconds, cpu = time.perf_counter() - clock, time.process_time() - processor
    return float(model.score(*test)), round(seconds, 2), round(cpu, 2)


class Work:
    """What is done is in a file, one record on a line; the rest is drawn and done in the order of its number."""

    def __init__(self, path: Path, task: str, method: str) -> None:
        self.records, self.task, self.method = Records(path), task, method
        x, y, count = TASKS[task].load()
        self.train, self.test = (x[:count], y[:count]), (x[count:], y[count:])

    def read(self, kind: str) -> list[dict[str, Any]]:
        """Records of this task and method: of the kind ``"trial"`` or ``"test"``."""
        wanted = {"task": self.task, "method": self.method, "kind": kind}
        return [each for each in self.records.read() if wanted.items() <= each.items()]

    def trials(self, budget: float) -> list[dict[str, Any]]:
        """The search, as far as it comes in so many core-seconds: the trial that goes beyond them does not count."""
        held_back = TASKS[self.task].held_back
        done, spent = self.read("trial"), 0.0
        for number in range(10_000):
            if number == len(done):
                settings = SEARCHES[self.method](np.random.default_rng([SEED, number]))
                parts = [(part[:-held_back], part[-held_back:]) for part in self.train]
                (x, x_valid), (y, y_valid) = parts
                found = accuracy(self.method, settings, (x, y), (x_valid, y_valid))
                done.append(self.keep("trial", settings, found, number=number))
            spent += done[number]["cpu_seconds"]
            if spent > budget:
                return done[:number]
        return done

    def keep(self, kind: str, settings: Any, found: tuple[float, float, float], **more: Any) -> dict[str, Any]:
        """Writes a record, and returns it."""
        record = {
            "task": self.task,
            "method": self.method,
            "kind": kind,
            **more,
            "settings": settings,
            **dict(zip(("accuracy", "seconds", "cpu_seconds"), found, strict=True)),
            "cores": os.cpu_count(),
            "date": datetime.date.today().isoformat(),
        }
        self.records.append(record)
        print(record, flush=True)
        return record

    def judge(self, budget: float) -> None:
        """The test accuracy of the best setting that so much time has found."""
        trials = self.trials(budget)
        if not trials or any(each["budget"] == budget for each in self.read("test")):
            return
        best = max(trials, key=lambda each: each["accuracy"])
        same = [each for each in self.read("test") if each["settings"] == best["settings"]]
        found = accuracy(self.method, best["settings"], self.train, self.test) if not same else None
        if found is None:
            found = same[0]["accuracy"], same[0]["seconds"], same[0]["cpu_seconds"]
        self.keep("test", best["settings"], found, budget=budget, trials=len(trials), validation=best["accuracy"])


def table(records: list[dict[str, Any]]) -> str:
    """Test accuracies by time of search, as Markdown."""
    lines = ["| images | core-seconds of search | " + " | ".join(SEARCHES) + " |", "|---" * (2 + len(SEARCHES)) + "|"]
    tests = [each for each in records if each["kind"] == "test"]
    for task in TASKS:
        for budget in sorted({each["budget"] for each in tests if each["task"] == task}):
            cells = []
            for method in SEARCHES:
                same = {"task": task, "method": method, "budget": budget}
                own = [each for each in tests if same.items() <= each.items()]
                cells.append(f"{own[-1]['accuracy']:.2%} ({own[-1]['trials']} settings)" if own else "-")
            lines.append(f"| {task} | {budget:g} | {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", nargs="+", choices=TASKS, default=list(TASKS), help="which images; all")
    parser.add_argument("--budgets", nargs="+", type=float, help="core-seconds of search; those of the task")
    parser.add_argument("--records", type=Path, default=RESULTS / "features.jsonl", help="the file of records")
    parser.add_argument("--report", action="store_true", help="only the table of what there is")
    arguments = parser.parse_args()
    if not arguments.report:
        for task in arguments.tasks:
            for method in SEARCHES:
                work = Work(arguments.records, task, method)
                for budget in arguments.budgets or TASKS[task].budgets:
                    work.judge(budget)
    print(table(Records(arguments.records).read()))


if __name__ == "__main__":
    main()
