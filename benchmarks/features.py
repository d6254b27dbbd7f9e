"""Features for a classifier: RBMTransformer against BernoulliRBM, each before logistic regression, at equal time.

``python -m benchmarks.features`` does what is not done yet; it may be stopped and started again at any time. Both draw
settings at random from the same ranges (for the differences see `own_settings`), and are judged on validation images
until their time is used up: the search counts, and so does compiling. The setting that was best by then is trained anew
on all training images, and judged on test images, which nothing else has seen. All of it is done on several splits,
each with a search of its own.

Time is that of the processor, which work beside it hardly changes, and each method has one thread: two processes, with
``--methods`` of one each, may run side by side.
"""

from __future__ import annotations

import argparse
import datetime
import time
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks.threads import one_thread
from trainers.store.records import Records

RESULTS = Path(__file__).parent / "results"
SEED = 3
UNITS = (100, 200, 400, 800)


class Task(NamedTuple):
    """Images with their labels, and the time that each method gets.

    Attributes:
        load: gives images and labels of a split by its number, training ones first, and the number of training ones.
        splits: how many there are.
        held_back: how many of the training images are validation images of the search.
        budgets: core-seconds of search after which the best setting is judged.
        components: numbers of hidden units that are tried.
        passes: numbers of passes over the data that are tried.
        initial_stddev: standard deviations of the initial weights that are tried.
        centered: whether RBMTransformer takes the centred gradient. It helps on digits and does harm on MNIST, as
            10,000 images say that are in no split.
        log_c: range of the decimal logarithm of C, the inverse penalty of logistic regression.
    """

    load: Callable[[int], tuple[np.ndarray, np.ndarray, int]]
    splits: int
    held_back: int
    budgets: tuple[float, ...]
    components: tuple[int, ...]
    passes: tuple[int, ...]
    initial_stddev: tuple[float, ...]
    centered: bool
    log_c: tuple[float, float]


def digits(split: int) -> tuple[np.ndarray, np.ndarray, int]:
    """scikit-learn's 1797 digits of 8 x 8 pixels; another fifth of them is the test in each split."""
    from sklearn.datasets import load_digits

    x, y = load_digits(return_X_y=True)
    folds = np.array_split(np.random.default_rng(SEED).permutation(len(x)), 5)
    test = folds.pop(split)
    order = np.concatenate([*folds, test])
    return (x[order] / 16).astype("float32"), y[order], len(x) - len(test)


def mnist(split: int) -> tuple[np.ndarray, np.ndarray, int]:
    """Another 10,000 training images of MNIST in each split, and all test images."""
    import tf_wcd

    (x, y), (x_test, y_test) = tf_wcd.datasets.load("mnist")
    first = 10_000 * (0, 1, 2, 3, 5)[split]
    rows = slice(first, first + 10_000)
    return np.concatenate([x[rows], x_test]), np.concatenate([y[rows], y_test]), 10_000


TASKS = {
    "digits": Task(digits, 5, 300, (20.0,), UNITS, (5, 10, 20, 40), (0.1, 0.3, 1.0), True, (0.0, 2.5)),
    "mnist": Task(mnist, 5, 2000, (60.0,), UNITS, (2, 5, 10), (0.01,), False, (-1.0, 1.5)),
}


def shared_settings(task: str, rng: np.random.Generator) -> dict[str, Any]:
    """What both estimators have: drawn from ranges in which good settings of either lie."""
    return {
        "n_components": int(rng.choice(TASKS[task].components)),
        "learning_rate": float(np.round(10 ** rng.uniform(-2, -0.5), 4)),
        "batch_size": int(rng.choice([10, 30, 100])),
        "n_iter": int(rng.choice(TASKS[task].passes)),
        "C": float(np.round(10 ** rng.uniform(*TASKS[task].log_c), 3)),
    }


