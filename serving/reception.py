"""How gRPC requests come in: each kind has threads of its own, and bytes are counted before they are parsed.

Requests for health, status and metadata never wait behind computations. Requests to compute are refused when all of
their threads are taken. gRPC itself would parse each message in its only thread, and keeps about 15 KB of each one that
it cannot parse: here the thread that answers does it.

A client may open a call and send no message, or not read its answer. Such calls take no place from others: a thread
that waits for a message is not one of those that work, and both kinds of waiting end after a time.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from concurrent import futures
from typing import Any

import grpc

from serving.admission import ByteBudget, Reservation
from serving.arriving import ArrivingMemory
from serving.errors import ServingError, exhausted, invalid
from serving.message_sizes import WEIGHT, predict_bytes
from serving.packed_messages import unpacked
from serving.waiting_calls import WaitingCalls

UNREADABLE = "Exception deserializing request!"  # as gRPC says it
RESERVED_THREADS = 8
PREDICT = "/tensorflow.serving.PredictionService/Predict"
MOST_BYTES = 2**16  # of a request to the reserved threads
MOST_CALLS = 1024  # that wait for the reserved threads
MOST_SILENT = 512  # calls of each kind whose message has not arrived; the oldest of them gives way to a new one
MOST_UNREAD = 1024  # answers of each kind that clients are reading; likewise
MESSAGE_SECONDS = 120.0  # for a message to arrive
READING_SECONDS, READING_RATE = 30.0, 2**20  # for an answer to be read: so many seconds, and one more for so many bytes
LOOK_SECONDS = 0.1  # between two looks at those who wait
ARRIVING_SHARE = 8  # of all bytes, the part that slow messages may take while they arrive
RESERVED = {
    "/grpc.health.v1.Health/Check",
    "/tensorflow.serving.ModelService/GetModelStatus",
    "/tensorflow.serving.PredictionService/GetModelMetadata",
}

log = logging.getLogger("serving")


class Desk:
    """Threads for one kind of call.

    Args:
        threads: calls that are worked on at the same time; besides, there are threads that wait for messages.
        name: of the threads.
        queue: more calls wait for their turn. Without it they are refused.
    """

    def __init__(self, threads: int, name: str, queue: bool) -> None:
        self.threads = threads
        self.pool = futures.ThreadPoolExecutor(threads + MOST_SILENT, name)
        self.silent, self.unread = WaitingCalls(MOST_SILENT), WaitingCalls(MOST_UNREAD)
        self._free, self._queue = threading.Semaphore(threads), queue
        self._working, self._counting = 0, threading.Lock()

    def message(self, messages: Iterator[bytes], call: grpc.ServicerContext) -> bytes:
        """The message of a call, as soon as it is there."""
        self.silent.add(call, MESSAGE_SECONDS)
        try:
            return next(messages)
        except StopIteration:
            call.abort(grpc.StatusCode.UNIMPLEMENTED, "The method requires exactly one request message.")
            raise
        finally:
            self.silent.remove(call)

    def __enter__(self) -> None:
        if not self._free.acquire(blocking=self._queue):
            raise self.refusal()
        with self._counting:
            self._working += 1

    def __exit__(self, *_: object) -> None:
        with self._counting:
            self._working -= 1
        self._free.release()

    def full(self) -> bool:
        """Whether all threads that work are taken."""
        return self._working >= self.threads

    def refusal(self) -> ServingError:
        return exhausted(f"The server has {self.threads} requests at hand already")


class Reception(grpc.ServerInterceptor):
    """Chooses the threads of each request, counts its bytes, and parses it.

    Args:
        budget: counts the bytes of requests.
        threads: for requests that may compute.
        most_bytes: of a message, when it is unpacked; -1 for no limit.

    Attributes:
        most_calls: the most calls at the same time.
    """

    def __init__(self, budget: ByteBudget, threads: int, most_bytes: int = -1) -> None:
        self._budget, self._most_bytes = budget, most_bytes
        self.computing = Desk(threads, "grpc", queue=False)
        self.reserved = Desk(RESERVED_THREADS, "grpc-reserved", queue=True)
        silent = [desk.silent for desk in (self.computing, self.reserved)]
        self._arriving = ArrivingMemory(silent, lambda: budget.held, budget.limit // ARRIVING_SHARE)
        self.most_calls = threads + RESERVED_THREADS + 2 * MOST_SILENT + MOST_CALLS
        self._stopping = threading.Event()

    def start(self) -> None:
        """Begins to watch over those who wait."""
        threading.Thread(target=self._watch, name="grpc-waiting", daemon=True).start()

    def intercept_service(
        self, continuation: Callable[[grpc.HandlerCallDetails], Any], handler_call_details: grpc.HandlerCallDetails
    ) -> Any:
        handler = continuation(handler_call_details)
        if handler is None or handler.unary_unary is None or handler.request_deserializer is None:
            return None  # streams: none of the services needs them
        desk = self.reserved if handler_call_details.method in RESERVED else self.computing
        if desk is self.computing and desk.full():
            # The refusal does not wait for the message, which a client could send as slowly as it likes.
            return _in(self.reserved, self._refuse, handler)
        memory = predict_bytes if handler_call_details.method == PREDICT else _of_small_parts
        return _in(desk, self._answer(handler, desk, memory), handler)

    def stop(self) -> None:
        """Ends the watch over those who wait."""
        self._stopping.set()

    def _watch(self) -> None:
        while not self._stopping.wait(LOOK_SECONDS):
            try:
                for desk in (self.computing, self.reserved):
                    desk.silent.cancel_late()
                    desk.unread.cancel_late()
                self._arriving.look()
            except Exception:
                log.exception("Looking after those who wait failed")

    def _refuse(self, messages: Iterator[bytes], call: grpc.ServicerContext) -> Any:
        refusal = self.computing.refusal()
        call.abort(refusal.code, refusal.message)

    def _counted(self, content: bytes, desk: Desk, memory: Callable[[bytes], int], reservation: Reservation) -> bytes:
        """A message as it is parsed, unpacked, whose bytes are reserved."""
        computes = desk is self.computing
        most, size = self._most_bytes if computes else MOST_BYTES, 0

        def count(piece: int) -> None:
            nonlocal size
            size += piece
            if 0 <= most < size:
                raise exhausted(f"A message may have {most} bytes. Received: more of them, packed")
            if computes:
                reservation.add(2 * piece)  # the piece, and its part of the whole

        content = unpacked(content, count)
        if computes:
            reservation.add(memory(content))
        elif len(content) > MOST_BYTES:
            raise invalid(f"The request may have {MOST_BYTES} bytes. Received: {len(content)} bytes")
        return content

    def _answer(
        self, handler: Any, desk: Desk, memory: Callable[[bytes], int]
    ) -> Callable[[Iterator[bytes], grpc.ServicerContext], Any]:
        def answer(messages: Iterator[bytes], call: grpc.ServicerContext) -> Any:
            content = desk.message(messages, call)
            # gRPC keeps the answer until the client has read it, or the call ends otherwise: only then are they free.
            reservation = Reservation(self._budget, users=2)

            def ended() -> None:
                desk.unread.remove(call)
                reservation.release()

            if not call.add_callback(ended):
                reservation.release()  # it has ended already
            try:
                with desk:
                    content = self._counted(content, desk, memory, reservation)
                    try:
                        request = handler.request_deserializer(content)
                    except Exception:
                        call.abort(grpc.StatusCode.INTERNAL, UNREADABLE)
                    response = handler.unary_unary(request, call)
                    size = response.ByteSize()
                    if desk is self.computing:
                        reservation.add(size)
                    desk.unread.add(call, READING_SECONDS + size / READING_RATE)
                    if not call.is_active():
                        desk.unread.remove(call)  # it may have ended before, and nobody else removes it
                    return response
            except ServingError as error:
                call.abort(error.code, error.message)
            finally:
                reservation.release()

        return answer


def _of_small_parts(content: bytes) -> int:
    return WEIGHT * len(content)  # as lists of examples are


def _in(desk: Desk, behaviour: Callable[..., Any], handler: Any) -> Any:
    """A handler whose behaviour runs in a desk's threads and waits for its message, as bytes, by itself."""

    def run(messages: Iterator[bytes], call: grpc.ServicerContext) -> Any:
        return behaviour(messages, call)

    run.experimental_thread_pool = desk.pool  # type: ignore[attr-defined]
    return grpc.stream_unary_rpc_method_handler(run, None, handler.response_serializer)
