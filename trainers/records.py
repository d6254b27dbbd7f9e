"""Records of finished runs: one line of JSON each, appended and flushed to the disk as soon as the run is done."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple


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
            # A line cut short by a kill gets an end of its own, so that it cannot spoil the next one.
            size = file.seek(0, os.SEEK_END)
            if size:
                file.seek(size - 1)
                if file.read(1) != b"\n":
                    file.write(b"\n")
            file.write("".join(_line(record) for record in records).encode())
            file.flush()
            os.fsync(file.fileno())

    def remove(self, which: Callable[[dict[str, Any]], bool]) -> None:
        """Takes out all records of which this is true, at once or, if the process is killed, none."""
        if not any(map(which, self.read())):
            return
        with self._locked():
            aside = self.path.with_name(f"new_{self.path.name}")
            aside.write_text("".join(_line(record) for record in self.read() if not which(record)))
            aside.replace(self.path)

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


class Piece(NamedTuple):
    """A piece of work: a file to claim it by, whether it is done, and what does it."""

    lock: Path
    done: Callable[[], bool]
    work: Callable[[], Any]


def work_off(pieces: Iterable[Piece], deadline: float) -> int:
    """Does all pieces that are neither done nor claimed by another process.

    Args:
        pieces: in their order. Those with the same lock are not worked on at once.
        deadline: time (as of `time.time`) after which none is begun.

    Returns:
        The number of pieces that are still to do, here or elsewhere.
    """
    left = 0
    for piece in pieces:
        if piece.done():
            continue
        left += 1
        if time.time() > deadline:
            continue
        with claim(piece.lock) as ours:
            if ours:
                # Another process may have finished it since we looked.
                if not piece.done():
                    piece.work()
                left -= 1
    return left


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
