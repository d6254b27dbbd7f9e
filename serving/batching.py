"""Dynamic batching: the rows of requests that wait at the same time run as one batch.

Requests with the same model, signature, outputs and row shapes, and a similar number of steps, are concatenated along
the first axis, as many as wait when a thread becomes free. A row's answer does not depend on the other rows: batching
changes only how long it takes. Nobody waits for company that has not shown itself, and short work waits for little: it
has threads of its own that pass the long work by.
"""

from __future__ import annotations

import collections
import contextlib
import threading
import time
from collections.abc import Hashable, Iterator, Mapping, Sequence

import grpc
import numpy as np

from serving.batching_parameters import BatchingParameters
from serving.cancellation import Cancellation, cancelled
from serving.errors import ServingError, deadline_exceeded, invalid, no_memory
from serving.servable import Servable

PASSING_THREADS = 2
PASSED = 4  # how many times more steps than theirs the work has that they pass by


class Task:
    """One request in a batch, and later its answer."""

    def __init__(
        self,
        servable: Servable,
        feeds: Mapping[str, np.ndarray],
        fetches: Sequence[str],
        deadline: float | None,
        cancellation: Cancellation,
        steps: int | None = None,
    ):
        self.servable, self.feeds, self.fetches = servable, feeds, fetches
        self.deadline, self.cancellation, self.steps = deadline, cancellation, steps
        self.rows = next(iter(feeds.values())).shape[0]
        self.done = False
        self.woken = threading.Event()  # it is done, or nobody waits for it any more
        self.result: list[np.ndarray] | None = None
        self.error: Exception | None = None

    def parts(self, rows: int) -> list[Task]:
        """The task, split into tasks of at most so many rows."""
        if self.rows <= rows:
            return [self]
        pieces = [{k: v[i : i + rows] for k, v in self.feeds.items()} for i in range(0, self.rows, rows)]
        return [
            Task(self.servable, feeds, self.fetches, self.deadline, self.cancellation, self.steps) for feeds in pieces
        ]

    def finish(self, result: list[np.ndarray] | None = None, error: Exception | None = None) -> None:
        """Ends a queued task with a result or an error, and releases the model. Called once."""
        self.result, self.error = result, error
        self.done = True
        self.woken.set()
        self.servable.release()

    def take_error(self) -> tuple[grpc.StatusCode, str]:
        """Code and text of the error. The task drops the error and its inputs, which take memory."""
        error, self.error, self.feeds = self.error, None, {}
        if isinstance(error, MemoryError):
            error = no_memory()
        if isinstance(error, ServingError):
            return error.code, error.message
        return grpc.StatusCode.INTERNAL, repr(error)

    def given_up(self) -> ServingError | None:
        """Why nobody waits for it any more."""
        if self.cancellation.cancelled:
            return cancelled()
        late = self.deadline is not None and time.monotonic() >= self.deadline
        return deadline_exceeded() if late else None


class Queue:
    """Tasks that can be one batch."""

    def __init__(self, steps: int) -> None:
        self.steps = steps
        self.tasks: collections.deque[Task] = collections.deque()
        self.running = 0  # batches
        self.expected = 0  # tasks: those of the batch before, and those that waited when it ended
        self.wait_until = 0.0  # for as many

    @property
    def rows(self) -> int:
        return sum(task.rows for task in self.tasks)


