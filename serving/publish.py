"""Publishing a model: the next version of a folder that a server watches."""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

_ATTEMPTS = 1000
LAST_VERSION = "last_version"  # file beside the versions with the highest number ever given; servers skip the name


def publish(model: Any, base_path: str | Path, keep: int | None = None, **export_arguments: Any) -> Path:
    """Writes a model as the next version of ``base_path``, for a server to pick up.

    The SavedModel is written under a name that servers skip, and then renamed atomically: a server sees all of it or
    nothing. Two publishers at the same time get two versions, and no number is given twice, even if its version has
    been deleted meanwhile. The version has a manifest of its files, by which the server notices an incomplete copy.

    Args:
        model: an `RBMLayer`, or anything with Keras' method `export(path)`.
        base_path: folder of the model, ``.../models/NAME``; it is made if it does not exist.
        keep: how many of the newest versions to keep; older ones are deleted. If not given, all are kept.
        **export_arguments: passed on to `export`.

    Raises:
        OSError: if it cannot be written, for example to a full disk; the versions before are as they were.

    Returns:
        The path of the new version, ``base_path/NUMBER``.
    """
    if keep is not None and (isinstance(keep, bool) or int(keep) != keep or keep < 1):
        raise ValueError(f"`keep` must be None or an integer of at least 1. Received: keep={keep!r}")
    # Here, because they load TensorFlow, and `wcd serve --help` should not wait for that.
    from tf_wcd import files
    from tf_wcd.export import manifest

    base = Path(base_path)
    base.mkdir(parents=True, exist_ok=True)
    try:
        with files.new_folder(base) as new:
            model.export(new, **export_arguments)
            if not (new / manifest.MANIFEST).exists():
                manifest.write_manifest(new)
            with _alone_in(base):
                first = max(_last_version(base), *versions_in(base), 0) + 1
                # Before the version is there: if this fails, on a full disk, nothing has been published.
                files.write_atomically(base / LAST_VERSION, f"{first}\n")
                path = files.rename_to_first_free(new, (base / str(first + n) for n in range(_ATTEMPTS)))
                if path.name != str(first):  # a program that knows no lock was faster
                    with contextlib.suppress(OSError):
                        files.write_atomically(base / LAST_VERSION, f"{path.name}\n")
    except OSError as error:
        before = versions_in(base)
        raise OSError(f"No new version in {base}; those before, {before}, are as they were. {error}") from error
    if keep is not None:
        for version in versions_in(base)[:-keep]:
            files.remove_folder(base / folder_of(base, version))
    return path


@contextlib.contextmanager
def _alone_in(base: Path) -> Iterator[None]:
    """One publisher at a time gives a number in a folder, where the file system has locks."""
    folder = os.open(base, os.O_RDONLY)
    try:
        with contextlib.suppress(OSError):
            fcntl.flock(folder, fcntl.LOCK_EX)
        yield
    finally:
        os.close(folder)


def _last_version(base: Path) -> int:
    """The highest number that has ever been given, as far as is known."""
    try:
        text = (base / LAST_VERSION).read_text().strip()
    except (OSError, UnicodeDecodeError):
        return 0
    return int(text) if text.isascii() and text.isdigit() and len(text) < 20 else 0


def versions_in(base_path: str | Path) -> list[int]:
    """Numbers of the versions in a model's folder, oldest first. Names that are not numbers are skipped."""
    try:
        names = os.listdir(base_path)
    except OSError:
        return []
    numbers = {int(name) for name in names if name.isascii() and name.isdigit()}
    return sorted(number for number in numbers if number < 2**63)


def folder_of(base_path: str | Path, version: int) -> str:
    """Name of a version's folder, which may have leading zeros."""
    name = str(version)
    if (Path(base_path) / name).is_dir():
        return name
    matching = [
        entry for entry in os.listdir(base_path) if entry.isascii() and entry.isdigit() and int(entry) == version
    ]
    return matching[0] if matching else name
