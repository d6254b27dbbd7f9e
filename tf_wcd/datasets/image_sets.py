"""Description of a set of images: its size, its range, and the checksums of its arrays."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Callable

import numpy as np

Arrays = dict[str, np.ndarray]


@dataclasses.dataclass(frozen=True)
class ImageSet:
    """A published data set.

    Attributes:
        name: what users write in `tf_wcd.datasets.load`.
        rows: number of images in each split, ``"train"``, ``"valid"`` (if there is one) and ``"test"``.
        pixels: number of pixels of an image.
        white: the largest grey level: 255, or 1 for images of 0 and 1.
        sha256: checksum of the bytes of each array, ``"x_train"``, ``"y_train"`` and so on, uint8 in C order.
        read: fetches the arrays, from a cache or from where they are published.
    """

    name: str
    rows: dict[str, int]
    pixels: int
    white: int
    sha256: dict[str, str]
    read: Callable[[], Arrays]

    def check(self, arrays: Arrays, where: str) -> Arrays:
        """Checks the arrays of all splits, and returns them with the shapes ``[n, pixels]`` and ``[n]``.

        Raises:
            ValueError: if an array is missing, or differs from the published one in any bit.
        """
        checked = {}
        for name, expected in self.sha256.items():
            if name not in arrays:
                raise ValueError(f"{where} must hold the arrays {list(self.sha256)}. Received: {sorted(arrays)}")
            array = arrays[name]
            rows = self.rows[name.partition("_")[2]]
            shape = (rows, self.pixels) if name.startswith("x") else (rows,)
            if array.dtype != np.uint8 or array.size != np.prod(shape) or len(array) != rows:
                raise ValueError(
                    f"`{name}` of {self.name} must be uint8 of the shape {list(shape)} in {where}. "
                    f"Received: {array.dtype}, shape {list(array.shape)}"
                )
            array = np.ascontiguousarray(array.reshape(shape))
            found = hashlib.sha256(array.data).hexdigest()
            if found != expected:
                raise ValueError(
                    f"`{name}` in {where} is not that of {self.name}, whose sha256 is {expected}. "
                    f"Received: sha256 {found}"
                )
            checked[name] = array
        return checked
