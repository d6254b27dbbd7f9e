"""Dynamic batching: the rows of requests that wait at the same time run as one batch.

Requests with the same model, signature, outputs and row shapes are concatenated along the first axis, as many as wait
when a thread becomes free. A row's answer does not depend on the other rows: batching changes only how long it takes.
"""

from __future__ import annotations

import collections
import dataclasses
import os
import threading
import time
from collections.abc import Hashable, Mapping, Sequence

import grpc
import numpy as np

from serving.errors import ServingError, deadline_exceeded, invalid
from serving.servable import Servable


@dataclasses.dataclass(frozen=True)
class BatchingParameters:
    """Settings, by their names in a ``--batching_parameters_file``.

    A batch has at most ``max_batch_size`` rows, and so has a request. With ``enable_large_batch_splitting`` a request
    may have more rows than a batch: it is split, and a batch has at most ``max_execution_batch_size`` rows.
    """

    max_batch_size: int = 1000
    batch_timeout_micros: int = 0
    max_enqueued_batches: int = 10
    num_batch_threads: int = dataclasses.field(default_factory=lambda: os.cpu_count() or 1)
    allowed_batch_sizes: tuple[int, ...] = ()
    enable_large_batch_splitting: bool = False
    max_execution_batch_size: int = 0  # 0 for max_batch_size

    def __post_init__(self) -> None:
        for name in ("max_batch_size", "max_enqueued_batches", "num_batch_threads"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1. Received: {getattr(self, name)}")
        if self.batch_timeout_micros < 0:
            raise ValueError(f"batch_timeout_micros must not be negative. Received: {self.batch_timeout_micros}")
        if not 0 <= self.max_execution_batch_size <= self.max_batch_size:
            raise ValueError(
                f"max_execution_batch_size must be from 1 to max_batch_size, {self.max_batch_size}. "
                f"Received: {self.max_execution_batch_size}"
            )
        sizes = self.allowed_batch_sizes
        if sizes and (list(sizes) != sorted(set(sizes)) or sizes[-1] != self.batch_rows or sizes[0] < 1):
            raise ValueError(
                "allowed_batch_sizes must increase and end with the size of the largest batch. "
                f"Received: {list(sizes)} for batches of up to {self.batch_rows} rows"
            )

    @property
    def batch_rows(self) -> int:
        """The largest number of rows of a batch."""
        return (self.enable_large_batch_splitting and self.max_execution_batch_size) or self.max_batch_size

    def padded(self, rows: int) -> int:
        """The number of rows after padding to the next allowed size."""
        return next((size for size in self.allowed_batch_sizes if size >= rows), rows)


class Task:
    """One request in a batch, and later its answer."""

    def __init__(
        self, servable: Servable, feeds: Mapping[str, np.ndarray], fetches: Sequence[str], deadline: float | None
    ):
        self.servable, self.feeds, self.fetches, self.deadline = servable, feeds, fetches, deadline
        self.rows = next(iter(feeds.values())).shape[0]
        self.enqueued = time.monotonic()
        self.done = threading.Event()
        self.result: list[np.ndarray] | None = None
        self.error: Exception | None = None

    def parts(self, rows: int) -> list[Task]:
        """The task, split into tasks of at most so many rows."""
        if self.rows <= rows:
            return [self]
        return [
            Task(self.servable, {k: v[i : i + rows] for k, v in self.feeds.items()}, self.fetches, self.deadline)
            for i in range(0, self.rows, rows)
        ]

    def finish(self, result: list[np.ndarray] | None = None, error: Exception | None = None) -> None:
        """Ends a queued task with a result or an error, and releases the model. Called once."""
        self.result, self.error = result, error
        self.done.set()
        self.servable.release()

    def take_error(self) -> tuple[grpc.StatusCode, str]:
        """Code and text of the error. The task drops the error and its inputs, which take memory."""
        error, self.error, self.feeds = self.error, None, {}
        if isinstance(error, ServingError):
            return error.code, error.message
        return grpc.StatusCode.INTERNAL, repr(error)

    def expired(self) -> bool:
        return self.deadline is not None and time.monotonic() >= self.deadline


class Batcher:
    """Threads that run batches."""

    def __init__(self, parameters: BatchingParameters) -> None:
        self.parameters = parameters
        self._queues: collections.OrderedDict[Hashable, collections.deque[Task]] = collections.OrderedDict()
        self._changed = threading.Condition()
        self._stopping = False
        self._threads = [
            threading.Thread(target=self._work, name=f"batch-{i}", daemon=True)
            for i in range(parameters.num_batch_threads)
        ]
        for thread in self._threads:
            thread.start()

    def run(
        self, servable: Servable, feeds: Mapping[str, np.ndarray], fetches: Sequence[str], deadline: float | None
    ) -> list[np.ndarray]:
        """As `Servable.run`, but in one batch with other requests."""
        shapes = [array.shape for array in feeds.values()]
        if any(not shape for shape in shapes):
            raise invalid("Batching session Run() input tensors must have at least one dimension.")
        if len({shape[0] for shape in shapes}) > 1:
            raise invalid("Batching session Run() input tensors must have equal 0th-dimension size.")
        task = Task(servable, feeds, fetches, deadline)
        if task.rows > self.parameters.max_batch_size:
            raise invalid(
                f"Task size {task.rows} is larger than maximum input batch size {self.parameters.max_batch_size}"
            )
        if task.rows == 0:
            return servable.run(feeds, fetches, deadline)
        key = (id(servable), tuple(fetches), tuple((n, a.dtype.str, a.shape[1:]) for n, a in sorted(feeds.items())))
        limit = self.parameters.max_enqueued_batches * self.parameters.batch_rows
        with self._changed:
            if self._stopping:
                raise ServingError(grpc.StatusCode.UNAVAILABLE, "The server is shutting down")
            waiting = sum(other.rows for other in self._queues.get(key, ()))
            # A request may always wait if no other does, however large it is: it would never be accepted otherwise.
            if waiting and waiting + task.rows > limit:
                raise ServingError(
                    grpc.StatusCode.UNAVAILABLE,
                    "The batch scheduling queue to which this task was submitted is full",
                )
            parts = task.parts(self.parameters.batch_rows)
            for part in parts:
                # The part holds the model until it is finished. The caller may have given up by then, at the deadline
                # or after another part's error, and an unloaded model is freed as soon as nobody holds it.
                part.servable.acquire()
            self._queues.setdefault(key, collections.deque()).extend(parts)
            self._changed.notify(len(parts))
        results = [self._result(part) for part in parts]
        return results[0] if len(parts) == 1 else [np.concatenate(pieces) for pieces in zip(*results, strict=True)]

    def _result(self, task: Task) -> list[np.ndarray]:
        timeout = None if task.deadline is None else max(0.0, task.deadline - time.monotonic())
        if not task.done.wait(timeout):
            raise deadline_exceeded()
        if task.error is not None:
            # A new error: the old one's traceback refers to frames and their arrays, which would outlive the request.
            raise ServingError(*task.take_error())
        assert task.result is not None
        return task.result

    def stop(self) -> None:
        """Accepts no more requests, and runs those that wait."""
        with self._changed:
            self._stopping = True
            self._changed.notify_all()
        for thread in self._threads:
            thread.join(timeout=60)

    # The threads

    def _work(self) -> None:
        while True:
            batch = self._next_batch()
            if batch is None:
                return
            self._run(batch)

    def _next_batch(self) -> list[Task] | None:
        timeout = self.parameters.batch_timeout_micros * 1e-6
        # A thread that was busy waits as well. The clients that it has just answered send their next requests
        # immediately; without the wait these would miss the batch of those that waited meanwhile, every time, and there
        # would be two batches of half the size.
        free_since = time.monotonic()
        with self._changed:
            while True:
                now = time.monotonic()
                soonest = None
                for key, queue in self._queues.items():
                    ready_at = max(queue[0].enqueued, free_since) + timeout
                    full = sum(task.rows for task in queue) >= self.parameters.batch_rows
                    if full or now >= ready_at or self._stopping:
                        return self._take(key, queue)
                    soonest = ready_at if soonest is None else min(soonest, ready_at)
                if self._stopping:
                    return None
                self._changed.wait(None if soonest is None else soonest - now)

    def _take(self, key: Hashable, queue: collections.deque[Task]) -> list[Task]:
        batch: list[Task] = []
        rows = 0
        while queue and rows + queue[0].rows <= self.parameters.batch_rows:
            task = queue.popleft()
            batch.append(task)
            rows += task.rows
        del self._queues[key]
        if queue:
            self._queues[key] = queue  # at the end: the others come first
            self._changed.notify()
        return batch

    def _run(self, batch: list[Task]) -> None:
        for task in batch:
            if task.expired():
                task.finish(error=deadline_exceeded())
        batch = [task for task in batch if not task.done.is_set()]
        if not batch:
            return
        try:
            deadlines = [task.deadline for task in batch]
            latest = None if None in deadlines else max(deadlines)  # type: ignore[type-var]
            results = self._joined(batch, latest)
        except Exception as error:
            if len(batch) == 1:
                batch[0].finish(error=error)
                return
            # One of the requests was bad: each runs by itself, so that only that one fails.
            for task in batch:
                self._run([task])
            return
        for task, result in zip(batch, results, strict=True):
            task.finish(result)

    def _joined(self, batch: list[Task], deadline: float | None) -> list[list[np.ndarray]]:
        rows = sum(task.rows for task in batch)
        padding = self.parameters.padded(rows) - rows
        feeds = {}
        for name in batch[0].feeds:
            parts = [task.feeds[name] for task in batch]
            if padding:
                parts.append(np.repeat(parts[0][:1], padding, axis=0))
            feeds[name] = np.concatenate(parts) if len(parts) > 1 else parts[0]
        outputs = batch[0].servable.run(feeds, batch[0].fetches, deadline)
        total = rows + padding
        if any(not output.ndim or output.shape[0] != total for output in outputs):
            raise ServingError(
                grpc.StatusCode.FAILED_PRECONDITION,
                "Batched output tensor's 0th dimension does not equal the sum of the 0th dimension sizes of the inputs",
            )
        ends = np.cumsum([task.rows for task in batch])
        return [[output[end - task.rows : end] for output in outputs] for task, end in zip(batch, ends, strict=True)]
