"""Work shared by processes: claims, and the searchers of KerasTuner."""

import os
import signal
import subprocess
import sys
import time

import pytest

from trainers.store.sharing import VARIABLES, Piece, Searcher, claim, work_off

HOLDER = """
import sys, time
from trainers.store.sharing import claim
with claim(sys.argv[1]) as ours:
    print(ours, flush=True)
    time.sleep(60)
"""


def test_a_claim_is_exclusive_and_a_kill_releases_it(tmp_path):
    path = tmp_path / "work.lock"
    holder = subprocess.Popen([sys.executable, "-c", HOLDER, str(path)], stdout=subprocess.PIPE, text=True)
    assert holder.stdout.readline().strip() == "True"
    with claim(path) as ours:
        assert not ours
    os.kill(holder.pid, signal.SIGKILL)
    holder.wait(10)
    time.sleep(0.1)
    with claim(path) as ours:
        assert ours


def test_pieces_that_are_done_or_claimed_are_left_alone(tmp_path):
    done = {"finished"}
    pieces = [
        Piece(tmp_path / name, lambda name=name: name in done, lambda name=name: done.add(name))
        for name in ("finished", "claimed", "open")
    ]
    assert work_off(pieces, deadline=0.0) == 2, "nothing new is begun after the deadline"
    with claim(tmp_path / "claimed"):
        assert work_off(pieces) == 1
    assert done == {"finished", "open"}


def test_what_searchers_are_told(tmp_path):
    assert not Searcher.from_environment({}).shared
    with pytest.raises(ValueError, match="no KERASTUNER_ORACLE_IP, KERASTUNER_ORACLE_PORT"):
        Searcher.from_environment({"KERASTUNER_TUNER_ID": "chief"})
    chief, other = (
        Searcher.from_environment(dict(zip(VARIABLES, (name, "1", "1"), strict=True))) for name in ("chief", "other")
    )
    assert (chief.shared, chief.chief, other.shared, other.chief) == (True, True, True, False)
    with chief.turn(tmp_path / "piece") as ours:
        assert not ours
    with other.turn(tmp_path / "piece") as ours, other.turn(tmp_path / "piece") as again:
        assert (ours, again) == (True, False)
