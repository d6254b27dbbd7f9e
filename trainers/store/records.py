"""Records of finished runs: one line of JSON each, appended and flushed to the disk as soon as the run is done."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

from tf_wcd.files import write_atomically


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
        with self._locked() as file:
            # A line cut short by a kill is ended, so that it cannot spoil the next one.
            size = file.seek(0, os.SEEK_END)
            if size:
                file.seek(size - 1)
                if file.read(1) != b"\n":
                    file.write(b"\n")
            file.write("".join(_line(record) for record in records).encode())
            file.flush()
            os.fsync(file.fileno())

    def remove(self, which: Callable[[dict[str, Any]], bool]) -> None:
        """Takes out all records of which this is true, atomically."""
        if not any(map(which, self.read())):
            return
        with self._locked():
            write_atomically(self.path, "".join(_line(record) for record in self.read() if not which(record)))

    @contextlib.contextmanager
    def _locked(self) -> Iterator[BinaryIO]:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        while True:
            with open(self.path, "a+b") as file:
                fcntl.flock(file, fcntl.LOCK_EX)
                # While we waited, another process may have put another file in its place.
                if self.path.exists() and os.path.samestat(os.fstat(file.fileno()), self.path.stat()):
                    yield file
                    return

    def read(self) -> list[dict[str, Any]]:
        """All whole records, in the order in which they came."""
        if not self.path.exists():
            return []
        records = []
        for line in self.path.read_text().splitlines():
            with contextlib.suppress(json.JSONDecodeError):
                records.append(json.loads(line))
        return records


def _line(record: dict[str, Any]) -> str:
    return json.dumps(record, separators=(",", ":")) + "\n"