def own_settings(task: str, rng: np.random.Generator) -> dict[str, Any]:
    """Those of RBMTransformer: the same ones and the initial weights, which BernoulliRBM does not let one choose.

    The rest is fixed, and batches are of two sizes alone: each other combination is a program to compile.
    """
    own = shared_settings(task, rng) | {"batch_size": int(rng.choice([10, 30]))}
    stddev = float(rng.choice(TASKS[task].initial_stddev))
    return own | {"initial_stddev": stddev, "negative_phase": "cd", "centered": TASKS[task].centered}


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

    def __init__(self, path: Path, task: str, method: str, split: int = 0) -> None:
        self.records, self.task, self.method, self.split = Records(path), task, method, split
        x, y, count = TASKS[task].load(split)
        self.train, self.test = (x[:count], y[:count]), (x[count:], y[count:])

    def read(self, kind: str) -> list[dict[str, Any]]:
        """Records of this task and method: of the kind ``"trial"`` or ``"test"``."""
        wanted = {"task": self.task, "method": self.method, "split": self.split, "kind": kind}
        return [each for each in self.records.read() if wanted.items() <= each.items()]

    def trials(self, budget: float) -> list[dict[str, Any]]:
        """The search, as far as it comes in so many core-seconds: the trial that goes beyond them does not count."""
        held_back = TASKS[self.task].held_back
        done, spent = self.read("trial"), 0.0
        for number in range(10_000):
            if number == len(done):
                settings = SEARCHES[self.method](self.task, np.random.default_rng([SEED, self.split, number]))
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
            "split": self.split,
            "kind": kind,
            **more,
            "settings": settings,
            **dict(zip(("accuracy", "seconds", "cpu_seconds"), found, strict=True)),
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
    """Test accuracies by time of search, as Markdown: means over the splits that both have, and of the differences."""
    lines = [
        "| images | core-seconds of search | " + " | ".join(SEARCHES) + " | difference | splits |",
        "|---" * (4 + len(SEARCHES)) + "|",
    ]
    tests = {(each["task"], each["budget"], each["method"], each["split"]): each
             for each in records if each["kind"] == "test"}  # fmt: skip
    for task in TASKS:
        for budget in sorted({key[1] for key in tests if key[0] == task}):
            splits = [
                n for n in range(TASKS[task].splits) if all((task, budget, name, n) in tests for name in SEARCHES)
            ]
            if not splits:
                continue
            cells, accuracies = [], []
            for method in SEARCHES:
                own = [tests[task, budget, method, n] for n in splits]
                accuracies.append(np.array([each["accuracy"] for each in own]))
                trials = np.mean([each["trials"] for each in own])
                cells.append(f"{accuracies[-1].mean():.2%} ({trials:.0f} settings)")
            gain = accuracies[1] - accuracies[0]
            error = f" +- {gain.std(ddof=1) / np.sqrt(len(gain)):.2%}" if len(gain) > 1 else ""
            lines.append(f"| {task} | {budget:g} | {' | '.join(cells)} | {gain.mean():+.2%}{error} | {len(splits)} |")
    return "\n".join(lines)


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", nargs="+", choices=TASKS, default=list(TASKS), help="which images; all")
    parser.add_argument("--methods", nargs="+", choices=SEARCHES, default=list(SEARCHES), help="of whom; both")
    parser.add_argument("--budgets", nargs="+", type=float, help="core-seconds of search; those of the task")
    parser.add_argument("--splits", nargs="+", type=int, help="numbers of splits; all of the task")
    parser.add_argument("--records", type=Path, default=RESULTS / "features.jsonl", help="the file of records")
    parser.add_argument("--report", action="store_true", help="only the table of what there is")
    arguments = parser.parse_args()
    if not arguments.report:
        one_thread()
        for task in arguments.tasks:
            for split in arguments.splits or range(TASKS[task].splits):
                for method in arguments.methods:
                    work = Work(arguments.records, task, method, split)
                    for budget in arguments.budgets or TASKS[task].budgets:
                        work.judge(budget)
    print(table(Records(arguments.records).read()))


if __name__ == "__main__":
    main()
