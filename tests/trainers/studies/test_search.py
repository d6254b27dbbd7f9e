"""Selection with KerasTuner: in one process, and in its distributed mode, a chief and two others, each a process."""

import dataclasses
import os
import sys

import pytest

from tests.support.kills import finish, start
from tests.support.ports import free_ports
from trainers.runs.small_problems import Training, train_all
from trainers.settings.runs import SmallRun
from trainers.store.records import Records
from trainers.store.sharing import VARIABLES
from trainers.studies.reproduce import WORK_LEFT
from trainers.studies.search import train_with_tuner

pytest.importorskip("keras_tuner", reason="the extra `tune` is not installed")

SHORT = SmallRun("BS09", "wcd", 1, 9, 0.03, 0.1, "linear", 0.9, 400)


def test_tuner_trains_the_same_runs_as_the_plain_loop(tmp_path):
    runs = [
        dataclasses.replace(SHORT, hidden=hidden, learning_rate=rate) for hidden in (4, 9) for rate in (0.03, 0.001)
    ]
    plain, tuned = [], []
    train_all(runs, plain.extend, Training(1, 4, verbose=False))
    training = Training(1, 4, tmp_path, verbose=False)
    train_with_tuner(runs, tuned.extend, training)
    key = [f.name for f in dataclasses.fields(SmallRun)]
    assert sorted([[r[k] for k in key], r["min_kl"]] for r in tuned) == sorted(
        [[r[k] for k in key], r["min_kl"]] for r in plain
    )
    # The search is finished: asked again, it trains nothing.
    train_with_tuner(runs, tuned.extend, training)
    assert len(tuned) == 4


def reproduction(folder, environment, *flags):
    """Two columns of the table on one problem, by the short protocol."""
    command = [sys.executable, "-m", "trainers.cli", "reproduce", "--protocol=short", "--stage=table", "--jobs=1"]
    chosen = ["--problems=BS09", "--methods=CD_1,WCD_1", f"--out={folder}"]
    return start([*command, *chosen, *flags], {**os.environ, **environment})


def comparable(folder):
    """Everything that was found, without times; trials come in any order."""
    found = {}
    for path in sorted(folder.rglob("small/*/*.jsonl")):
        records = [{**r, "seconds": None, "date": None, "curve": None} for r in Records(path).read()]
        found[str(path.relative_to(folder))] = sorted(map(repr, records))
    return found


@pytest.mark.slow
def test_a_chief_and_two_others_find_what_one_process_finds(tmp_path):
    (port,) = free_ports(1)
    processes = [
        reproduction(
            tmp_path / "shared",
            {**dict(zip(VARIABLES, (name, "127.0.0.1", str(port)), strict=True)), "TF_NUM_INTRAOP_THREADS": "1"},
            "--tuner",
        )
        for name in ("chief", "tuner-a", "tuner-b")
    ]
    finish(reproduction(tmp_path / "alone", {}), 500)
    for process in processes:
        finish(process, 500, codes=(0, WORK_LEFT))  # the seeds of a cell may be left to another
    one, many = comparable(tmp_path / "alone"), comparable(tmp_path / "shared")
    assert len(one) == 5  # two selections, and the seeds of three cells
    assert one == many
