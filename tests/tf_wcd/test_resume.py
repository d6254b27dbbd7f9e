"""A training that is killed and started again ends with the same bits as one that was not."""

import os
import random
import subprocess
import sys
import time

import numpy as np
import pytest


def start(folder, epochs):
    command = [sys.executable, "-m", "tests.tf_wcd.interrupted_run", str(folder), str(epochs)]
    return subprocess.Popen(command, env=dict(os.environ), stderr=subprocess.DEVNULL)


def kill_somewhere(folder, epochs, kills, generator):
    """Kills the run so many times, each time after a random number of further epochs and a random moment more."""
    killed = 0
    while not (folder / "end.npz").exists():
        process = start(folder, epochs)
        done = len(list(folder.glob("epoch*.txt")))
        goal = min(epochs, done + generator.randint(0, max(1, 2 * epochs // (3 * kills))))
        while process.poll() is None and killed < kills:
            if len(list(folder.glob("epoch*.txt"))) >= goal and (folder / "epoch0.txt").exists():
                time.sleep(generator.random() * 0.02)
                process.kill()
                killed += 1
                break
            time.sleep(0.001)
        assert process.wait() in (0, -9)
    return killed


def check(tmp_path, epochs, kills):
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    killed.mkdir()
    reference = start(whole, epochs)
    assert kill_somewhere(killed, epochs, kills, random.Random(4)) == kills
    assert reference.wait() == 0
    one, two = np.load(whole / "end.npz"), np.load(killed / "end.npz")
    assert one.files == two.files
    for name in one.files:
        np.testing.assert_array_equal(one[name], two[name], err_msg=name)
    for epoch in range(epochs):
        assert (whole / f"epoch{epoch}.txt").read_text() == (killed / f"epoch{epoch}.txt").read_text()


@pytest.mark.slow
def test_three_kills(tmp_path):
    check(tmp_path, 90, 3)


@pytest.mark.slow
def test_twenty_kills(tmp_path):
    check(tmp_path, 600, 20)
