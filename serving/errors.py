"""Errors as TF-Serving reports them: a status code, and a text that clients match on."""

from __future__ import annotations

import grpc

MAX_MESSAGE = 2000  # gRPC sends it in a header, whose size is limited

_BY_NUMBER = {code.value[0]: code for code in grpc.StatusCode}
_HTTP = {
    grpc.StatusCode.OK: 200,
    grpc.StatusCode.INVALID_ARGUMENT: 400,
    grpc.StatusCode.FAILED_PRECONDITION: 400,
    grpc.StatusCode.OUT_OF_RANGE: 400,
    grpc.StatusCode.UNAUTHENTICATED: 401,
    grpc.StatusCode.PERMISSION_DENIED: 403,
    grpc.StatusCode.NOT_FOUND: 404,
    grpc.StatusCode.ABORTED: 409,
    grpc.StatusCode.ALREADY_EXISTS: 409,
    grpc.StatusCode.RESOURCE_EXHAUSTED: 429,
    grpc.StatusCode.CANCELLED: 499,
    grpc.StatusCode.UNIMPLEMENTED: 501,
    grpc.StatusCode.UNAVAILABLE: 503,
    grpc.StatusCode.DEADLINE_EXCEEDED: 504,
}


class ServingError(Exception):
    """A request that is answered with an error."""

    def __init__(self, code: grpc.StatusCode, message: str) -> None:
        self.code, self.message = code, message[:MAX_MESSAGE]
        super().__init__(f"{code.name}: {self.message}")

    @property
    def http_status(self) -> int:
        return _HTTP.get(self.code, 500)


def status_of(number: int) -> grpc.StatusCode:
    """The gRPC code of a number; TensorFlow's numbers are the same."""
    return _BY_NUMBER.get(number, grpc.StatusCode.UNKNOWN)


def invalid(message: str) -> ServingError:
    return ServingError(grpc.StatusCode.INVALID_ARGUMENT, message)


def not_found(message: str) -> ServingError:
    return ServingError(grpc.StatusCode.NOT_FOUND, message)


def deadline_exceeded() -> ServingError:
    return ServingError(grpc.StatusCode.DEADLINE_EXCEEDED, "The deadline passed before the answer was ready")


def exhausted(message: str) -> ServingError:
    return ServingError(grpc.StatusCode.RESOURCE_EXHAUSTED, message)


def no_memory() -> ServingError:
    return exhausted("The server has not enough memory for this request")
