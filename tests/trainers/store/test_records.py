"""Records survive kills and many writers."""

import json
import subprocess
import sys

from trainers.store.epochs import EpochRecords
from trainers.store.records import Records


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
from trainers.store.records import Records
records = Records(sys.argv[1])
for i in range(50):
    records.append({"writer": sys.argv[2], "i": i, "long": "x" * 5000})
"""


def test_processes_that_write_at_once_lose_nothing(tmp_path):
    path = tmp_path / "runs.jsonl"
    writers = [subprocess.Popen([sys.executable, "-c", WRITER, str(path), str(n)]) for n in range(2)]
    assert [writer.wait(60) for writer in writers] == [0, 0]
    read = Records(path).read()
    assert len(path.read_text().splitlines()) == len(read) == 100
    for n in range(2):
        assert [r["i"] for r in read if r["writer"] == str(n)] == list(range(50))


def test_records_are_lines_of_json(tmp_path):
    records = Records(tmp_path / "deep" / "runs.jsonl")
    records.append({"kl": None, "curve": [[0, 0.5]]})
    assert json.loads(records.path.read_text()) == {"kl": None, "curve": [[0, 0.5]]}


def test_what_is_removed_is_gone_and_the_rest_stays(tmp_path):
    records = Records(tmp_path / "runs.jsonl")
    records.append({"a": 1}, {"a": 2}, {"a": 3})
    records.remove(lambda record: record["a"] == 2)
    assert records.read() == [{"a": 1}, {"a": 3}]
    assert [path.name for path in tmp_path.iterdir()] == ["runs.jsonl"]


def test_an_epoch_that_is_trained_again_takes_the_place_of_what_was_written(tmp_path):
    records = Records(tmp_path / "epochs.jsonl")
    records.append({"stage": "pretraining", "epoch": 1})
    for first_epoch in (0, 1):
        epochs = EpochRecords(records, "tuning")
        for epoch in range(first_epoch, 3):
            epochs.on_epoch_begin(epoch)
            epochs.on_epoch_end(epoch, {"loss": 1 / 3 + first_epoch})
    found = records.read()
    assert [(r["stage"], r["epoch"]) for r in found] == [
        ("pretraining", 1),
        ("tuning", 1),
        ("tuning", 2),
        ("tuning", 3),
    ]
    assert [r["loss"] for r in found[1:]] == [0.33333, 1.3333, 1.3333]
