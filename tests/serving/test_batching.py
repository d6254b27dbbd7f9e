"""Batches: joined, padded, split; nobody suffers from somebody else's mistake."""

import threading
import time

import grpc
import numpy as np
import pytest

from serving.batching import Batcher
from serving.batching_parameters import BatchingParameters
from serving.cancellation import Cancellation
from serving.errors import ServingError, invalid


class Echo:
    """A model that answers each row with its own number, and remembers its batches: their sizes, its users then."""

    def __init__(self):
        self.sizes, self.steps, self.go = [], [], threading.Event()
        self.started = threading.Semaphore(0)
        self.users, self.users_then, self.lock = 0, [], threading.Lock()

    def acquire(self):
        with self.lock:
            self.users += 1

    def release(self):
        with self.lock:
            self.users -= 1

    def run(self, feeds, fetches, deadline=None, cancellation=None, steps=None):
        (x,) = feeds.values()
        self.users_then.append(self.users)
        self.started.release()
        assert self.go.wait(30)
        self.sizes.append(len(x))
        self.steps.append(steps)
        if (x < 0).any():
            raise invalid("a negative number")
        return [2 * x, x[:, 0]]


def ask(batcher, model, values, results, deadline=None, **kwargs):
    def work():
        try:
            feeds = {"x": np.array(values)[:, None]}
            results.append((values, batcher.run(model, feeds, ["a", "b"], deadline, **kwargs)))
        except ServingError as error:
            results.append((values, error))

    thread = threading.Thread(target=work)
    thread.start()
    return thread


def waiting(batcher, rows):
    """Waits until so many rows are in the queues."""
    for _ in range(3000):
        with batcher._lock:
            if sum(queue.rows for queue in batcher._queues.values()) == rows:
                return
        threading.Event().wait(0.01)
    raise AssertionError("they did not come")


def test_rows_are_joined_padded_and_split():
    model, results = Echo(), []
    batcher = Batcher(BatchingParameters(max_batch_size=8, num_batch_threads=1, allowed_batch_sizes=(4, 8)))
    threads = [ask(batcher, model, [100.0], results)]
    model.started.acquire()
    threads += [ask(batcher, model, [float(i), float(i) + 0.5], results) for i in range(5)]
    waiting(batcher, 10)
    model.go.set()
    for thread in threads:
        thread.join()
    for values, answer in results:
        np.testing.assert_array_equal(answer[0][:, 0], 2 * np.array(values))
        np.testing.assert_array_equal(answer[1], values)
    assert model.sizes == [4, 8, 4]  # 1 padded to 4; then four requests of 2; then the last one, padded
    batcher.stop()


def test_large_requests_are_cut_into_parts():
    """Answers come back whole and in order; a request that alone is more than the queue holds still gets in."""
    model, results = Echo(), []
    batcher = Batcher(
        BatchingParameters(
            max_batch_size=100,
            num_batch_threads=1,
            max_enqueued_batches=2,
            enable_large_batch_splitting=True,
            max_execution_batch_size=8,
            allowed_batch_sizes=(4, 8),
        )
    )
    threads = [ask(batcher, model, [float(i) for i in range(21)], results)]
    model.started.acquire()
    waiting(batcher, 13)
    threads.append(ask(batcher, model, [50.0, 51.0, 52.0], results))
    waiting(batcher, 16)
    full: list = []
    ask(batcher, model, [5.0], full).join()
    assert full[0][1].code == grpc.StatusCode.UNAVAILABLE
    model.go.set()
    for thread in threads:
        thread.join()
    assert sorted(len(values) for values, _ in results) == [3, 21]
    for values, answer in results:
        np.testing.assert_array_equal(answer[0][:, 0], 2 * np.array(values))
        np.testing.assert_array_equal(answer[1], values)
    assert model.sizes == [8, 8, 8]  # the last part of 5 and the request of 3 are one batch
    with pytest.raises(ServingError, match="larger than maximum input batch size 100"):
        batcher.run(model, {"x": np.zeros([101, 1])}, ["a", "b"], None)
    bad: list = []
    ask(batcher, model, [float(i) for i in range(9)] + [-1.0], bad).join()
    assert "a negative number" in bad[0][1].message
    batcher.stop()


def test_a_bad_request_fails_alone():
    model, results = Echo(), []
    batcher = Batcher(BatchingParameters(num_batch_threads=1))
    threads = [ask(batcher, model, [100.0], results)]
    model.started.acquire()
    threads += [ask(batcher, model, [float(i) if i != 2 else -1.0], results) for i in range(5)]
    waiting(batcher, 5)
    model.go.set()
    for thread in threads:
        thread.join()
    failed = [values for values, answer in results if isinstance(answer, ServingError)]
    assert failed == [[-1.0]]
    assert model.sizes[1] == 5
    batcher.stop()
    assert model.users == 0


