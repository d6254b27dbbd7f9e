"""``wcd train dbn`` as a user runs it, in a short form; records and how a run goes on."""

import json
import os
import pathlib
import subprocess
import sys

import keras
import numpy as np
import pytest
from matplotlib import image

from trainers import dbn, dbn_records

ROOT = pathlib.Path(__file__).resolve().parents[2]


def with_mnist() -> dict[str, str]:
    """The environment of a process that finds MNIST; skips the test where there is no copy."""
    folder = pathlib.Path(os.environ.get("TF_WCD_DATA") or ROOT.parent / "shared" / "data")
    if not (folder / "mnist.npz").is_file():
        pytest.skip(f"no copy of MNIST: {folder} has no mnist.npz (name a folder that has one with TF_WCD_DATA)")
    return {**os.environ, "TF_WCD_DATA": str(folder), "TF_CPP_MIN_LOG_LEVEL": "2", "PYTHONPATH": str(ROOT)}


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
    records = {part: json.loads((tmp_path / "out" / f"{part}.json").read_text()) for part in dbn.PARTS}
    assert all(record["finished"] and record["settings"]["train_size"] == 300 for record in records.values())
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
    error = np.square(dbn.principal_components(x, 2)(x) - x).sum()
    assert error == pytest.approx(np.square(values[2:]).sum())


def test_unknown_parts(tmp_path):
    with pytest.raises(ValueError, match=r"some of \['classifier'.*Received: \['sleep'\]"):
        dbn.run(tmp_path, ["sleep"], dbn.Settings())


def test_records(tmp_path):
    record = dbn_records.Record(tmp_path / "part.json", {"epochs": 3})
    record.update(runs=[1])
    again = dbn_records.Record(tmp_path / "part.json", {"epochs": 3})
    assert again.content["runs"] == [1]
    assert not again.finished
    again.finish()
    assert dbn_records.Record(tmp_path / "part.json", {"epochs": 3}).finished
    with pytest.raises(ValueError, match="other settings"):
        dbn_records.Record(tmp_path / "part.json", {"epochs": 4})
    lines = dbn_records.EpochLines(tmp_path / "lines.jsonl", "tuning")
    lines.on_epoch_begin(0)
    lines.on_epoch_end(0, {"loss": 1 / 3})
    assert json.loads((tmp_path / "lines.jsonl").read_text())["loss"] == 0.33333


def test_a_saved_model_is_always_whole(tmp_path):
    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
    save = dbn_records.SaveModel(tmp_path / "model.keras")
    save.set_model(model)
    save.on_epoch_end(0)
    first = (tmp_path / "model.keras").read_bytes()

    def interrupted(path):
        path.write_bytes(b"half")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        dbn_records.replace(tmp_path / "model.keras", interrupted)
    assert (tmp_path / "model.keras").read_bytes() == first
