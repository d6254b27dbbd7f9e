"""``wcd train`` killed with -9 and repeated: models, records and lines of epochs are those of a run that was not."""

import json
import os
import random
import sys

import keras
import numpy as np
import pytest

from tests.support.kills import finish, kill_when, start
from tests.support.mnist import ROOT, with_mnist

pytestmark = pytest.mark.slow

SMALL = ["train", "small", "--problem=BS09", "--method=wpcd", "--hidden=9", "--updates=4000", "--seeds=2",
         "--checkpoint_epochs=3", "--out=runs"]  # fmt: skip
STACK = ["train", "dbn", "--parts=classifier", "--train_size=300", "--epochs=8", "--tuning_epochs=8", "--width=0.04",
         "--out=out"]  # fmt: skip
NOT_COMPARED = {"seconds": None, "pretraining_seconds": None, "date": None}


def wcd(arguments, environment, cwd):
    cwd.mkdir(exist_ok=True)
    return start([sys.executable, "-m", "trainers.cli", *arguments], environment, cwd)


def lines(path):
    """Records of a file, without times; none if it is not there yet. A line may be half written."""
    return path.read_text().splitlines() if path.exists() else []


def assert_same_records(one, two):
    first, second = ([json.loads(line) | NOT_COMPARED for line in lines(path)] for path in (one, two))
    assert first
    assert first == second


def finished(folder):
    return [json.loads(line)["part"] for line in lines(folder / "dbn.jsonl")]


def assert_same_models(one, two):
    first, second = (everything(keras.models.load_model(path)) for path in (one, two))
    assert len(first) > 2
    for mine, theirs in zip(first, second, strict=True):
        np.testing.assert_array_equal(mine, theirs, err_msg=mine.path)


def everything(model):
    """Weights (chains are among them), optimizers' variables, and the counters of random numbers that are saved.

    (Those of Keras' own layers, dropout, are not part of its files.)
    """
    ours = [layer for layer in (model, *getattr(model, "rbms", ())) if hasattr(layer, "seed_generator")]
    optimizers = [layer.optimizer for layer in (model, *ours) if getattr(layer, "optimizer", None) is not None]
    return [
        *model.weights,
        *(layer.seed_generator.state for layer in ours),
        *(variable for optimizer in optimizers for variable in optimizer.variables),
    ]


def test_train_small(tmp_path):
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    generator = random.Random(1)
    reference = wcd(SMALL, environment, tmp_path / "whole")
    killed = tmp_path / "killed"

    def epochs_saved():
        saved = (killed / "runs" / "checkpoints").glob("*.npz")
        return max((int(path.name.split(".")[1]) for path in saved), default=0)

    for goal in (20, 80, 150):
        process = wcd(SMALL, environment, killed)
        kill_when(process, lambda goal=goal: epochs_saved() >= goal, generator.random() * 0.1)
        assert not (killed / "runs" / "small.jsonl").exists(), "the kill came too late"
    for process in (wcd(SMALL, environment, killed), reference):
        finish(process)
    assert_same_records(tmp_path / "whole" / "runs" / "small.jsonl", killed / "runs" / "small.jsonl")
    models = sorted(path.name for path in (killed / "runs").glob("*.keras"))
    assert len(models) == 2
    for name in models:
        assert_same_models(tmp_path / "whole" / "runs" / name, killed / "runs" / name)
    assert not list((killed / "runs" / "checkpoints").iterdir())
    # It is finished: once more changes nothing, but to begin anew does it all again.
    finish(wcd(SMALL, environment, killed))
    assert_same_records(tmp_path / "whole" / "runs" / "small.jsonl", killed / "runs" / "small.jsonl")
    before = (killed / "runs" / models[0]).stat().st_mtime_ns
    finish(wcd([*SMALL, "--noresume"], environment, killed))
    assert (killed / "runs" / models[0]).stat().st_mtime_ns > before
    assert_same_records(tmp_path / "whole" / "runs" / "small.jsonl", killed / "runs" / "small.jsonl")


def test_train_dbn(tmp_path):
    """In the middle of both layers of pre-training, and of back-propagation with dropout."""
    environment = with_mnist()
    generator = random.Random(2)
    reference = wcd(STACK, environment, tmp_path / "whole")
    whole, killed = tmp_path / "whole" / "out", tmp_path / "killed" / "out"
    for name, goal in (("wcd_0.jsonl", 3), ("wcd_0.jsonl", 12), ("classifier.jsonl", 4)):
        process = wcd(STACK, environment, tmp_path / "killed")
        kill_when(process, lambda path=killed / name, goal=goal: len(lines(path)) >= goal, generator.random() * 0.05)
        assert "classifier" not in finished(killed), "the kill came too late"
    for process in (wcd(STACK, environment, tmp_path / "killed"), reference):
        finish(process)
    for name in ("wcd_0.jsonl", "classifier.jsonl"):
        assert_same_records(whole / name, killed / name)
    assert_same_records(whole / "dbn.jsonl", killed / "dbn.jsonl")
    assert finished(whole) == ["pretraining of wcd_0", "classifier"]
    for name in ("wcd_0.keras", "classifier.keras"):
        assert_same_models(whole / name, killed / name)
    assert not list((killed / "checkpoints").iterdir())
