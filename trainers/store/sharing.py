"""How processes share work: by claims on its pieces, or as searchers, the processes of one KerasTuner search.

Searchers are told by KerasTuner's own environment variables: KERASTUNER_TUNER_ID ("chief", or the name of each
searcher), KERASTUNER_ORACLE_IP and KERASTUNER_ORACLE_PORT. The chief hands out trials and trains nothing. All see one
folder of records.
"""

from __future__ import annotations

import contextlib
import fcntl
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

VARIABLES = ("KERASTUNER_TUNER_ID", "KERASTUNER_ORACLE_IP", "KERASTUNER_ORACLE_PORT")
SECONDS_WITHOUT_NEWS = 3600.0


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


class Piece(NamedTuple):
    """A piece of work: a file to claim it by, whether it is done, and what does it."""

    lock: Path
    done: Callable[[], bool]
    work: Callable[[], Any]


def work_off(pieces: Iterable[Piece], deadline: float = float("inf")) -> int:
    """Does all pieces that are neither done nor claimed by another process.

    Args:
        pieces: in their order. Those with the same lock are not worked on at the same time.
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
                # Another process may have finished it in the meantime.
                if not piece.done():
                    piece.work()
                left -= 1
    return left


class Searcher(NamedTuple):
    """This process in a search: alone, or one of several.

    Attributes:
        name: KerasTuner's name for it; empty if it is alone.

    Example:

    >>> Searcher().shared, Searcher("chief").chief
    (False, True)
    """

    name: str = ""

    @property
    def shared(self) -> bool:
        """Whether there are several."""
        return bool(self.name)

    @property
    def chief(self) -> bool:
        """Whether this is the one that hands out trials."""
        return "chief" in self.name

    @classmethod
    def from_environment(cls, environment: Mapping[str, str]) -> Searcher:
        """What KerasTuner's variables say.

        Raises:
            ValueError: if some of them are set, and others not.
        """
        missing = [name for name in VARIABLES if name not in environment]
        if missing and len(missing) < len(VARIABLES):
            raise ValueError(f"A shared search needs all of {', '.join(VARIABLES)}. Received: no {', '.join(missing)}")
        return cls(environment.get(VARIABLES[0], ""))

    @contextlib.contextmanager
    def turn(self, path: Path) -> Iterator[bool]:
        """Whether this process is the one to do a piece of work: always if it is alone, and never the chief.

        Args:
            path: a file that stands for the piece of work.
        """
        if not self.shared:
            yield True
        elif self.chief:
            yield False
        else:
            with claim(path) as ours:
                yield ours


def work_together(pieces: Iterable[Piece]) -> int:
    """Goes through all pieces, each of which all searchers work on; returns how many are left."""
    pieces = list(pieces)
    for piece in pieces:
        if not piece.done():
            piece.work()
    return sum(not piece.done() for piece in pieces)


def wait_until(true: Callable[[], bool], what: str, news: Callable[[], int] = lambda: 0) -> None:
    """Waits for other searchers.

    Args:
        true: what is waited for.
        what: its name, for the error.
        news: a number that changes when others have done something.

    Raises:
        RuntimeError: after an hour without news.
    """
    last, since = news(), time.monotonic()
    while not true():
        time.sleep(0.5)
        now = news()
        if now != last:
            last, since = now, time.monotonic()
        if time.monotonic() - since > SECONDS_WITHOUT_NEWS:
            raise RuntimeError(f"Nothing has been heard of {what} for an hour: are the other searchers still there?")
