"""A training that is killed and started again ends with the same bits as one that was not."""

import os
import random
import sys
import time

import numpy as np
import pytest

from tests.support import interrupted_run
from tests.support.interrupted_run import CASES, EPOCHS, FIRST_LAYER
from tests.support.kills import finish, kill_when, start


def run(folder, cases):
    return start([sys.executable, "-m", "tests.support.interrupted_run", str(folder), *cases], dict(os.environ))


def kill(folder, cases, moments):
    """Kills the run at each moment: in a case, after the logs of an epoch were written, and so many seconds more."""
    for case, epoch, delay in moments:
        begin = time.time()

        def reached(own=folder / case, epoch=epoch, begin=begin):
            logs = (own / f"epoch{number}.txt" for number in range(epoch, EPOCHS))
            return any(path.exists() and path.stat().st_mtime > begin for path in logs)

        kill_when(run(folder, cases), reached, delay)
        assert not (folder / case / "end.npz").exists(), "the kill came too late"
    finish(run(folder, cases))


def assert_same(whole, killed, case):
    one, two = np.load(whole / case / "end.npz"), np.load(killed / case / "end.npz")
    assert one.files == two.files
    assert any("momentum" in name for name in one.files)
    assert any("seed" in name for name in one.files)
    for name in one.files:
        np.testing.assert_array_equal(one[name], two[name], err_msg=f"{case}: {name}")
    for epoch in range(EPOCHS):
        name = f"epoch{epoch}.txt"
        assert (whole / case / name).read_text() == (killed / case / name).read_text(), f"{case}: {name}"


def check(tmp_path, cases, moments):
    interrupted_run.main(tmp_path / "whole", *cases)
    kill(tmp_path / "killed", cases, moments)
    for case in cases:
        assert_same(tmp_path / "whole", tmp_path / "killed", case)


@pytest.mark.parametrize(
    "moment",
    [("compiled", 5, 0.004), pytest.param(("stack", 9, 0.008), marks=pytest.mark.slow)],
    ids=lambda moment: moment[0],
)
def test_a_kill(tmp_path, moment):
    """In the middle of a compiled run, and in the middle of the second layer of a stack."""
    check(tmp_path, [moment[0]], [moment])


@pytest.mark.slow
def test_kills_at_random_moments(tmp_path):
    """14 of the 20 kills; `tests/trainers/commands/test_kills.py` has those of the commands."""
    generator = random.Random(4)
    spans = {"single": [(0, 3), (3, 6), (6, 9), (9, 12)], "compiled": [(0, 4), (4, 8), (8, 12)]}
    spans |= {"stream": [(0, 6), (6, 12)]}
    spans["stack"] = [(0, 2), (2, FIRST_LAYER - 1), (FIRST_LAYER - 1, FIRST_LAYER + 1), (8, 10), (10, 12)]
    moments = [(case, generator.randrange(*span), generator.random() * 0.04) for case in CASES for span in spans[case]]
    assert len(moments) == 14
    check(tmp_path, list(CASES), moments)
