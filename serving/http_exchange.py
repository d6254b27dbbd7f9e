"""One HTTP request and its answer: what is refused before the body is read, and how long answers are written."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import json
import logging
import time
from collections.abc import Awaitable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

from tornado import httputil, iostream

from serving.cancellation import Cancellation
from serving.origins import refusal, shared_with

if TYPE_CHECKING:
    from serving.http_server import Connections, HttpServer

SMALL_BODY = 2**16  # bytes, which do not count towards the limit of all bodies together
LINGER = 2.0  # seconds in which a refused client may finish sending, so that it reads why
LONGEST_NUMBER = 100  # digits

log = logging.getLogger("serving")
access_log = logging.getLogger("serving.access")


@dataclasses.dataclass(frozen=True)
class RestLimits:
    """What clients may use.

    Attributes:
        timeout: seconds for a body to arrive, and as many for its answer to be written.
        header_timeout: seconds for the head of a request to arrive, from the last answer on.
        max_body: most bytes of a body; a gzip body's count as they are when unpacked.
        max_bytes: most bytes of all bodies together, of requests that arrive or are being answered.
        max_connections: most connections at the same time.
        threads: requests to models that are being answered at the same time; more are refused.
        hosts: names of this server beside its addresses, and of sites whose pages may ask it.
        own_hosts: names of this server, whose other ports' pages may not ask it.
        access_log: log each request.
    """

    timeout: float = 30.0
    header_timeout: float = 30.0
    max_body: int = 2**25
    max_bytes: int = 2**27
    max_connections: int = 512
    threads: int = 64
    hosts: frozenset[str] = frozenset()
    own_hosts: frozenset[str] = frozenset()
    access_log: bool = False


@dataclasses.dataclass
class Request:
    """A whole request.

    Attributes:
        cancellation: cancelled when the client has closed the connection.
    """

    method: str
    path: str
    body: bytes
    cancellation: Cancellation


@dataclasses.dataclass(frozen=True)
class Answer:
    """An answer; its pieces may be computed while they are sent."""

    status: int
    kind: str
    pieces: Iterable[bytes]


def error_answer(status: int, message: str) -> Answer:
    return Answer(status, "application/json", [json.dumps({"error": message}).encode()])


class Exchange(httputil.HTTPMessageDelegate):
    """One request and its answer."""

    def __init__(self, http: HttpServer, connections: Connections, stream: iostream.IOStream, connection: Any) -> None:
        self._http, self._connections, self._stream, self._connection = http, connections, stream, connection
        self._pieces: list[bytes] = []
        self.size = 0
        self._refused = self._closed = False
        self._shared: dict[str, str] = {}  # headers for pages of other sites, if they may ask
        self._peer = getattr(connection.context, "remote_ip", "-")
        self._cancellation = Cancellation()
        self._started = time.monotonic()

    # What Tornado calls

    def headers_received(self, start_line: Any, headers: httputil.HTTPHeaders) -> Awaitable[None] | None:
        self._method, self._path, self._version = start_line.method, start_line.path, start_line.version
        self._http.arriving[self] = None
        self._limit = min(self._http.limits.max_body, self._http.largest_body())
        self._packed = "X-Consumed-Content-Encoding" in headers  # so Tornado calls it when it unpacks
        lengths = headers.get_list("Content-Length")
        limits = self._http.limits
        reason = refusal(headers.get("Host"), headers.get("Origin"), limits.hosts, limits.own_hosts)
        if reason is None:
            self._shared = shared_with(headers.get("Host"), headers.get("Origin"))
        if len(headers.get_list("Host")) > 1:
            self.refuse(400, "A request has one Host")
        elif reason is not None:
            self.refuse(403, reason)
        elif len(lengths) > 1 or not all(map(_is_number, lengths)):
            self.refuse(400, "A request needs one Content-Length, a number")
        elif lengths and int(lengths[0]) > self._limit:
            # What comes is read for a moment and thrown away, so that the client reads the answer.
            self._connection.set_max_body_size(2**62)
            status = 413 if int(lengths[0]) < 2**32 else 400
            self.refuse(status, f"A request needs a Content-Length of at most {self._limit} bytes")
        elif headers.get("Content-Encoding", "identity").lower() != "identity":
            self.refuse(415, "A body is sent as it is, or with the Content-Encoding gzip")
        return None

    def data_received(self, chunk: bytes) -> Awaitable[None] | None:
        if self._closed:
            return asyncio.sleep(0)  # its time is over, while what was packed still unfolds
        if self._refused:
            if self._packed:
                raise httputil.HTTPInputError("refused")  # what little is sent may unpack to anything
            return None
        size = self.size + len(chunk)
        if size > self._limit:
            self.refuse(413, f"The body of a request has at most {self._limit} bytes")
        elif size > SMALL_BODY and not self._http.make_room(self, len(chunk)):
            self.refuse(503, "The server has no memory left for this body: too many arrive at the same time")
        else:
            self._pieces.append(chunk)
            self.size = size
            self._http.bytes += len(chunk)
        # What is packed may unfold to a thousand of these pieces: others have their turn in between.
        return asyncio.sleep(0) if self._packed else None

    def finish(self) -> None:
        self._http.arriving.pop(self, None)
        if self._refused:
            self._connection.finish()
            self._stream.close()
            return
        self._connections.set_busy(self._stream, True)
        self._connection.set_close_callback(self._cancellation.cancel)
        self._task = asyncio.ensure_future(self._respond())

    def on_connection_close(self) -> None:
        self._closed = True
        self._http.arriving.pop(self, None)
        self._cancellation.cancel()
        self._forget()

    # Answers

    def refuse(self, status: int, message: str) -> None:
        """Answers with an error before the body is complete, and closes the connection."""
        self._refused = True
        self._http.arriving.pop(self, None)
        self._forget()
        content = b"".join(error_answer(status, message).pieces)
        self._log(status, len(content))
        headers = _headers("application/json", len(content), close=True)
        headers.update(self._shared)
        with contextlib.suppress(iostream.StreamClosedError):
            future = self._connection.write_headers(_status_line(status), headers, content)
            future.add_done_callback(lambda done: done.cancelled() or done.exception())
        asyncio.get_running_loop().call_later(LINGER, self._stream.close)

    async def _respond(self) -> None:
        http, light = self._http, self._http.is_light(self._path)
        http.busy += 1
        http.running += not light
        status, sent = 0, 0
        try:
            closing = http.stopping
            if closing:
                answer = error_answer(503, "The server is shutting down")
            elif not light and http.running > http.limits.threads:
                answer = error_answer(429, f"The server has {http.limits.threads} requests at hand already")
            elif self._method == "OPTIONS" and self._shared:
                answer = Answer(200, "text/plain", [])  # a browser asks before the request of another site's page
            else:
                answer = await self._http.in_thread(light, lambda: http.answer(self._request()))
            status = answer.status
            sent = await self._send(answer, light, closing)
        except (iostream.StreamClosedError, TimeoutError):
            self._stream.close()
        except Exception:
            log.exception("%s %s failed", self._method, self._path[:200])
            self._stream.close()
        finally:
            http.busy -= 1
            http.running -= not light
            self._forget()
            self._connections.set_busy(self._stream, False)
            self._log(status, sent)

    def _request(self) -> Request:
        body = b"".join(self._pieces)
        self._pieces = []
        return Request(self._method, self._path, body, self._cancellation)

    async def _send(self, answer: Answer, light: bool, closing: bool) -> int:
        """Writes the answer; a short one in one piece, which has a length that is known."""
        pieces = iter(answer.pieces)
        end = time.monotonic() + self._http.limits.timeout
        content, more = await self._http.in_thread(light, lambda: _some_of(pieces))
        closing = closing or (more and self._version == "HTTP/1.0")  # which has no other end of a body
        headers = _headers(answer.kind, None if more else len(content), closing)
        headers.update(self._shared)
        line = _status_line(answer.status)
        head = self._method == "HEAD"
        sent = 0
        async with asyncio.timeout(end - time.monotonic()):
            await self._connection.write_headers(line, headers, None if head else content)
            while more and not head:
                sent += len(content)
                content, more = await self._http.in_thread(light, lambda: _some_of(pieces))
                if content:
                    await self._connection.write(content)
        self._connection.finish()
        if closing:
            self._stream.close()
        return 0 if head else sent + len(content)

    def _forget(self) -> None:
        """Gives the body's bytes back."""
        self._http.bytes -= self.size
        self.size, self._pieces = 0, []

    def _log(self, status: int, sent: int) -> None:
        if self._http.limits.access_log:
            milliseconds = 1e3 * (time.monotonic() - self._started)
            request = f"{self._method} {self._path[:500]}"
            access_log.info("REST %s %r %d %d bytes %.1f ms", self._peer, request, status, sent, milliseconds)


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= LONGEST_NUMBER


def _status_line(status: int) -> httputil.ResponseStartLine:
    return httputil.ResponseStartLine("HTTP/1.1", status, httputil.responses.get(status, "Unknown"))


def _headers(kind: str, length: int | None, close: bool) -> httputil.HTTPHeaders:
    headers = httputil.HTTPHeaders({"Content-Type": kind, "X-Content-Type-Options": "nosniff"})
    if kind.startswith("text/html"):
        headers["Content-Security-Policy"] = "frame-ancestors 'none'"
    if length is not None:
        headers["Content-Length"] = str(length)
    if close:
        headers["Connection"] = "close"
    return headers


def _some_of(pieces: Iterator[bytes], size: int = 2**18) -> tuple[bytes, bool]:
    """The next pieces, joined, and whether there may be more."""
    some, total = [], 0
    for piece in pieces:
        some.append(piece)
        total += len(piece)
        if total >= size:
            return b"".join(some), True
    return b"".join(some), False