def test_a_model_is_in_use_until_its_rows_are_done():
    """Also when those who asked have given up: at their deadline, or because an earlier part failed."""
    model, results = Echo(), []
    batcher = Batcher(
        BatchingParameters(
            max_batch_size=4, num_batch_threads=1, enable_large_batch_splitting=True, max_execution_batch_size=1
        )
    )
    runs = ask(batcher, model, [1.0], results, deadline=time.monotonic() + 1.0)
    assert model.started.acquire(timeout=30)
    waits = ask(batcher, model, [2.0], results, deadline=time.monotonic() + 0.2)
    for thread in (runs, waits):
        thread.join()
    assert [answer.code for _, answer in results] == [grpc.StatusCode.DEADLINE_EXCEEDED] * 2
    assert model.users == 1  # the first one's rows are being computed; the second one's were dropped
    split = ask(batcher, model, [-1.0, 3.0, 4.0], results)
    waiting(batcher, 3)
    assert model.users == 4
    model.go.set()
    split.join()
    assert "a negative number" in results[2][1].message
    batcher.stop()
    assert min(model.users_then) >= 1
    assert model.users == 0


def test_full_queues_and_deadlines():
    model, results = Echo(), []
    batcher = Batcher(BatchingParameters(max_batch_size=2, max_enqueued_batches=2, num_batch_threads=1))
    threads = [ask(batcher, model, [100.0], results)]
    model.started.acquire()
    ask(batcher, model, [7.0], results, deadline=time.monotonic() + 0.1).join()
    assert results[0][1].code == grpc.StatusCode.DEADLINE_EXCEEDED
    waiting(batcher, 0)
    threads += [ask(batcher, model, [float(i)], results) for i in range(4)]
    waiting(batcher, 4)
    full: list = []
    ask(batcher, model, [5.0], full).join()
    assert full[0][1].code == grpc.StatusCode.UNAVAILABLE
    assert "queue" in full[0][1].message
    model.go.set()
    for thread in threads:
        thread.join()
    # What came too late was not computed.
    assert sum(model.sizes) == 5
    batcher.stop()
    ask(batcher, model, [5.0], full).join()
    assert full[1][1].code == grpc.StatusCode.UNAVAILABLE


def test_cancelled_requests_are_dropped_and_their_batch_is_stopped_when_all_have_gone():
    model, results, stopped = Echo(), [], threading.Semaphore(0)

    def until_cancelled(feeds, fetches, deadline=None, cancellation=None, steps=None):
        end = threading.Event()
        model.started.release()
        with cancellation.calling(end.set):
            assert end.wait(30)
        stopped.release()
        cancellation.check()

    model.run = until_cancelled
    batcher = Batcher(BatchingParameters(num_batch_threads=1))
    cancellations = [Cancellation() for _ in range(4)]
    first = ask(batcher, model, [0.0], results, cancellation=cancellations[0])
    assert model.started.acquire(timeout=30)
    threads = [ask(batcher, model, [float(i)], results, cancellation=cancellations[i]) for i in (1, 2, 3)]
    waiting(batcher, 3)
    cancellations[3].cancel()  # one that waits
    threads[2].join()
    waiting(batcher, 2)
    cancellations[0].cancel()  # the one that runs
    first.join()
    assert stopped.acquire(timeout=30)
    assert model.started.acquire(timeout=30)
    cancellations[1].cancel()  # one of the two that run: the other one still waits
    threads[0].join()
    assert not stopped.acquire(timeout=0.1)
    cancellations[2].cancel()
    threads[1].join()
    assert stopped.acquire(timeout=30)
    assert {answer.code for _, answer in results} == {grpc.StatusCode.CANCELLED}
    batcher.stop()
    assert model.users == 0


def test_short_work_passes_long_work_by():
    """Rows of unlike steps are not joined, and a short request does not wait for a long one that runs."""
    model, results = Echo(), []
    batcher = Batcher(BatchingParameters(num_batch_threads=1))
    long = ask(batcher, model, [1.0], results, steps=10_000)
    assert model.started.acquire(timeout=30)
    waits = ask(batcher, model, [2.0], results, steps=9_000)
    waiting(batcher, 1)
    short = ask(batcher, model, [3.0, 4.0], results, steps=1)
    assert model.started.acquire(timeout=30)  # while the long one still runs
    assert long.is_alive()
    model.go.set()
    for thread in (long, waits, short):
        thread.join()
    assert sorted(model.sizes) == [1, 1, 2]
    batcher.stop()


