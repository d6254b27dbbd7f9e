"""Files that are replaced atomically: at any moment there is the old one or the new one, whole."""

from __future__ import annotations

import contextlib
import os
import uuid
from collections.abc import Iterator
from pathlib import Path


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
    new = target.with_name(f".{target.name}.{uuid.uuid4().hex}.part")
    try:
        yield new
        with open(new, "rb") as file:
            os.fsync(file.fileno())
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
