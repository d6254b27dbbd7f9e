"""Every example runs, in a short form, as a user would run it."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
COPIES = os.environ.get("TF_WCD_DATA") or ROOT.parent / "shared" / "data"
# The short form of each example, and what its output must say.
SHORT = {
    "fit_with_callbacks": (["--epochs=2"], r"Best model: KL \d"),
    "target_probabilities": (["--epochs=1"], r"n mod 3 = 0: target 0\.\d+, model 0\.\d+"),
    "inpainting": (["--images=1000", "--epochs=1"], r"Picture: inpainting\.png"),
    "gaussian_units": (["--epochs=5"], r"Exact mean log-density of the data: -\d"),
    "publish_serve_sample": (["--epochs=1"], r"Version 2: \d+% of 500 samples"),
    "own_negative_phase": (["--epochs=1"], r"data_and_noise: KL \d"),
    "two_workers": (["--updates=20"], r"Worker 1 of 2: KL \d"),
}
NEED_IMAGES = {"inpainting", "dbn_mnist"}
# Tested elsewhere.
ELSEWHERE = {"dbn_mnist"}


def test_every_example_has_a_short_form():
    assert {path.stem for path in (ROOT / "examples").glob("*.py")} == SHORT.keys() | ELSEWHERE


@pytest.mark.parametrize("name", SHORT)
def test_example(name, tmp_path):
    if name in NEED_IMAGES and not Path(COPIES, "mnist.npz").exists():
        pytest.skip("no local copy of MNIST")
    arguments, expected = SHORT[name]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "TF_WCD_DATA": str(COPIES), "TF_CPP_MIN_LOG_LEVEL": "3"}
    if name not in NEED_IMAGES:
        del environment["TF_WCD_DATA"]
    done = subprocess.run(
        [sys.executable, ROOT / "examples" / f"{name}.py", *arguments],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert re.search(expected, done.stdout), done.stdout


@pytest.mark.parametrize("path", sorted((ROOT / "examples").glob("*.py")), ids=lambda path: path.stem)
def test_examples_are_short(path):
    assert len(path.read_text().splitlines()) < 60