def test_the_steps_of_a_batch_are_the_most_of_any_request():
    """If those of all are known: then its time is known from others like it."""
    model, results = Echo(), []
    batcher = Batcher(BatchingParameters(num_batch_threads=1))
    for before, steps in ((16, (5, 8, 7)), (1, (0, None))):
        threads = [ask(batcher, model, [0.0], results, steps=before)]
        assert model.started.acquire(timeout=30)
        for value in steps:
            threads.append(ask(batcher, model, [1.0, 2.0], results, steps=value))
            waiting(batcher, 2 * (len(threads) - 1))
        model.go.set()
        for thread in threads:
            thread.join()
        model.go.clear()
        assert model.started.acquire(timeout=30)
    batcher.stop()
    assert sorted(model.steps, key=str) == [1, 16, 8, None]


def test_short_work_that_was_seen_before_the_long_work_ran_passes_it_by(monkeypatch):
    look, hold = Batcher._next_batch, threading.Event()

    def late(self, passes):  # the ordinary thread looks only when the passing ones have seen no reason to pass
        while not passes and not hold.is_set():
            self._ordinary.wait(0.02)
        return look(self, passes)

    monkeypatch.setattr(Batcher, "_next_batch", late)
    model, results = Echo(), []
    batcher = Batcher(BatchingParameters(num_batch_threads=1))
    threads = [ask(batcher, model, [1.0], results, steps=10_000)]
    waiting(batcher, 1)
    threads.append(ask(batcher, model, [3.0, 4.0], results, steps=1))
    waiting(batcher, 3)
    time.sleep(0.2)
    hold.set()
    try:
        assert model.started.acquire(timeout=10)
        assert model.started.acquire(timeout=10)  # while the long one still runs
    finally:
        model.go.set()
        for thread in threads:
            thread.join()
        batcher.stop()


def test_a_lone_request_waits_for_nobody():
    """However long the file's timeout is."""
    model, results = Echo(), []
    model.go.set()
    batcher = Batcher(BatchingParameters(num_batch_threads=1, batch_timeout_micros=600_000_000))
    for number in range(5):
        ask(batcher, model, [float(number)], results).join(30)
    assert len(results) == 5
    batcher.stop()


def test_what_cannot_be_batched():
    model = Echo()
    model.go.set()
    batcher = Batcher(BatchingParameters(max_batch_size=2))
    for feeds, text in (
        ({"x": np.array(1.0)}, "at least one dimension"),
        ({"x": np.zeros(1), "y": np.zeros(2)}, "equal 0th-dimension"),
        ({"x": np.zeros(3)}, "larger than maximum input batch size 2"),
        ({}, "at least one input tensor"),
    ):
        with pytest.raises(ServingError, match=text):
            batcher.run(model, feeds, ["a"], None)
    batcher.stop()


def test_without_memory_for_a_batch_its_requests_are_refused():
    """As without batching: they may try again."""

    def full(*args):
        raise MemoryError

    model, results = Echo(), []
    model.run = full
    batcher = Batcher(BatchingParameters(num_batch_threads=1))
    ask(batcher, model, [1.0], results).join()
    assert results[0][1].code == grpc.StatusCode.RESOURCE_EXHAUSTED
    batcher.stop()
    assert model.users == 0


def test_stop_finishes_what_is_waiting():
    model, results = Echo(), []
    batcher = Batcher(BatchingParameters(num_batch_threads=1, batch_timeout_micros=60_000_000))
    threads = [ask(batcher, model, [0.0], results)]
    assert model.started.acquire(timeout=30)
    threads += [ask(batcher, model, [float(i)], results) for i in (1, 2)]
    waiting(batcher, 2)
    model.go.set()
    batcher.stop()
    for thread in threads:
        thread.join()
    assert sorted(values[0] for values, answer in results if not isinstance(answer, ServingError)) == [0, 1, 2]


@pytest.mark.parametrize(
    "arguments",
    [
        {"max_batch_size": 0},
        {"num_batch_threads": 0},
        {"batch_timeout_micros": -1},
        {"max_batch_size": 8, "allowed_batch_sizes": (4, 2, 8)},
        {"max_batch_size": 8, "allowed_batch_sizes": (4,)},
        {"max_batch_size": 8, "max_execution_batch_size": 9},
        {
            "max_batch_size": 8,
            "max_execution_batch_size": 4,
            "enable_large_batch_splitting": True,
            "allowed_batch_sizes": (4, 8),
        },
    ],
)
def test_bad_parameters(arguments):
    with pytest.raises(ValueError, match="Received"):
        BatchingParameters(**arguments)
