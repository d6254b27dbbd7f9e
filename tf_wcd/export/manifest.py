"""What files an export consists of, so that a server can tell a whole copy from a half one."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path, PurePosixPath
from typing import Any

MANIFEST = "assets.extra/tf_wcd_manifest.json"
# Users may put requests of their own in the place of these: the graph answers without them.
_NOT_LISTED = (MANIFEST, "assets.extra/tf_serving_warmup_requests")


def write_manifest(folder: str | Path) -> None:
    """Lists the files of a complete SavedModel in the SavedModel, with their sizes and checksums.

    Example:

    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> _ = (folder / "saved_model.pb").write_bytes(b"graph")
    >>> write_manifest(folder)
    >>> print(difference(folder))
    None
    >>> _ = (folder / "saved_model.pb").write_bytes(b"gra")
    >>> difference(folder)
    'saved_model.pb has 3 bytes, and not 5'
    """
    folder = Path(folder)
    files = {}
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        if path.is_file() and name not in _NOT_LISTED:
            files[name] = {"size": path.stat().st_size, "sha256": _checksum(path)}
    file = folder / MANIFEST
    file.parent.mkdir(exist_ok=True)
    file.write_text(json.dumps({"files": files}, indent=1) + "\n")


def difference(folder: str | Path) -> str | None:
    """How a folder differs from its manifest; ``None`` if it does not, or has no manifest."""
    folder = Path(folder)
    if not (folder / MANIFEST).exists():
        return None
    try:
        files: dict[str, dict[str, Any]] = json.loads((folder / MANIFEST).read_text())["files"]
        listed = [(name, int(entry["size"]), str(entry["sha256"])) for name, entry in files.items()]
    except (ValueError, KeyError, TypeError, AttributeError):
        return f"{MANIFEST} cannot be read"
    outside = [name for name, _, _ in listed if PurePosixPath(name).is_absolute() or ".." in PurePosixPath(name).parts]
    if outside:
        return f"{MANIFEST} has files of other folders"
    for name, size, checksum in listed:
        path = folder / name
        if not path.is_file():
            return f"{name} is missing"
        if path.stat().st_size != size:
            return f"{name} has {path.stat().st_size} bytes, and not {size}"
        if _checksum(path) != checksum:
            return f"{name} has another checksum"
    return None


def _checksum(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
