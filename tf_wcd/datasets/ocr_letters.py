"""OCR letters, 16 x 8: handwritten lower-case letters collected by R. Kassel, cleaned and rasterised by B. Taskar.

Ink is 1 and paper 0. Labels 0 to 25 are a to z. The split into 32152, 10000 and 10000 is the one that papers on density
estimation use; since letters are shuffled one by one, letters of one word occur in more than one part.
"""

from __future__ import annotations

import gzip
import random
import zlib
from pathlib import Path

import numpy as np

from tf_wcd.datasets.download import check_md5, fetch
from tf_wcd.datasets.image_sets import Arrays, ImageSet

URL = "http://ai.stanford.edu/~btaskar/ocr/letter.data.gz"
UNPACKED_MD5 = "ca5467fb4e87183cec0f8fabbf770b82"
PIXELS = 128
SEED = 12345


def _check(path: Path) -> None:
    try:
        with gzip.open(path) as file:
            check_md5(file, UNPACKED_MD5)
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise ValueError(f"It should be a file packed by gzip. Received: {error!r}") from error


def parse_lines(lines: list[bytes]) -> tuple[np.ndarray, np.ndarray]:
    """Pixels, uint8 ``[n, 128]``, and labels, uint8 ``[n]``, of lines of ``letter.data``.

    The fields of a line are separated by tabs: its number, the letter, the number of the word's next letter, the number
    of the word, the position in it, a fold, and then the pixels row by row.
    """
    pixels, labels = [], []
    for number, line in enumerate(lines):
        fields = line.rstrip(b"\r\n").split(b"\t", 6)
        row = fields[-1][: 2 * PIXELS : 2]
        if len(fields) != 7 or len(row) != PIXELS or row.strip(b"01") or len(fields[1]) != 1:
            raise ValueError(f"Line {number} must have a letter and {PIXELS} pixels, 0 or 1. Received: {line[:60]!r}")
        pixels.append(row)
        labels.append(fields[1])
    x = np.frombuffer(b"".join(pixels), "uint8").reshape(-1, PIXELS) - ord("0")
    return x, np.frombuffer(b"".join(labels), "uint8") - ord("a")


def shuffled_as_published(count: int) -> np.ndarray:
    """Line numbers in the order of the published split.

    The order is that of Python 2's `random.shuffle`. It rounded down a random number in [0, i + 1); Python 3 draws an
    integer from random bits.

    Example:

    >>> shuffled_as_published(52152)[:8].tolist()
    [8110, 9346, 20302, 2071, 22904, 11212, 48009, 9209]
    """
    generator = random.Random(SEED)
    order = list(range(count))
    for i in range(count - 1, 0, -1):
        j = int(generator.random() * (i + 1))
        order[i], order[j] = order[j], order[i]
    return np.array(order)


def read_packed(path: Path) -> Arrays:
    """The arrays of the published file, split as published."""
    with gzip.open(path) as file:
        x, y = parse_lines(file.readlines())
    ends = np.cumsum(list(OCR_LETTERS.rows.values()))[:-1]
    arrays = {}
    for split, lines in zip(OCR_LETTERS.rows, np.split(shuffled_as_published(len(x)), ends), strict=True):
        arrays[f"x_{split}"], arrays[f"y_{split}"] = x[lines], y[lines]
    return arrays


def _read() -> Arrays:
    path = fetch(URL, "ocr_letters.data.gz", _check)
    return OCR_LETTERS.check(read_packed(path), str(path))


OCR_LETTERS = ImageSet(
    name="ocr_letters",
    rows={"train": 32152, "valid": 10000, "test": 10000},
    pixels=PIXELS,
    white=1,
    sha256={
        "x_train": "2ceb795f4645b9dc223baeb232851bb66e616717f971bf4017d5f4f066b27a59",
        "y_train": "8c6e264b5b515c68e4787eb2694129b33b65dc5b9497dae1094b1d4c7a710330",
        "x_valid": "6a479926457c272a4ef65656c0396aae52ac8e50cb40621ebd9989c76dad8435",
        "y_valid": "18a733ada6ff6a4eb5b5bdca94ee825f7ab929e83938ca8819ca3ec7d4e75ffe",
        "x_test": "d143c4f6d68c473586c449eca6aae9e514a4cea285281f1572e6248a2fef053f",
        "y_test": "a208dcbdfcc2cfb21a32e3d24751adaf6ef48cc4a1981e14002d947826ab963c",
    },
    read=_read,
)
