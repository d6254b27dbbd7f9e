"""Caltech-101 Silhouettes, 28 x 28, split 1: outlines of objects of 101 kinds, made by B. Marlin.

The object is 0 and the background 1, as in the published file. Labels are 0 to 100, in the order of its class names.
"""

from __future__ import annotations

from pathlib import Path

from tf_wcd import extras
from tf_wcd.datasets.download import check_md5, fetch
from tf_wcd.datasets.image_sets import Arrays, ImageSet

URL = "https://people.cs.umass.edu/~marlin/data/caltech101_silhouettes_28_split1.mat"
MD5 = "4483e9c14b188fd09937f9ea6f9ea777"
SIDE = 28


def _check(path: Path) -> None:
    with open(path, "rb") as file:
        check_md5(file, MD5)


def read_matlab(path: Path) -> Arrays:
    """The arrays of the published MATLAB file, with the images row by row and labels from 0."""
    extras.need("Reading a file of MATLAB", "scipy")
    from scipy.io import loadmat

    content = loadmat(path)
    arrays = {}
    for split, theirs in (("train", "train"), ("valid", "val"), ("test", "test")):
        # MATLAB stores images column by column, and counts from 1.
        pictures = content[f"{theirs}_data"].reshape(-1, SIDE, SIDE).transpose(0, 2, 1)
        arrays[f"x_{split}"] = pictures.reshape(-1, SIDE * SIDE).astype("uint8")
        arrays[f"y_{split}"] = (content[f"{theirs}_labels"].ravel().astype("int64") - 1).astype("uint8")
    return arrays


def _read() -> Arrays:
    path = fetch(URL, "caltech101_silhouettes_28_split1.mat", _check)
    return CALTECH101_SILHOUETTES.check(read_matlab(path), str(path))


CALTECH101_SILHOUETTES = ImageSet(
    name="caltech101_silhouettes",
    rows={"train": 4100, "valid": 2264, "test": 2307},
    pixels=SIDE * SIDE,
    white=1,
    sha256={
        "x_train": "4e667900732526e6c757b385151c31812ec071b1e833dcad1f10cbe9c12e9a96",
        "y_train": "fa5ae435b708c2bfabbfd2100fec539a6240b8a8d7e738b1d71793358101a4c4",
        "x_valid": "d31899cd9a8421bad5500bdfa166ea93b6490c6f67abbd09826603751801628d",
        "y_valid": "dc6130cee64335d1f1fa497a1e1f7b64b59e53313f6eee69b6f0fa537ab3c800",
        "x_test": "caf9bfb9732aced2ed6d7cfb7bf678eb933622574c87a3ce159a3c76dcb2b722",
        "y_test": "fe6248c7196dfa6447923a2b72a5d6e25c935df8e2bd062fad692588ec60f476",
    },
    read=_read,
)
