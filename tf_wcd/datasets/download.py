"""Files from the network, kept in Keras' cache.

A file appears in the cache under its name only when it is complete and its checksum is right: it is downloaded under
another name, checked, and then renamed atomically.
"""

from __future__ import annotations

import contextlib
import hashlib
import http.client
import os
import shutil
import tempfile
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tf_wcd.files import replaced_atomically

TIMEOUT_SECONDS = 60
OFFLINE_HINT = "Try again, or name a folder that has a copy of the data set with `data_dir=` or TF_WCD_DATA."


def cache_folder() -> Path:
    """The folder that Keras keeps its data sets in: ``datasets`` in KERAS_HOME, or in ``~/.keras``."""
    home = Path(os.environ.get("KERAS_HOME") or "~/.keras").expanduser()
    with contextlib.suppress(OSError):
        home.mkdir(parents=True, exist_ok=True)
    if not os.access(home, os.W_OK):
        home = Path(tempfile.gettempdir()) / ".keras"
    folder = home / "datasets"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def fetch(url: str, file_name: str, check: Callable[[Path], None]) -> Path:
    """The path of a file in the cache. The file is downloaded if it is not there yet.

    Args:
        url: where the file comes from.
        file_name: its name in the cache.
        check: raises a `ValueError` if the file at the given path is not as it should be. A file that is in the cache
            already is checked too; if it is broken, it is removed and downloaded again.

    Raises:
        OSError: if the download fails or is interrupted.
        ValueError: if the downloaded file is not as it should be. Nothing is left in the cache in either case.
    """
    target = cache_folder() / file_name
    if target.exists():
        try:
            check(target)
            return target
        except ValueError:
            target.unlink(missing_ok=True)
    with replaced_atomically(target) as part:
        try:
            _download(url, part)
        except (OSError, http.client.HTTPException) as error:
            raise OSError(f"Could not download {url}. {OFFLINE_HINT} Received: {error!r}") from error
        try:
            check(part)
        except ValueError as error:
            raise ValueError(
                f"{url} is not the file that it should be, and was not kept. {OFFLINE_HINT} {error}"
            ) from error
    return target


def _download(url: str, path: Path) -> None:
    request = urllib.request.Request(url, headers={"User-Agent": "tf_wcd"})
    with urllib.request.urlopen(request, timeout=TIMEOUT_SECONDS) as response, open(path, "xb") as file:
        shutil.copyfileobj(response, file)
        expected, found = response.headers.get("Content-Length"), file.tell()
    # If the connection is closed too early, reading ends as it does at the end of the file.
    if expected is not None and found != int(expected):
        raise OSError(f"the connection ended after {found} of {expected} bytes")


def check_md5(content: Any, expected: str) -> None:
    """Raises a `ValueError` if the md5 of the content of a binary stream is not the expected one."""
    found = hashlib.file_digest(content, lambda: hashlib.md5(usedforsecurity=False)).hexdigest()
    if found != expected:
        raise ValueError(f"Its md5 should be {expected}. Received: md5 {found}")
