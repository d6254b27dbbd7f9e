"""Local copies of the data sets, one ``.npz`` file for each."""

from __future__ import annotations

import os
import zipfile
import zlib
from pathlib import Path

import numpy as np

from tf_wcd.datasets.image_sets import Arrays, ImageSet

VARIABLE = "TF_WCD_DATA"


def folder_of_copies(data_dir: str | os.PathLike[str] | None) -> Path | None:
    """The folder named by the argument or else by the environment variable; ``None`` if neither names one."""
    named = data_dir or os.environ.get(VARIABLE)
    return Path(named).expanduser() if named else None


def read_copy(images: ImageSet, folder: Path) -> Arrays:
    """The arrays of ``<name>.npz``: ``x_train``, ``y_train``, ``x_test``, ``y_test``, and ``x_valid``, ``y_valid``.

    Raises:
        FileNotFoundError: if there is no such file.
        ValueError: if the file is broken or does not hold the published arrays.
    """
    path = folder / f"{images.name}.npz"
    if not path.is_file():
        raise FileNotFoundError(
            f"There is no {path.name} in the folder named by `data_dir=` or {VARIABLE}. Received: {str(folder)!r}"
        )
    try:
        with np.load(path, allow_pickle=False) as archive:
            arrays = {name: archive[name] for name in archive.files}
    except (zipfile.BadZipFile, zlib.error, EOFError, ValueError, AttributeError, TypeError) as error:
        raise ValueError(f"{path} is broken: it is not a NumPy archive. Received: {error!r}") from error
    return images.check(arrays, str(path))
