"""A client's attempts at one request, and the error when there are no more."""

from __future__ import annotations

import random
import re
import time

import grpc

# CANCELLED comes from servers that stop and from proxies; a client's own cancellation never comes here.
RETRIED = (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.RESOURCE_EXHAUSTED, grpc.StatusCode.CANCELLED)
FIRST_PAUSE, LONGEST_PAUSE = 0.05, 2.0
_GRAPH = re.compile(r"\s*\[\[?\{\{.*", re.DOTALL)  # where in the graph it was


class SamplerError(grpc.RpcError):
    """A request that the server has refused or not answered.

    ``str(error)`` is one sentence. It is a `grpc.RpcError`, with that class's methods.

    Example:

    >>> error = SamplerError(grpc.StatusCode.NOT_FOUND, "Servable not found for request: Latest(x)")
    >>> error.code().name, str(error)
    ('NOT_FOUND', 'Servable not found for request: Latest(x)')
    """

    def __init__(self, code: grpc.StatusCode, details: str) -> None:
        super().__init__(details)
        self._code, self._details = code, details

    def code(self) -> grpc.StatusCode:
        """The status."""
        return self._code

    def details(self) -> str:
        """The sentence."""
        return self._details


def error_of(error: grpc.RpcError) -> SamplerError:
    """The error that a client's caller sees: without names of the graph, and without gRPC's own story of it."""
    code = error.code()
    details = error.details() if hasattr(error, "details") else None
    return SamplerError(code, one_sentence(details or "") or f"The server answered {code.name}")


def one_sentence(text: str) -> str:
    """The first line of a message, without what TensorFlow says around it.

    Example:

    >>> one_sentence("assertion failed: [steps must be from 0 to 10] [. Received: ] [-1] [1] [[{{node Assert}}]]")
    'steps must be from 0 to 10. Received: -1 1'
    """
    line = (_GRAPH.sub("", text).strip().splitlines() or [""])[0]
    if not line.startswith("assertion failed: ["):
        return line
    # The parts of the message, each in brackets.
    sentence, *values = line.removeprefix("assertion failed: [").removesuffix("]").split("] [")
    return sentence + "".join(values[:1]) + " ".join(values[1:])


class Attempts:
    """When to retry: after exponentially growing, random pauses, until the deadline.

    Args:
        timeout: seconds for all attempts together.
    """

    def __init__(self, timeout: float) -> None:
        self._end = time.monotonic() + timeout
        self._pause = FIRST_PAUSE

    def remaining(self) -> float:
        return max(0.001, self._end - time.monotonic())

    def pause_after(self, error: grpc.RpcError) -> float:
        """Seconds to wait before the next attempt.

        Raises:
            SamplerError: if there is none.
        """
        pause = self._pause * random.uniform(0.5, 1.5)
        if error.code() not in RETRIED or time.monotonic() + pause >= self._end:
            raise error_of(error) from None
        self._pause = min(2 * self._pause, LONGEST_PAUSE)
        return pause
