"""Records of finished runs: one line of JSON each, appended and flushed to the disk as soon as the run is done."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any


class Records:
    """A file of records that any number of processes may append to, and that a kill at any moment leaves readable.

    Args:
        path: the file; it and its folder are made when the first record comes.

    Example:

    >>> import tempfile
    >>> records = Records(Path(tempfile.mkdtemp()) / "runs.jsonl")
    >>> records.append({"seed": 0, "kl": 0.25})
    >>> records.read()
    [{'seed': 0, 'kl': 0.25}]
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)

    def append(self, *records: dict[str, Any]) -> None:
        """Adds records: all of them or, if the process is killed, possibly some, but never half of one."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with open(self.path, "a+b") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            # A line cut short by a kill gets an end of its own, so that it cannot spoil the next one.
            size = file.seek(0, os.SEEK_END)
            if size:
                file.seek(size - 1)
                if file.read(1) != b"\n":
                    file.write(b"\n")
            file.write("".join(json.dumps(record, separators=(",", ":")) + "\n" for record in records).encode())
            file.flush()
            os.fsync(file.fileno())

    def read(self) -> list[dict[str, Any]]:
        """All whole records, in the order in which they came."""
        if not self.path.exists():
            return []
        records = []
        for line in self.path.read_text().splitlines():
            with contextlib.suppress(json.JSONDecodeError):
                records.append(json.loads(line))
        return records


@contextlib.contextmanager
def claim(path: str | Path) -> Iterator[bool]:
    """Claims a piece of work among processes: yields whether it is ours. A kill releases it.

    Args:
        path: a file that stands for the piece of work.
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
            return
        yield True
