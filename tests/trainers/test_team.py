"""KerasTuner's distributed mode: a chief and two workers, each a process, find what one process finds."""

import os
import sys

import pytest
from trainers.records import Records

from tests.kills import finish, start
from tests.ports import free_ports
from trainers import reproduce, team


def member(folder, name, port):
    variables = dict(zip(team.VARIABLES, (name, "127.0.0.1", str(port)), strict=True))
    command = [sys.executable, "-m", "tests.trainers.one_of_a_team", str(folder), "tuner"]
    return start(command, {**os.environ, **variables, "TF_NUM_INTRAOP_THREADS": "1"})


def comparable(folder):
    """Everything that was found, without times; trials come in any order."""
    found = {}
    for path in sorted(folder.rglob("small/*/*.jsonl")):
        records = [{**r, "seconds": None, "date": None, "curve": None} for r in Records(path).read()]
        found[str(path.relative_to(folder))] = sorted(map(repr, records))
    return found


@pytest.mark.slow
def test_a_chief_and_two_workers(tmp_path):
    pytest.importorskip("keras_tuner", reason="the extra `tune` is not installed")
    (port,) = free_ports(1)
    names = ("chief", "worker-a", "worker-b")
    processes = [member(tmp_path / "team", name, port) for name in names]
    alone = start([sys.executable, "-m", "tests.trainers.one_of_a_team", str(tmp_path / "alone")], dict(os.environ))
    finish(alone, 500)
    for process in processes:
        finish(process, 500)
    one, many = comparable(tmp_path / "alone"), comparable(tmp_path / "team")
    assert len(one) == 5  # two selections, and the seeds of three cells
    assert one == many


def test_what_a_team_is_told(monkeypatch, tmp_path):
    assert not team.in_a_team()
    monkeypatch.setenv("KERASTUNER_TUNER_ID", "chief")
    with pytest.raises(ValueError, match="no KERASTUNER_ORACLE_IP, KERASTUNER_ORACLE_PORT"):
        team.in_a_team()
    for name in team.VARIABLES[1:]:
        monkeypatch.setenv(name, "1")
    assert team.is_chief()
    with pytest.raises(ValueError, match="--stage=table with --tuner, and without --minutes"):
        reproduce.run(["table"], reproduce.Work(tmp_path))
    with team.turn(tmp_path / "piece") as ours:
        assert not ours
    monkeypatch.setenv("KERASTUNER_TUNER_ID", "worker")
    with team.turn(tmp_path / "piece") as ours, team.turn(tmp_path / "piece") as again:
        assert (ours, again) == (True, False)
