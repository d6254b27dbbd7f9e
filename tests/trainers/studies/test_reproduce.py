"""The paper's experiments stage by stage: jobs, kills, and what is refused."""

import json
import os
import signal
import subprocess
import sys
import time
from typing import NamedTuple

import pytest

from trainers.settings.protocol import SHORT
from trainers.store.sharing import Searcher
from trainers.studies import reproduce
from trainers.studies.work import Work


def test_unknown_names_are_refused(tmp_path):
    with pytest.raises(ValueError, match=r"`--problems` must be among .* Received: BS25"):
        reproduce.run(["table"], Work(tmp_path, ("BS25",)))
    with pytest.raises(ValueError, match="`--stage` must be among"):
        reproduce.run(["tables"], Work(tmp_path))


def test_a_shared_search_takes_the_table_alone(tmp_path):
    with pytest.raises(ValueError, match="--stage=table with --tuner, and no --minutes"):
        reproduce.run(["table"], Work(tmp_path, searcher=Searcher("chief")))


class Finished(NamedTuple):
    """Stands for a process that has ended."""

    code: int

    def wait(self):
        return self.code

    def terminate(self):
        pass


def test_processes_that_fail_are_not_taken_for_work_left(tmp_path, capsys):
    work = Work(tmp_path, ("BS09", "BS16"), protocol=SHORT, minutes=5.0)
    codes = iter((reproduce.WORK_LEFT, 0, 0, 0, reproduce.WORK_LEFT, 1))
    commands = []

    def start(command):
        commands.append(command)
        return Finished(next(codes))

    assert reproduce.run(["best"], work, 2, start) == 2
    assert "2 pieces of work left" in capsys.readouterr().out
    assert {"--stage=best", "--problems=BS09,BS16", "--protocol=short", "--minutes=5.0"} <= set(commands[0])
    assert reproduce.run(["best"], work, 2, start) == 0
    with pytest.raises(RuntimeError, match=r"1 of 2 processes failed.*\[1\]"):
        reproduce.run(["best"], work, 2, start)


def test_jobs_take_a_protocol_that_has_a_name(tmp_path):
    mine = SHORT._replace(best=SHORT.best._replace(seed=1))
    with pytest.raises(ValueError, match="by its name: paper, short"):
        reproduce.run(["best"], Work(tmp_path, protocol=mine), jobs=2)


@pytest.mark.slow
def test_killed_reproduction_goes_on(tmp_path):
    """A real process, killed in the middle, and started again."""
    command = [sys.executable, "-m", "trainers.cli", "reproduce", "--stage=best", "--problems=BS09", "--jobs=1"]
    command += ["--protocol=short", "--checkpoint_epochs=1", f"--out={tmp_path}"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    folder = tmp_path / "small" / "checkpoints"
    deadline = time.monotonic() + 120
    while not list(folder.glob("*.npz")) and time.monotonic() < deadline:
        time.sleep(0.05)
    os.kill(process.pid, signal.SIGKILL)
    process.wait(10)
    assert list(folder.glob("*.npz")), "it was killed in the middle"
    assert not (tmp_path / "small" / "best").exists()
    assert subprocess.run(command, capture_output=True, timeout=300).returncode == 0
    records = [json.loads(line) for line in (tmp_path / "small" / "best" / "BS09.jsonl").read_text().splitlines()]
    assert len(records) == 6
    assert records[0]["looks"] == 60
