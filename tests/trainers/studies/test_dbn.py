"""``wcd train dbn`` as a user runs it, in a short form; records and how a run goes on."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest
from matplotlib import image

from tests.support.mnist import ROOT, with_mnist
from trainers.settings.dbn import PARTS
from trainers.settings.runs import DBNRun
from trainers.store.records import Records
from trainers.studies.dbn import study
from trainers.studies.dbn.autoencoder import principal_components


def wcd(*arguments, environment, cwd):
    command = [sys.executable, "-m", "trainers.cli", *arguments]
    return subprocess.run(command, capture_output=True, text=True, cwd=cwd, env=environment)


def test_help_says_what_it_takes(tmp_path):
    shown = wcd("train", "dbn", "--help", environment={**os.environ, "PYTHONPATH": str(ROOT)}, cwd=tmp_path)
    assert shown.returncode == 0
    for text in ("wcd train dbn [flags]", "2 cores", "--parts", "--epochs", "--out"):
        assert text in shown.stdout
    wrong = wcd("train", "dbm", environment={**os.environ, "PYTHONPATH": str(ROOT)}, cwd=tmp_path)
    assert wrong.returncode == 2
    assert "unknown command" in wrong.stderr


@pytest.mark.slow
def test_all_parts_in_a_short_form(tmp_path):
    arguments = ["--train_size=300", "--epochs=1", "--tuning_epochs=1", "--seeds=1", "--width=0.04", "--out=out"]
    result = wcd("train", "dbn", *arguments, environment=with_mnist(), cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    assert "Layer 4/4" in result.stdout
    records = {record["part"]: record for record in Records(tmp_path / "out" / "dbn.jsonl").read()}
    stacks = {f"pretraining of {name}" for name in ("wcd_0", "autoencoder", "generation")}
    assert set(records) == set(PARTS) | stacks
    assert all(record["settings"]["train_size"] == 300 for record in records.values())
    assert 0 < records["classifier"]["test_error"] < 1
    assert [(r["tuning"], r["fraction"], r["start"]) for r in records["few_labels"]["runs"]] == [
        (tuning, fraction, start)
        for tuning in ("plain", "dropout")
        for fraction in (0.01, 0.1)
        for start in ("pre-trained", "random")
    ]
    # The PCA of 300 images leaves less than all of the variance, and more than nothing.
    assert 0.02 < records["autoencoder"]["test_error_of_pca"] < 0.08
    for name in ("unconditional", "by_class", "by_class_before_up_down", "autoencoder"):
        assert np.ptp(image.imread(tmp_path / "out" / f"{name}.png")) > 0.5
    lines = [json.loads(line) for line in (tmp_path / "out" / "generation.jsonl").read_text().splitlines()]
    assert [line["layer"] for line in lines if line["stage"] == "pretraining"] == [0, 1, 2, 2, 2, 2]
    assert not list((tmp_path / "out" / "checkpoints").iterdir())
    # Once more: there is nothing left to do. Other settings are not mixed with these.
    again = wcd("train", "dbn", *arguments, environment=with_mnist(), cwd=tmp_path)
    assert again.stdout.count("finished already") == 4
    other = wcd("train", "dbn", "--train_size=200", "--out=out", environment=with_mnist(), cwd=tmp_path)
    assert other.returncode == 1
    assert "other settings" in other.stderr


def test_principal_components_are_the_best_linear_code():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(400, 6)) @ rng.normal(size=(6, 6)) + 3
    centred = x - x.mean(0)
    values = np.linalg.svd(centred, compute_uv=False)
    error = np.square(principal_components(x, 2)(x) - x).sum()
    assert error == pytest.approx(np.square(values[2:]).sum())


def test_unknown_parts(tmp_path):
    with pytest.raises(ValueError, match=r"some of \['classifier'.*Received: \['sleep'\]"):
        study.run(tmp_path, ["sleep"], DBNRun())


def test_records_are_not_mixed_with_those_of_other_settings(tmp_path):
    finished = study.Finished(tmp_path)
    assert finished.find("classifier", {"epochs": 3}) is None
    finished.add("classifier", {"epochs": 3}, test_error=0.5)
    assert study.Finished(tmp_path).find("classifier", {"epochs": 3})["test_error"] == 0.5
    with pytest.raises(ValueError, match="other settings"):
        finished.find("classifier", {"epochs": 4})


def test_records_of_version_0_1_count(tmp_path):
    results = ROOT / "trainers" / "results" / "dbn"
    for part in PARTS:
        settings = json.loads((results / f"{part}.json").read_text())["settings"]
        assert DBNRun.from_record(settings).as_dict() == settings
        assert study.run(results, [part], DBNRun.from_record(settings))[part]["finished"]
    (tmp_path / "classifier.json").write_text(json.dumps({"settings": {}, "finished": False}))
    assert study.Finished(tmp_path).find("classifier", {}) is None


def test_to_begin_anew_removes_what_there_is_of_a_part_and_no_more(tmp_path):
    (tmp_path / "checkpoints").mkdir()
    ours = ["classifier.json", "classifier.jsonl", "classifier.keras", "checkpoints/classifier-0123.000001.npz",
            "wcd_0.keras", "checkpoints/.wcd_0-0123.000001.npz.45.part"]  # fmt: skip
    others = ["autoencoder.json", "checkpoints/up_down-0123.000001.npz", "generation.keras", "notes.txt"]
    for name in (*ours, *others):
        (tmp_path / name).touch()
    finished = study.Finished(tmp_path)
    for part in ("classifier", "pretraining of wcd_0", "generation"):
        finished.add(part, {})
    finished.forget("classifier")
    left = sorted(str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file())
    assert left == sorted([*others, "dbn.jsonl"])
    assert [record["part"] for record in finished.records.read()] == ["generation"]
