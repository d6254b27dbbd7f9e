"""A client of gRPC that sends a part of its message: HTTP/2 by hand, since no library would do it."""

from __future__ import annotations

import contextlib
import socket
import struct
import time

DATA, HEADERS, RESET, SETTINGS, PING, GOAWAY, WINDOW_UPDATE = 0, 1, 3, 4, 6, 7, 8
ACK, END_HEADERS = 1, 4
INITIAL_WINDOW = 4  # a setting
MOST = 16_384  # bytes of a frame


def _frame(kind: int, flags: int, stream: int, content: bytes = b"") -> bytes:
    return struct.pack(">I", len(content))[1:] + bytes([kind, flags]) + struct.pack(">I", stream) + content


def _header(name: str, value: str) -> bytes:
    """As it is, without compression."""
    return b"\0" + b"".join(bytes([len(text)]) + text.encode() for text in (name, value))


class HalfSent:
    """One call to a method, whose message is announced, and of which as much is sent as the server lets in.

    Args:
        port: of the server.
        method: path of the method.
        size: bytes of the message, of which the last one is never sent.
    """

    def __init__(self, port: int, method: str, size: int) -> None:
        self._left = memoryview(b"\0" + struct.pack(">I", size) + bytes(size - 1))
        self._window = self._stream_window = 65_535
        self._initial, self._received = 65_535, b""
        self.ended = False
        self.sent = 0
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=20)
        names = {":method": "POST", ":scheme": "http", ":path": method, ":authority": "localhost"}
        names |= {"content-type": "application/grpc", "te": "trailers"}
        head = b"".join(_header(name, value) for name, value in names.items())
        preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
        self._socket.sendall(preface + _frame(SETTINGS, 0, 0) + _frame(HEADERS, END_HEADERS, 1, head))

    def send(self, seconds: float) -> None:
        """Sends, and reads what the server says, until all but the last byte is sent, the call ends, or time is up."""
        end = time.monotonic() + seconds
        while not self.ended and time.monotonic() < end:
            size = min(MOST, self._window, self._stream_window, len(self._left))
            if size > 0:
                with contextlib.suppress(TimeoutError):
                    self._socket.settimeout(20)
                    self._write(_frame(DATA, 0, 1, self._left[:size].tobytes()))
                self._left = self._left[size:]
                self._window -= size
                self._stream_window -= size
                self.sent += size
            else:
                self._read()

    def close(self) -> None:
        self._socket.close()

    def _write(self, content: bytes) -> None:
        try:
            self._socket.sendall(content)
        except ConnectionError:
            self.ended = True

    def _read(self) -> None:
        self._socket.settimeout(0.1)
        try:
            content = self._socket.recv(2**16)
        except TimeoutError:
            return
        except ConnectionError:
            content = b""
        self.ended |= not content
        self._received += content
        while len(self._received) >= 9 and len(self._received) >= 9 + int.from_bytes(self._received[:3], "big"):
            size = int.from_bytes(self._received[:3], "big")
            kind, flags, stream = struct.unpack(">BBI", self._received[3:9])
            self._take(kind, flags, stream, self._received[9 : 9 + size])
            self._received = self._received[9 + size :]

    def _take(self, kind: int, flags: int, stream: int, content: bytes) -> None:
        if kind == SETTINGS and not flags & ACK:
            for name, value in struct.iter_unpack(">HI", content):
                if name == INITIAL_WINDOW:
                    self._stream_window += value - self._initial
                    self._initial = value
            self._write(_frame(SETTINGS, ACK, 0))
        elif kind == PING and not flags & ACK:
            self._write(_frame(PING, ACK, 0, content))
        elif kind == WINDOW_UPDATE and stream == 0:
            self._window += int.from_bytes(content, "big")
        elif kind == WINDOW_UPDATE:
            self._stream_window += int.from_bytes(content, "big")
        elif kind in (RESET, GOAWAY):
            self.ended = True
