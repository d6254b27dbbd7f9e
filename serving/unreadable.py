"""Requests that cannot be parsed: refused here, because gRPC's refusal keeps about 15 KB of each in memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import grpc

MESSAGE = "Exception deserializing request!"  # as gRPC says it


class _Unreadable:
    """Takes the place of a request that could not be parsed."""


class RefuseUnreadable(grpc.ServerInterceptor):
    """Answers INTERNAL, as gRPC does, to bytes that are not a message of the method's type."""

    def intercept_service(
        self, continuation: Callable[[grpc.HandlerCallDetails], Any], handler_call_details: grpc.HandlerCallDetails
    ) -> Any:
        handler = continuation(handler_call_details)
        if handler is None or handler.unary_unary is None or handler.request_deserializer is None:
            return handler

        def read(content: bytes) -> Any:
            try:
                return handler.request_deserializer(content)
            except Exception:
                return _Unreadable()

        def answer(request: Any, context: grpc.ServicerContext) -> Any:
            if isinstance(request, _Unreadable):
                context.abort(grpc.StatusCode.INTERNAL, MESSAGE)
            return handler.unary_unary(request, context)

        return grpc.unary_unary_rpc_method_handler(answer, read, handler.response_serializer)
