"""Files and folders that appear under their names atomically: at any moment there is the old one or the new one, whole.

Everything is written beside its place, under a hidden name, and renamed when it is complete. If a process is killed, it
leaves what it was writing behind; the next write to the same folder after a day removes that.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import shutil
import time
import uuid
from collections.abc import Iterable, Iterator
from pathlib import Path

STALE_SECONDS = 24 * 60 * 60
_HIDDEN_NAME = re.compile(r"\..+\.[0-9a-f]{32}\.part|\.publishing-.+")  # the second: of versions before 0.2

# Files


@contextlib.contextmanager
def replaced_atomically(path: str | os.PathLike[str]) -> Iterator[Path]:
    """A path beside the given one to write to, which takes its place when the block ends without an error.

    The content reaches the disk before the name does. After an error nothing is left but what was there before.

    Args:
        path: the file to replace; it need not exist.

    Example:

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "answer.txt"
    >>> with replaced_atomically(path) as new:
    ...     _ = new.write_text("42")
    >>> path.read_text(), [file.name for file in path.parent.iterdir()]
    ('42', ['answer.txt'])
    """
    target = Path(path)
    new = _hidden(target)
    try:
        yield new
        _sync(new)
        os.replace(new, target)
    finally:
        new.unlink(missing_ok=True)


def write_atomically(path: str | os.PathLike[str], content: str | bytes) -> None:
    """Writes a whole file, atomically.

    Raises:
        OSError: if it cannot be written; what was there before is still there.
    """
    with replaced_atomically(path) as new:
        new.write_bytes(content.encode() if isinstance(content, str) else content)


# Folders


@contextlib.contextmanager
def new_folder(parent: str | os.PathLike[str]) -> Iterator[Path]:
    """A path in a folder at which to make a new folder, which `rename_to_first_free` then gives its name.

    If it has not been renamed when the block ends, it is removed.

    Args:
        parent: the folder that the new one is to be in.

    Example:

    >>> import tempfile
    >>> parent = Path(tempfile.mkdtemp())
    >>> (parent / "1").mkdir()
    >>> _ = (parent / "1" / "old.txt").write_text("1")
    >>> with new_folder(parent) as new:
    ...     new.mkdir()
    ...     _ = (new / "answer.txt").write_text("42")
    ...     rename_to_first_free(new, [parent / "1", parent / "2"]).name
    '2'
    >>> sorted(path.name for path in parent.iterdir())
    ['1', '2']
    """
    new = _hidden(Path(parent) / "new")
    try:
        yield new
    finally:
        shutil.rmtree(new, ignore_errors=True)


def rename_to_first_free(folder: Path, targets: Iterable[Path]) -> Path:
    """Renames a complete folder to the first name that is free, atomically. Its content reaches the disk before.

    Args:
        folder: the folder.
        targets: the names, on the same file system, in the order in which they are tried. Others may take them at the
            same time.

    Returns:
        The name that it got.

    Raises:
        FileExistsError: if none is free.
    """
    for path, _, names in os.walk(folder):
        for name in names:
            _sync(os.path.join(path, name))
        _sync(path)
    for target in targets:
        try:
            # A folder is renamed onto another one only if that is empty: the second of two gets an error.
            os.rename(folder, target)
        except OSError as error:
            if error.errno not in (errno.EEXIST, errno.ENOTEMPTY, errno.ENOTDIR):
                raise
            continue
        _sync(target.parent)
        return target
    raise FileExistsError(errno.EEXIST, "None of the names is free", str(folder))


def remove_folder(path: str | os.PathLike[str]) -> None:
    """Removes a folder. Its name goes first and atomically, so that nobody reads a part of it.

    A folder that is not there, or that another process removes, is left to that.

    Example:

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp())
    >>> for _ in range(2):
    ...     remove_folder(path)
    >>> path.exists()
    False
    """
    hidden = _hidden(Path(path))
    try:
        os.rename(path, hidden)
    except OSError:
        return
    shutil.rmtree(hidden, ignore_errors=True)


# Hidden names


def _hidden(target: Path) -> Path:
    """A hidden name beside the target that nobody else uses. Removes what killed processes have left there."""
    _remove_stale(target.parent)
    return target.with_name(f".{target.name}.{uuid.uuid4().hex}.part")


def _remove_stale(folder: Path) -> None:
    """Removes what was being written or removed in a folder, and was last changed more than a day ago."""
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            if not _HIDDEN_NAME.fullmatch(entry.name):
                continue
            with contextlib.suppress(OSError):  # another process may be doing the same
                if entry.stat(follow_symlinks=False).st_mtime > time.time() - STALE_SECONDS:
                    continue
                if entry.is_dir(follow_symlinks=False):
                    shutil.rmtree(entry.path, ignore_errors=True)
                else:
                    os.unlink(entry.path)


def _sync(path: str | os.PathLike[str]) -> None:
    """Waits until a file, or the list of a folder's names, is on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
