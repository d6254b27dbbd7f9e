"""Models and arrays on the disk, replaced atomically."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from tf_wcd.files import replaced_atomically


def save_model(save: Callable[[Path], Any], path: Path) -> None:
    """Saves a Keras model: at any moment the file is a whole one.

    Args:
        save: `model.save`.
        path: the file, as model.keras.

    Raises:
        OSError: if it cannot be written; what was there before is still there.
    """
    try:
        with replaced_atomically(path) as new:
            # Keras refuses other endings.
            named = new.with_name(f"{new.name}.keras")
            try:
                save(named)
                named.replace(new)
            finally:
                named.unlink(missing_ok=True)
    except OSError as error:
        raise OSError(f"{path} could not be written ({error}); what was there before is still there.") from error


def save_arrays(path: Path, **arrays: Any) -> None:
    """Saves arrays as a compressed ``.npz`` file, and makes its folder if need be."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with replaced_atomically(path) as new, open(new, "wb") as file:
        np.savez_compressed(file, **arrays)
