"""``wcd train`` with several workers on this machine: each a process with its own TF_CONFIG."""

import json
import os
import sys

import keras
import numpy as np
import pytest

import tf_wcd
from tests.support.kills import finish, kill_when, start
from tests.support.mnist import ROOT, with_mnist
from tests.support.ports import free_ports

pytestmark = pytest.mark.slow


def workers(count, arguments, cwd, environment=None):
    """Starts a command on so many workers."""
    cwd.mkdir(exist_ok=True)
    addresses = [f"127.0.0.1:{port}" for port in free_ports(count)]
    processes = []
    for index in range(count):
        config = {"cluster": {"worker": addresses}, "task": {"type": "worker", "index": index}}
        own = {**(environment or os.environ), "PYTHONPATH": str(ROOT), "TF_CONFIG": json.dumps(config)}
        own["TF_NUM_INTRAOP_THREADS"] = "1"
        processes.append(start([sys.executable, "-m", "trainers.cli", *arguments, "--strategy=multiworker"], own, cwd))
    return processes


def one(arguments, cwd, environment=None):
    cwd.mkdir(exist_ok=True)
    environment = {**(environment or os.environ), "PYTHONPATH": str(ROOT)}
    return start([sys.executable, "-m", "trainers.cli", *arguments], environment, cwd)


def records(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


SMALL = ["train", "small", "--problem=BS16", "--hidden=32", "--updates=1500", "--seeds=4", "--out=runs",
         "--checkpoint_epochs=100"]  # fmt: skip


def test_two_processes_train_bs16_to_the_same_kl_as_one(tmp_path):
    """Random numbers differ, so that the means of four seeds are compared, within four standard errors."""
    for process in workers(2, SMALL, tmp_path / "two"):
        finish(process, 500)
    finish(one(SMALL, tmp_path / "one"))
    two, single = (
        np.array([r["final_kl"] for r in records(tmp_path / n / "runs" / "small.jsonl")]) for n in ("two", "one")
    )
    assert len(two) == len(single) == 4  # the chief alone writes
    error = np.sqrt(two.var(ddof=1) / 4 + single.var(ddof=1) / 4)
    print(f"KL of two workers {two.mean():.4f} (sd {two.std(ddof=1):.4f}), of one {single.mean():.4f} "
          f"(sd {single.std(ddof=1):.4f})")  # fmt: skip
    assert abs(two.mean() - single.mean()) < 4 * error
    assert two.mean() < 0.5 * tf_wcd_uniform_kl()
    states, probabilities = tf_wcd.datasets.load("BS16")
    (path,) = (tmp_path / "two" / "runs").glob("*-0.keras")
    kl = tf_wcd.evaluation.kl_divergence(keras.models.load_model(path), 2 * states - 1, probabilities)
    assert kl == pytest.approx(two[0], rel=1e-3)


def test_two_workers_killed_and_repeated(tmp_path):
    """Both workers are killed between checkpoints; repeated, the command ends with the same bits."""
    arguments = ["train", "small", "--problem=BS16", "--method=wpcd", "--hidden=32", "--updates=60", "--out=runs",
                 "--checkpoint_epochs=1"]  # fmt: skip
    for process in workers(2, arguments, tmp_path / "whole"):
        finish(process)
    killed = tmp_path / "killed"
    first, second = workers(2, arguments, killed)
    kill_when(first, lambda: any((killed / "runs" / "checkpoints").glob("*.0000[1-9]?.npz")), 0.5)
    second.kill()
    second.communicate()
    for process in workers(2, arguments, killed):
        finish(process)
    models = [keras.models.load_model(next((tmp_path / name / "runs").glob("*.keras"))) for name in ("whole", "killed")]
    for mine, theirs in zip(models[0].weights, models[1].weights, strict=True):
        np.testing.assert_array_equal(mine, theirs, err_msg=mine.path)


def tf_wcd_uniform_kl():
    return 16 * np.log(2) - np.log(30)


IMAGES = ["train", "images", "--data=ocr_letters", "--method=WPCD", "--minimum_ess=0.5", "--epochs=3", "--out=runs",
          "--checkpoint_epochs=1"]  # fmt: skip


@pytest.mark.xfail(reason="with two workers a resumed image run does not have the same bits; a small problem's has")
def test_images_with_two_workers_killed_and_repeated(tmp_path):
    """All workers are killed after the first checkpoint; repeated, the command goes on to the same model."""
    environment = with_mnist()
    for process in workers(2, IMAGES, tmp_path / "whole", environment):
        finish(process, 900)
    killed = tmp_path / "killed"
    first, second = workers(2, IMAGES, killed, environment)
    kill_when(first, lambda: any((killed / "runs" / "checkpoints").glob("*.000001.npz")), 0.5)
    second.kill()
    second.communicate()
    for process in workers(2, IMAGES, killed, environment):
        finish(process, 900)
    found = [records(tmp_path / name / "runs" / "images.jsonl") for name in ("whole", "killed")]
    assert [len(lines) for lines in found] == [1, 1]
    paths = [next((tmp_path / name / "runs").glob("*.keras")) for name in ("whole", "killed")]
    one, two = (keras.models.load_model(path) for path in paths)
    for mine, theirs in zip(one.weights, two.weights, strict=True):
        np.testing.assert_array_equal(mine, theirs, err_msg=mine.path)
    assert one.chain_variables["visible"].shape == (100, 128)
    low, high = found[0][0]["annealed"]["test"]
    assert np.isfinite([low, high]).all()
