"""Limits on the requests that run and wait.

Requests beyond the limits are refused immediately, so that accepted ones are answered in time.
"""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import threading
import time
from collections.abc import Iterator

from serving.cancellation import Cancellation
from serving.errors import deadline_exceeded, exhausted

LONGEST = 1e9  # seconds: Python cannot wait for all numbers of them


@dataclasses.dataclass(frozen=True)
class Limits:
    """What one request, and all requests together, may ask for.

    Attributes:
        max_row_steps: rows times Gibbs steps of one request.
        max_row_steps_in_flight: rows times Gibbs steps of all requests at hand.
        max_bytes_in_flight: bytes of all requests at hand, of their tensors and of their answers.
        default_deadline_seconds: time for a request that says nothing of its own.
        max_deadline_seconds: the longest time that a request gets, whatever it says.
    """

    max_row_steps: int = 1_000_000
    max_row_steps_in_flight: int = 10_000_000
    max_bytes_in_flight: int = 2**30
    default_deadline_seconds: float = 600.0
    max_deadline_seconds: float = 600.0

    def __post_init__(self) -> None:
        for name, value in dataclasses.asdict(self).items():
            if not value > 0:
                raise ValueError(f"{name} must be above 0. Received: {value}")

    def deadline(self, asked: float | None) -> float:
        """The deadline of a request, by `time.monotonic`, from the one that it asks for."""
        now = time.monotonic()
        latest = now + min(self.max_deadline_seconds, LONGEST)
        return min(latest, now + self.default_deadline_seconds if asked is None else asked)


class ByteBudget:
    """A limit on the bytes that the requests at hand take together.

    Args:
        limit: bytes.

    Example:

    >>> budget = ByteBudget(100)
    >>> with budget.hold(60):
    ...     budget.held
    60
    """

    def __init__(self, limit: int) -> None:
        self.limit, self.held = limit, 0
        self._lock = threading.Lock()

    @contextlib.contextmanager
    def hold(self, size: int) -> Iterator[Reservation]:
        """Counts so many bytes for as long as the block lasts.

        Raises:
            ServingError: RESOURCE_EXHAUSTED if there is no room for them now.
        """
        reservation = Reservation(self)
        reservation.add(size)
        try:
            yield reservation
        finally:
            reservation.release()

    def take(self, size: int) -> None:
        """Counts so many bytes until they are given back."""
        with self._lock:
            if self.held + size > self.limit:
                raise exhausted(
                    f"The requests at hand take {self.held} bytes, and {size} more would be over the limit of "
                    f"{self.limit}"
                )
            self.held += size

    def give_back(self, size: int) -> None:
        with self._lock:
            self.held -= size


class WorkBudget:
    """A limit on the work that is accepted: it should be done before its deadline.

    A request may always come in if no other is at hand. Small ones, of a thousandth of the limit, do not count: it is
    their number that is limited.

    Args:
        limit: rows times steps.
    """

    def __init__(self, limit: int) -> None:
        self.limit, self.held = limit, 0
        self._lock = threading.Lock()

    @contextlib.contextmanager
    def hold(self, work: int) -> Iterator[None]:
        """Counts so much work for as long as the block lasts.

        Raises:
            ServingError: RESOURCE_EXHAUSTED if that is more than the server accepts now.
        """
        if 1000 * work <= self.limit:
            yield
            return
        with self._lock:
            if self.held and self.held + work > self.limit:
                raise exhausted(
                    f"The requests at hand have {self.held} rows times steps, and {work} more would be over the limit "
                    f"of {self.limit}"
                )
            self.held += work
        try:
            yield
        finally:
            with self._lock:
                self.held -= work


class Reservation:
    """Bytes of a budget that are given back once all who use them have released them.

    Args:
        budget: counts them.
        users: how many have to release them.
    """

    def __init__(self, budget: ByteBudget, users: int = 1) -> None:
        self._budget, self._users, self._size = budget, users, 0
        self._lock = threading.Lock()

    def add(self, size: int) -> None:
        """Counts so many bytes more.

        Raises:
            ServingError: RESOURCE_EXHAUSTED if there is no room for them now.
        """
        with self._lock:
            self._budget.take(size)
            self._size += size

    def release(self) -> None:
        """Called once by each user."""
        with self._lock:
            self._users -= 1
            if not self._users:
                self._budget.give_back(self._size)
                self._size = 0


class _Ticket:
    """A request's place in the queue; its own event wakes it alone."""

    def __init__(self) -> None:
        self.called = False  # it is its turn
        self.woken = threading.Event()  # it is its turn, or it has been cancelled


class Admission:
    """A limit on the requests that run at the same time, and on those that wait for their turn.

    Args:
        running: computations at the same time; each of them uses all cores.
        waiting: requests that may wait.
    """

    def __init__(self, running: int, waiting: int) -> None:
        self._free = running
        self._limit = running + waiting
        self._inside = 0
        self._queue: collections.deque[_Ticket] = collections.deque()
        self._lock = threading.Lock()

    @contextlib.contextmanager
    def slot(self, deadline: float | None, cancellation: Cancellation | None = None) -> Iterator[None]:
        """Waits until the request may run: first come, first served.

        Raises:
            ServingError: RESOURCE_EXHAUSTED if too many requests wait already, DEADLINE_EXCEEDED if the deadline passes
                before, CANCELLED if the request is cancelled before.
        """
        cancellation = cancellation or Cancellation()
        with self._lock:
            if self._inside >= self._limit:
                raise exhausted(f"The server has {self._limit} requests at hand already")
            self._inside += 1
        try:
            self._wait(deadline, cancellation)
            try:
                cancellation.check()
                yield
            finally:
                self._leave()
        finally:
            with self._lock:
                self._inside -= 1

    def _wait(self, deadline: float | None, cancellation: Cancellation) -> None:
        """Returns when it is the request's turn, which `_leave` ends."""
        with self._lock:
            if self._free:  # then nobody waits
                self._free -= 1
                return
            ticket = _Ticket()
            self._queue.append(ticket)
        try:
            with cancellation.calling(ticket.woken.set):
                ticket.woken.wait(None if deadline is None else max(0.0, deadline - time.monotonic()))
            if ticket.called:
                return
            cancellation.check()
            raise deadline_exceeded()
        except BaseException:
            self._give_up(ticket)
            raise

    def _give_up(self, ticket: _Ticket) -> None:
        """Takes a request out of the queue; if its turn has come meanwhile, the next one has it."""
        with self._lock:
            if not ticket.called:
                self._queue.remove(ticket)
                return
        self._leave()

    def _leave(self) -> None:
        """Gives the turn to the one that has waited longest."""
        with self._lock:
            if not self._queue:
                self._free += 1
                return
            ticket = self._queue.popleft()
            ticket.called = True
        ticket.woken.set()
