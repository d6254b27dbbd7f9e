"""HTTP/1.1 for the REST interface, by Tornado: what one client does must not harm the others.

One thread reads and writes all connections; requests are answered in threads of their own. RestLimits hold for each
request and for all together: headers and bodies have to arrive by a deadline, and when connections or memory run out,
those that have not finished their request give way, the oldest first.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable
from concurrent import futures
from typing import Any

from tornado import httputil, iostream
from tornado.httpserver import HTTPServer
from tornado.netutil import bind_sockets

from serving.http_exchange import LINGER, SMALL_BODY, Answer, Exchange, Request, RestLimits


class HttpServer:
    """A server in a thread of its own.

    Args:
        answer: answers a request, in another thread.
        is_light: of a path, whether it is answered without a model, by threads that requests to models do not use.
        address: host and port; port 0 for any free one.
        limits: what clients may use.
        largest_body: most bytes that a body can need, if that is less than the limit.

    Raises:
        OSError: if the port cannot be opened.
    """

    def __init__(
        self,
        answer: Callable[[Request], Answer],
        is_light: Callable[[str], bool],
        address: tuple[str, int],
        limits: RestLimits,
        largest_body: Callable[[], int],
    ) -> None:
        self.answer, self.is_light, self.limits, self.largest_body = answer, is_light, limits, largest_body
        self._sockets = bind_sockets(address[1], address[0], backlog=128)
        self.port: int = self._sockets[0].getsockname()[1]
        self._heavy = futures.ThreadPoolExecutor(limits.threads, thread_name_prefix="rest")
        self._light = futures.ThreadPoolExecutor(4, thread_name_prefix="rest-light")
        self.stopping = False  # open connections may still bring requests, which are refused
        self.busy = self.running = self.bytes = 0  # being answered; of these by models; bytes of all bodies
        self.arriving: dict[Exchange, None] = {}  # those whose body is not complete, the oldest first
        self._ready = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run()), name="rest", daemon=True)

    def start(self) -> None:
        self._thread.start()
        self._ready.wait(30)

    def stop(self, grace: float) -> None:
        """Accepts no more connections and requests, and waits for the answers in progress."""
        self.stopping = True
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._server.stop)
        else:
            for listener in self._sockets:
                listener.close()
        end = time.monotonic() + grace
        while self.busy and time.monotonic() < end:
            time.sleep(0.02)
        # The thread stays for a moment: it tells clients that are still connected.
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._loop.call_later, LINGER, self._end.set)

    async def _run(self) -> None:
        self._loop, self._end = asyncio.get_running_loop(), asyncio.Event()
        logging.getLogger("tornado.general").setLevel(logging.WARNING)  # malformed requests are no news
        limits = self.limits
        # Tornado's own limit of the body is only a second line: its refusals do not say why.
        self._server = Connections(
            self,
            decompress_request=True,
            idle_connection_timeout=limits.header_timeout,
            body_timeout=limits.timeout,
            max_header_size=2**14,
            max_body_size=limits.max_body + SMALL_BODY,
            max_buffer_size=2**17,
            chunk_size=2**16,
        )
        self._server.add_sockets(self._sockets)
        self._ready.set()
        await self._end.wait()
        await self._server.close_all_connections()
        for pool in (self._heavy, self._light):
            pool.shutdown(wait=False)

    async def in_thread(self, light: bool, work: Callable[[], Any]) -> Any:
        return await self._loop.run_in_executor(self._light if light else self._heavy, work)

    def make_room(self, wanted: Exchange, size: int) -> bool:
        """Whether so many more bytes of a body may be kept. Older bodies that are still incomplete give way."""
        while self.bytes + size > self.limits.max_bytes:
            oldest = next((other for other in self.arriving if other.size > SMALL_BODY and other is not wanted), None)
            if oldest is None:
                return False
            oldest.refuse(503, "The server has no memory left for this body: too many arrive at the same time")
        return True


class Connections(HTTPServer):
    """The connections, of which those without a complete request give way to new ones, the oldest first."""

    def initialize(self, http: HttpServer, **options: Any) -> None:  # type: ignore[override]
        self.http, self._idle = http, dict[iostream.IOStream, None]()
        self._open: set[iostream.IOStream] = set()
        super().initialize(_Delegate(self), **options)

    def handle_stream(self, stream: iostream.IOStream, address: tuple[Any, ...]) -> None:
        if len(self._open) >= self.http.limits.max_connections:
            if not self._idle:
                stream.close()
                return
            oldest = next(iter(self._idle))
            del self._idle[oldest]
            oldest.close()
        self._open.add(stream)
        self._idle[stream] = None
        super().handle_stream(stream, address)  # type: ignore[arg-type]

    def on_close(self, server_conn: Any) -> None:
        self._open.discard(server_conn.stream)
        self._idle.pop(server_conn.stream, None)
        super().on_close(server_conn)

    def set_busy(self, stream: iostream.IOStream, busy: bool) -> None:
        """Says whether a connection's request is being answered; it does not give way then."""
        if busy:
            self._idle.pop(stream, None)
        elif stream in self._open:
            self._idle[stream] = None


class _Delegate(httputil.HTTPServerConnectionDelegate):
    def __init__(self, connections: Connections) -> None:
        self._connections = connections

    def start_request(self, server_conn: Any, request_conn: Any) -> httputil.HTTPMessageDelegate:
        return Exchange(self._connections.http, self._connections, server_conn.stream, request_conn)
