"""Publishing a model: the next version of a folder that a server watches."""

from __future__ import annotations

import errno
import os
import shutil
import tempfile
from pathlib import Path
from typing import Any

_ATTEMPTS = 1000


def publish(model: Any, base_path: str | Path, keep: int | None = None, **export_arguments: Any) -> Path:
    """Writes a model as the next version of ``base_path``, for a server to pick up.

    The SavedModel is written under a name that servers skip, and then renamed: a server sees all of it or nothing. Two
    publishers at once get two versions.

    Args:
        model: an `RBMLayer`, or anything with Keras' method `export(path)`.
        base_path: folder of the model, ``.../models/NAME``; made if it does not exist.
        keep: number of newest versions to keep; older ones are deleted. All are kept if not given.
        **export_arguments: passed on to `export`.

    Raises:
        OSError: if it cannot be written, on a full disk, say; the versions before are as they were.

    Returns:
        The path of the new version, ``base_path/NUMBER``.
    """
    if keep is not None and (isinstance(keep, bool) or int(keep) != keep or keep < 1):
        raise ValueError(f"`keep` must be None or an integer of at least 1. Received: keep={keep!r}")
    base = Path(base_path)
    base.mkdir(parents=True, exist_ok=True)
    try:
        # On the same file system as its place, so that renaming is one step.
        with tempfile.TemporaryDirectory(prefix=".publishing-", dir=base, ignore_cleanup_errors=True) as aside:
            model.export(Path(aside) / "model", **export_arguments)
            path = _rename_to_next(Path(aside) / "model", base)
    except OSError as error:
        before = versions_in(base)
        raise OSError(f"No new version in {base}; those before, {before}, are as they were. {error}") from error
    if keep is not None:
        for version in versions_in(base)[:-keep]:
            _remove(base / folder_of(base, version))
    return path


def versions_in(base_path: str | Path) -> list[int]:
    """Numbers of the versions in a model's folder, oldest first. Names that are not numbers are skipped."""
    try:
        names = os.listdir(base_path)
    except OSError:
        return []
    numbers = {int(name) for name in names if name.isascii() and name.isdigit()}
    return sorted(number for number in numbers if number < 2**63)


def folder_of(base_path: str | Path, version: int) -> str:
    """Name of a version's folder: it may have zeros in front."""
    name = str(version)
    if (Path(base_path) / name).is_dir():
        return name
    matching = [
        entry for entry in os.listdir(base_path) if entry.isascii() and entry.isdigit() and int(entry) == version
    ]
    return matching[0] if matching else name


def _rename_to_next(source: Path, base: Path) -> Path:
    number = (versions_in(base) or [0])[-1] + 1
    for candidate in range(number, number + _ATTEMPTS):
        target = base / str(candidate)
        try:
            # A folder is renamed onto another only if that one is empty; so whoever comes second gets an error.
            os.rename(source, target)
        except OSError as error:
            if error.errno not in (errno.EEXIST, errno.ENOTEMPTY, errno.ENOTDIR):
                raise
            continue
        return target
    raise RuntimeError(f"No free version number from {number} on in {base}")


def _remove(path: Path) -> None:
    """Deletes a version; its name goes first, so that no server loads half of it."""
    aside = path.with_name(f".removing-{path.name}-{os.getpid()}")
    try:
        os.rename(path, aside)
    except OSError:
        return  # another publisher was faster
    shutil.rmtree(aside, ignore_errors=True)
