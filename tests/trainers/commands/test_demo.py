"""The command line and its demonstration, run as a user runs them."""

import os
import subprocess
import sys

import keras
import numpy as np
import pytest
from matplotlib import image

import tf_wcd
from trainers import cli

ENVIRONMENT = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "2"}


def wcd(*arguments, cwd):
    return subprocess.run(
        [sys.executable, "-m", "trainers.cli", *arguments], capture_output=True, text=True, cwd=cwd, env=ENVIRONMENT
    )


def test_demo_in_a_short_form(tmp_path):
    result = wcd("demo", "--epochs=2", "--problem=BS09", "--verbose=2", f"--out={tmp_path}/out", cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    assert "Exact KL from the truth: CD_1" in result.stdout
    assert "Epoch 2/2" in result.stdout
    picture = image.imread(tmp_path / "out" / "BS09.png")
    assert picture.shape[0] > 400
    assert np.ptp(picture) > 0.5
    assert "samples over gRPC" in result.stdout
    assert image.imread(tmp_path / "out" / "samples.png").shape[0] > 100
    assert (tmp_path / "out" / "models" / "bcd" / "1" / "saved_model.pb").exists()
    for name in ("cd", "wcd", "bcd"):
        rbm = keras.models.load_model(tmp_path / "out" / f"{name}.keras")
        assert tf_wcd.negative_phases.name_of(rbm.negative_phase) == name


def test_help_and_unknown_commands(tmp_path, capsys):
    with pytest.raises(SystemExit) as stop:
        cli.main(["--help"])
    assert stop.value.code == 0
    assert "demo" in capsys.readouterr().out
    with pytest.raises(SystemExit) as stop:
        cli.main(["frobnicate"])
    assert stop.value.code == 2
    assert "frobnicate" in capsys.readouterr().err
    shown = wcd("demo", "--help", cwd=tmp_path)
    assert "--epochs" in shown.stdout + shown.stderr
    assert "--problem" in shown.stdout + shown.stderr
    wrong = wcd("demo", "--problem=BS10", "--verbose=0", cwd=tmp_path)
    assert wrong.returncode == 2
    assert "--problem=BS10" in wrong.stderr
    assert "BS09|BS16" in wrong.stderr
