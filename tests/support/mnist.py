"""Where processes that tests start find this repository and MNIST."""

import os
import pathlib

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]


def with_mnist() -> dict[str, str]:
    """The environment of a process that finds MNIST; skips the test where there is no copy."""
    folder = pathlib.Path(os.environ.get("TF_WCD_DATA") or ROOT.parent / "shared" / "data")
    if not (folder / "mnist.npz").is_file():
        pytest.skip(f"no copy of MNIST: {folder} has no mnist.npz (name a folder that has one with TF_WCD_DATA)")
    return {**os.environ, "TF_WCD_DATA": str(folder), "TF_CPP_MIN_LOG_LEVEL": "2", "PYTHONPATH": str(ROOT)}
