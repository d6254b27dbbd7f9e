"""Records survive kills and many writers."""

import json
import os
import signal
import subprocess
import sys
import time

from trainers.records import Records, claim


def test_a_line_cut_short_by_a_kill_is_left_out_and_spoils_nothing(tmp_path):
    records = Records(tmp_path / "runs.jsonl")
    records.append({"a": 1}, {"a": 2})
    with open(records.path, "a") as file:
        file.write('{"a": 3, "cur')
    assert records.read() == [{"a": 1}, {"a": 2}]
    records.append({"a": 4})
    assert records.read() == [{"a": 1}, {"a": 2}, {"a": 4}]


def test_no_file_means_no_records(tmp_path):
    assert Records(tmp_path / "none.jsonl").read() == []


WRITER = """
import sys
from trainers.records import Records
records = Records(sys.argv[1])
for i in range(50):
    records.append({"writer": sys.argv[2], "i": i, "long": "x" * 5000})
"""


def test_processes_that_write_at_once_lose_nothing(tmp_path):
    path = tmp_path / "runs.jsonl"
    writers = [subprocess.Popen([sys.executable, "-c", WRITER, str(path), str(n)]) for n in range(3)]
    assert [writer.wait(60) for writer in writers] == [0, 0, 0]
    read = Records(path).read()
    assert len(path.read_text().splitlines()) == len(read) == 150
    for n in range(3):
        assert [r["i"] for r in read if r["writer"] == str(n)] == list(range(50))


HOLDER = """
import sys, time
from trainers.records import claim
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


def test_records_are_lines_of_json(tmp_path):
    records = Records(tmp_path / "deep" / "runs.jsonl")
    records.append({"kl": None, "curve": [[0, 0.5]]})
    assert json.loads(records.path.read_text()) == {"kl": None, "curve": [[0, 0.5]]}
