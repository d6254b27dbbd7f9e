"""The wire format of protocol buffers, as far as it is written by hand."""

from __future__ import annotations


def field(number: int, content: bytes | memoryview) -> bytes:
    """A field of bytes, a string or a message.

    Example:

    >>> field(1, b"ab")
    b'\\n\\x02ab'
    """
    return b"".join((_varint(number << 3 | 2), _varint(len(content)), content))


def _varint(number: int) -> bytes:
    parts = bytearray()
    while number > 127:
        parts.append(number & 127 | 128)
        number >>= 7
    return bytes([*parts, number])
