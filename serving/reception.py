"""How gRPC requests come in: each kind has threads of its own, and bytes are counted before they are parsed.

Requests for health, status and metadata never wait behind computations. Requests to compute are refused when all of
their threads are taken. gRPC itself would parse each message in its only thread, and keeps about 15 KB of each one that
it cannot parse: here the thread that answers does it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent import futures
from typing import Any

import grpc

from serving.admission import ByteBudget, Reservation
from serving.errors import ServingError, invalid
from serving.message_sizes import WEIGHT, predict_bytes

UNREADABLE = "Exception deserializing request!"  # as gRPC says it
RESERVED_THREADS = 8
PREDICT = "/tensorflow.serving.PredictionService/Predict"
MOST_BYTES = 2**16  # of a request to the reserved threads
MOST_CALLS = 1024  # that wait for the reserved threads
RESERVED = {
    "/grpc.health.v1.Health/Check",
    "/tensorflow.serving.ModelService/GetModelStatus",
    "/tensorflow.serving.PredictionService/GetModelMetadata",
}


class Pool(futures.ThreadPoolExecutor):
    """Threads, and the number of calls that run in them or wait for one."""

    def __init__(self, threads: int, name: str) -> None:
        super().__init__(max_workers=threads, thread_name_prefix=name)
        self.threads, self.calls = threads, 0
        self._counting = threading.Lock()

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> futures.Future[Any]:
        with self._counting:
            self.calls += 1
        try:
            future = super().submit(fn, *args, **kwargs)
        except BaseException:
            self._left()
            raise
        future.add_done_callback(self._left)
        return future

    def _left(self, _: Any = None) -> None:
        with self._counting:
            self.calls -= 1


class Reception(grpc.ServerInterceptor):
    """Chooses the threads of each request, counts its bytes, and parses it.

    Args:
        budget: counts the bytes of requests.
        threads: for requests that may compute.
    """

    def __init__(self, budget: ByteBudget, threads: int) -> None:
        self._budget = budget
        self.computing = Pool(threads, "grpc")
        self.reserved = Pool(RESERVED_THREADS, "grpc-reserved")

    def intercept_service(
        self, continuation: Callable[[grpc.HandlerCallDetails], Any], handler_call_details: grpc.HandlerCallDetails
    ) -> Any:
        handler = continuation(handler_call_details)
        if handler is None or handler.unary_unary is None or handler.request_deserializer is None:
            return handler
        pool = self.reserved if handler_call_details.method in RESERVED else self.computing
        if pool is self.computing and pool.calls >= pool.threads:
            # As a stream: the refusal does not wait for the message, which a client could send as slowly as it likes.
            return _in(self.reserved, grpc.stream_unary_rpc_method_handler, self._refuse, handler)
        memory = predict_bytes if handler_call_details.method == PREDICT else _of_small_parts
        return _in(pool, grpc.unary_unary_rpc_method_handler, self._answer(handler, pool, memory), handler)

    def _refuse(self, messages: Iterator[bytes], context: grpc.ServicerContext) -> Any:
        message = f"The server has {self.computing.threads} requests at hand already"
        context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, message)

    def _answer(
        self, handler: Any, pool: Pool, memory: Callable[[bytes], int]
    ) -> Callable[[bytes, grpc.ServicerContext], Any]:
        def answer(content: bytes, context: grpc.ServicerContext) -> Any:
            # gRPC keeps the answer until the client has read it, or the call ends otherwise: only then are they free.
            reservation = Reservation(self._budget, users=2)
            if not context.add_callback(reservation.release):
                reservation.release()  # it has ended already
            try:
                if pool is self.computing:
                    reservation.add(memory(content))
                elif len(content) > MOST_BYTES:
                    raise invalid(f"The request may have {MOST_BYTES} bytes. Received: {len(content)} bytes")
                try:
                    request = handler.request_deserializer(content)
                except Exception:
                    context.abort(grpc.StatusCode.INTERNAL, UNREADABLE)
                response = handler.unary_unary(request, context)
                if pool is self.computing:
                    reservation.add(response.ByteSize())
                return response
            except ServingError as error:
                context.abort(error.code, error.message)
            finally:
                reservation.release()

        return answer


def _of_small_parts(content: bytes) -> int:
    return WEIGHT * len(content)  # as lists of examples are


def _in(pool: Pool, kind: Callable[..., Any], behaviour: Callable[..., Any], handler: Any) -> Any:
    """A handler whose behaviour runs in a pool and gets its messages as bytes."""

    def run(request: Any, context: grpc.ServicerContext) -> Any:
        return behaviour(request, context)

    run.experimental_thread_pool = pool  # type: ignore[attr-defined]
    return kind(run, None, handler.response_serializer)