class Batcher:
    """Threads that run batches."""

    def __init__(self, parameters: BatchingParameters) -> None:
        self.parameters = parameters
        self._queues: collections.OrderedDict[Hashable, Queue] = collections.OrderedDict()
        self._running: list[int] = []  # steps of the batches that run
        # Each kind of thread is woken when there may be something for it to do, and not with every request.
        self._lock = threading.RLock()
        self._ordinary, self._passing = threading.Condition(self._lock), threading.Condition(self._lock)
        self._stopping = False
        ordinary = parameters.num_batch_threads
        self._threads = [
            threading.Thread(target=self._work, args=(number >= ordinary,), name=f"batch-{number}", daemon=True)
            for number in range(ordinary + PASSING_THREADS)
        ]
        for thread in self._threads:
            thread.start()

    def run(
        self,
        servable: Servable,
        feeds: Mapping[str, np.ndarray],
        fetches: Sequence[str],
        deadline: float | None,
        cancellation: Cancellation | None = None,
        steps: int | None = None,
    ) -> list[np.ndarray]:
        """As `Servable.run`, but in one batch with other requests whose number of steps is similar."""
        if not feeds:
            raise invalid("Batching session Run() must have at least one input tensor.")
        shapes = [array.shape for array in feeds.values()]
        if any(not shape for shape in shapes):
            raise invalid("Batching session Run() input tensors must have at least one dimension.")
        if len({shape[0] for shape in shapes}) > 1:
            raise invalid("Batching session Run() input tensors must have equal 0th-dimension size.")
        task = Task(servable, feeds, fetches, deadline, cancellation or Cancellation(), steps)
        if task.rows > self.parameters.max_batch_size:
            raise invalid(
                f"Task size {task.rows} is larger than maximum input batch size {self.parameters.max_batch_size}"
            )
        if task.rows == 0:
            return servable.run(feeds, fetches, deadline, task.cancellation, steps)
        # Up to a factor of two: no row waits for long until another one in its batch has made its steps.
        similar = max(0, (steps or 0) - 1).bit_length()
        rows = tuple((n, a.dtype.str, a.shape[1:]) for n, a in sorted(feeds.items()))
        queue, parts = self._enqueue((id(servable), tuple(fetches), rows, similar), 2**similar, task)
        try:
            results = [self._result(part) for part in parts]
        except ServingError:
            self._drop(queue, parts)
            raise
        return results[0] if len(parts) == 1 else [np.concatenate(pieces) for pieces in zip(*results, strict=True)]

    def _enqueue(self, key: Hashable, steps: int, task: Task) -> tuple[Queue, list[Task]]:
        limit = self.parameters.max_enqueued_batches * self.parameters.batch_rows
        with self._lock:
            if self._stopping:
                raise ServingError(grpc.StatusCode.UNAVAILABLE, "The server is shutting down")
            queue = self._queues.setdefault(key, Queue(steps))
            waiting = queue.rows
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
            queue.tasks.extend(parts)
            self._ordinary.notify()
            if self._may_pass(queue):
                self._passing.notify()
        return queue, parts

    def _result(self, task: Task) -> list[np.ndarray]:
        timeout = None if task.deadline is None else max(0.0, task.deadline - time.monotonic())
        with task.cancellation.calling(task.woken.set):
            task.woken.wait(timeout)
        if not task.done:
            raise cancelled() if task.cancellation.cancelled else deadline_exceeded()
        if task.error is not None:
            # A new error: the old one's traceback refers to frames and their arrays, which would outlive the request.
            raise ServingError(*task.take_error())
        assert task.result is not None
        return task.result

    def _drop(self, queue: Queue, parts: list[Task]) -> None:
        """Takes tasks that nobody waits for out of their queue: others can have their place."""
        with self._lock:
            dropped = [part for part in parts if part in queue.tasks]
            for part in dropped:
                queue.tasks.remove(part)
        for part in dropped:
            part.finish(error=cancelled())

    def stop(self, timeout: float = 60.0) -> None:
        """Accepts no more requests, and runs those that wait, for at most so many seconds."""
        with self._lock:
            self._stopping = True
            self._wake_all()
        end = time.monotonic() + timeout
        for thread in self._threads:
            thread.join(max(0.0, end - time.monotonic()))

    # The threads

    def _work(self, passes: bool) -> None:
        while True:
            with self._lock:
                taken = self._next_batch(passes)
                if taken is None:
                    return
                queue, batch = taken
                self._running.append(queue.steps)
                queue.running += 1
                self._wake_all()  # for what it has left, and for shorter work that may pass it by
            start = time.monotonic()
            self._run(batch)
            end = time.monotonic()
            with self._lock:
                self._running.remove(queue.steps)
                queue.running -= 1
                queue.expected = len(batch) + len(queue.tasks)
                queue.wait_until = end + min(self.parameters.batch_timeout_micros * 1e-6, (end - start) / 2)
                self._wake_all()

    def _wake_all(self) -> None:
        self._ordinary.notify_all()
        self._passing.notify_all()

    def _may_pass(self, queue: Queue) -> bool:
        """Whether a queue's work is so short that it passes by all that runs."""
        return bool(self._running) and PASSED * queue.steps <= min(self._running)

    def _next_batch(self, passes: bool) -> tuple[Queue, list[Task]] | None:
        while True:
            now = time.monotonic()
            soonest = None
            for key, queue in list(self._queues.items()):
                if not queue.tasks:
                    if now > queue.wait_until and not queue.running:
                        del self._queues[key]
                    continue
                if passes and not self._may_pass(queue):
                    continue
                # The clients that were just answered send their next requests immediately. Without the wait these would
                # miss the batch of those that waited meanwhile, every time: two batches of half the size.
                together = len(queue.tasks) >= queue.expected or queue.rows >= self.parameters.batch_rows
                if together or now >= queue.wait_until or self._stopping:
                    return queue, self._take(key, queue)
                soonest = min(queue.wait_until, queue.wait_until if soonest is None else soonest)
            if self._stopping and not any(queue.tasks for queue in self._queues.values()):
                return None
            mine = self._passing if passes else self._ordinary
            mine.wait(None if soonest is None else soonest - now)

    def _take(self, key: Hashable, queue: Queue) -> list[Task]:
        batch: list[Task] = []
        rows = 0
        while queue.tasks and rows + queue.tasks[0].rows <= self.parameters.batch_rows:
            task = queue.tasks.popleft()
            batch.append(task)
            rows += task.rows
        self._queues.move_to_end(key)  # the others come first
        return batch

    def _run(self, batch: list[Task]) -> None:
        for task in batch:
            if (reason := task.given_up()) is not None:
                task.finish(error=reason)
        batch = [task for task in batch if not task.done]
        if not batch:
            return
        try:
            results = self._joined(batch)
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

    def _joined(self, batch: list[Task]) -> list[list[np.ndarray]]:
        total = self.parameters.padded(rows := sum(task.rows for task in batch))
        feeds = {}
        for name in batch[0].feeds:
            parts = [task.feeds[name] for task in batch]
            if total > rows:
                parts.append(np.repeat(parts[0][:1], total - rows, axis=0))
            feeds[name] = np.concatenate(parts) if len(parts) > 1 else parts[0]
        deadlines = [task.deadline for task in batch]
        latest = None if None in deadlines else max(deadlines)  # type: ignore[type-var]
        known = [task.steps for task in batch if task.steps is not None]
        steps = max(known) if len(known) == len(batch) else None
        with stopped_by_all([task.cancellation for task in batch]) as cancellation:
            outputs = batch[0].servable.run(feeds, batch[0].fetches, latest, cancellation, steps)
        if any(not output.ndim or output.shape[0] != total for output in outputs):
            raise ServingError(
                grpc.StatusCode.FAILED_PRECONDITION,
                "Batched output tensor's 0th dimension does not equal the sum of the 0th dimension sizes of the inputs",
            )
        ends = np.cumsum([task.rows for task in batch])
        return [[output[end - task.rows : end] for output in outputs] for task, end in zip(batch, ends, strict=True)]


@contextlib.contextmanager
def stopped_by_all(cancellations: Sequence[Cancellation]) -> Iterator[Cancellation]:
    """A cancellation for work that several clients wait for: it is cancelled when all of them are."""
    together = Cancellation()

    def look() -> None:
        if all(cancellation.cancelled for cancellation in cancellations):
            together.cancel()

    with contextlib.ExitStack() as stack:
        for cancellation in cancellations:
            stack.enter_context(cancellation.calling(look))
        yield together
