"""Many machines at one search: KerasTuner's distributed mode, one chief and any number of workers.

They are told by KerasTuner's own environment variables: KERASTUNER_TUNER_ID ("chief", or a name of each worker's own),
KERASTUNER_ORACLE_IP and KERASTUNER_ORACLE_PORT. The chief hands out work and trains nothing. All see one folder of
records.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from trainers.records import Piece, claim

VARIABLES = ("KERASTUNER_TUNER_ID", "KERASTUNER_ORACLE_IP", "KERASTUNER_ORACLE_PORT")
SECONDS_WITHOUT_NEWS = 3600.0


def in_a_team() -> bool:
    """Whether this process is one of several that search together.

    Raises:
        ValueError: if some of KerasTuner's variables are set, and others not.
    """
    have = [name for name in VARIABLES if name in os.environ]
    if have and len(have) < len(VARIABLES):
        missing = [name for name in VARIABLES if name not in have]
        raise ValueError(f"A team needs all of {', '.join(VARIABLES)}. Received: no {', '.join(missing)}")
    return bool(have)


def is_chief() -> bool:
    return in_a_team() and "chief" in os.environ["KERASTUNER_TUNER_ID"]


@contextlib.contextmanager
def turn(path: Path) -> Iterator[bool]:
    """Whether this process is the one to do a piece of work: always if it is alone, and never the chief of a team.

    Args:
        path: a file that stands for the piece of work.
    """
    if not in_a_team():
        yield True
    elif is_chief():
        yield False
    else:
        with claim(path) as ours:
            yield ours


def work_together(pieces: Iterable[Piece]) -> int:
    """Goes through all pieces, each of which all processes of the team work on; returns how many are left."""
    pieces = list(pieces)
    for piece in pieces:
        if not piece.done():
            piece.work()
    return sum(not piece.done() for piece in pieces)


def wait_until(true: Callable[[], bool], what: str, news: Callable[[], int] = lambda: 0) -> None:
    """Waits for others of the team.

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
            raise RuntimeError(f"Nothing has been heard of {what} for an hour: are the others of the team still there?")
