"""Clients that send no message, and clients that do not read: others are answered, and what they hold is given back."""

import contextlib
import time

import grpc
import numpy as np
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from serving import reception
from serving.reception import RESERVED_THREADS
from serving.waiting_calls import WaitingCalls
from tests.serving.conftest import Connection, eventually, running
from tests.serving.test_reserved_threads import STATUS, health, metadata, status

GET_STATUS, PREDICT = "/tensorflow.serving.ModelService/GetModelStatus", "/tensorflow.serving.PredictionService/Predict"
CHECK = "/grpc.health.v1.Health/Check"


class Call:
    def __init__(self):
        self.cancelled = 0

    def cancel(self):
        self.cancelled += 1


def test_calls_that_wait_for_too_long():
    calls, waiting = [Call() for _ in range(4)], WaitingCalls(most=2)
    for call, seconds in zip(calls, (100, 0, 100, 100), strict=True):
        waiting.add(call, seconds)
    assert [call.cancelled for call in calls] == [1, 1, 0, 0]  # too many
    waiting.remove(calls[2])
    waiting.add(calls[2], 0)
    waiting.cancel_late()
    waiting.cancel_late()
    assert [call.cancelled for call in calls] == [1, 1, 1, 0]
    assert len(waiting) == 1
    for _ in range(2):
        waiting.remove(calls[3])
    waiting.cancel_late()
    assert calls[3].cancelled == 0


@contextlib.contextmanager
def silent_calls(connection, method, count):
    """Calls by a client of its own that never sends a message."""
    over = False

    def never():
        while not over:
            time.sleep(0.02)
        yield from ()

    with contextlib.closing(Connection(connection.port, None).channel) as channel:
        ask = channel.stream_unary(method)
        try:
            yield [ask.future(never(), timeout=300) for _ in range(count)]
        finally:
            over = True


@pytest.fixture
def small(base):
    """A server with few threads."""
    options = {"max_running": 1, "max_waiting": 2, "rest_api_port": 0, "enable_grpc_healthcheck_service": True}
    with running(base, **options) as connection:
        yield connection


def test_silent_calls_take_no_place_from_others(small):
    count = 40
    assert count > max(RESERVED_THREADS, small.server._reception.computing.threads)
    with contextlib.ExitStack() as stack:
        silent = [
            *stack.enter_context(silent_calls(small, GET_STATUS, count)),
            *stack.enter_context(silent_calls(small, CHECK, count)),
            *stack.enter_context(silent_calls(small, PREDICT, count)),
        ]
        desks = small.server._reception.reserved, small.server._reception.computing
        eventually(lambda: [len(desk.silent) for desk in desks] == [2 * count, count], 20)
        for _ in range(3):
            assert status(small) == 1
            assert metadata(small) == 1
            assert health(small) == STATUS.SERVING
            small.predict("sample", seed=np.arange(3))
        assert not any(call.done() for call in silent)
    eventually(lambda: not any(len(desk.silent) for desk in desks), 20)


@pytest.mark.parametrize(("method", "which"), [(GET_STATUS, "reserved"), (PREDICT, "computing")])
def test_silent_calls_end(base, monkeypatch, method, which):
    """The oldest when there are too many, and all of them after a time."""
    monkeypatch.setattr(reception, "MOST_SILENT", 3)
    with running(base, rest_api_port=0) as connection:
        desk = getattr(connection.server._reception, which)
        with silent_calls(connection, method, 1) as first:
            eventually(lambda: len(desk.silent) == 1, 20)
            with silent_calls(connection, method, 3) as later:
                eventually(lambda: first[0].done(), 20)
                assert first[0].code() is grpc.StatusCode.CANCELLED
                assert not any(call.done() for call in later)
                for _ in range(3):
                    connection.predict("sample", seed=np.arange(3))
                    assert status(connection) == 1
        eventually(lambda: not len(desk.silent), 20)
        monkeypatch.setattr(reception, "MESSAGE_SECONDS", 0.3)
        with silent_calls(connection, method, 2) as silent:
            eventually(lambda: all(call.done() for call in silent), 20)
            assert {call.code() for call in silent} == {grpc.StatusCode.CANCELLED}


def test_a_call_without_a_message(small):
    for method in (GET_STATUS, PREDICT):
        with pytest.raises(grpc.RpcError) as error:
            small.channel.stream_unary(method)(iter(()), timeout=20)
        assert error.value.code() is grpc.StatusCode.UNIMPLEMENTED
        assert "exactly one request message" in error.value.details()


def test_there_is_no_watch(small):
    """Each of these would take a thread, and hold the others up when it does not read."""
    watch = health_pb2_grpc.HealthStub(small.channel).Watch
    with pytest.raises(grpc.RpcError) as error:
        next(watch(health_pb2.HealthCheckRequest(), timeout=20))
    assert error.value.code() is grpc.StatusCode.UNIMPLEMENTED
    with silent_calls(small, "/grpc.health.v1.Health/Watch", 20) as calls:
        eventually(lambda: all(call.done() for call in calls), 20)
        assert health(small) == STATUS.SERVING


SMALL_WINDOW = [("grpc.http2.bdp_probe", 0), ("grpc.http2.lookahead_bytes", 20_000)]


@contextlib.contextmanager
def large_and_unread(connection, count):
    """Calls whose client answers pings and reads no more than what fits into its window."""
    connection.predict("sample", seed=np.arange(10_000))
    with grpc.insecure_channel(f"127.0.0.1:{connection.port}", SMALL_WINDOW) as channel:
        ask = channel.unary_stream(PREDICT)
        content = connection.request("sample", seed=np.arange(10_000)).SerializeToString()
        calls = [ask(content, timeout=300) for _ in range(count)]  # dropped, they would be cancelled
        yield calls


def test_answers_that_are_not_read_are_given_up(base, monkeypatch):
    monkeypatch.setattr(reception, "READING_SECONDS", 2.0)
    with running(base, rest_api_port=0) as connection:
        budget = connection.server.core.bytes_in_flight
        unread = connection.server._reception.computing.unread
        with large_and_unread(connection, 2):
            eventually(lambda: len(unread) == 2, 60)
            assert budget.held > 2 * 4 * 10_000
            assert status(connection) == 1
            eventually(lambda: budget.held == 0, 20)
            assert len(unread) == 0
        # Whoever reads is not disturbed: the same answer, by a client who takes it.
        answer = connection.predict("sample", seed=np.arange(10_000))
        assert len(answer["visible"]) == 10_000
        eventually(lambda: len(unread) == 0, 2)  # the server knows of the reading a moment later


def test_answers_have_more_time_the_larger_they_are(base, monkeypatch):
    monkeypatch.setattr(reception, "READING_SECONDS", 0.0)
    monkeypatch.setattr(reception, "READING_RATE", 1)
    with running(base, rest_api_port=0) as connection:
        unread = connection.server._reception.computing.unread
        with large_and_unread(connection, 1):
            eventually(lambda: len(unread) == 1, 60)
            time.sleep(1.0)
            assert len(unread) == 1
        eventually(lambda: len(unread) == 0, 20)
