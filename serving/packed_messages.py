"""Messages that clients have packed: what a hundred kilobytes unfold to is counted while they do."""

from __future__ import annotations

import zlib
from collections.abc import Callable

PIECE = 2**16  # bytes
GZIP, ZLIB = b"\x1f\x8b", b"\x78"
EITHER = 32 + zlib.MAX_WBITS  # the unpacker finds out which


def unpacked(content: bytes, count: Callable[[int], None]) -> bytes:
    """A message without its packing, if it has one.

    It is known by its first bytes: a field of number 3 and of a kind that does not exist, or of number 15, which no
    request has.

    Args:
        content: as it came.
        count: is told the bytes of each piece as soon as it is unpacked; what it raises ends the work.

    Example:

    >>> sizes = []
    >>> unpacked(zlib.compress(b"request"), sizes.append), sizes
    (b'request', [7])
    """
    if not content.startswith((GZIP, ZLIB)):
        return content
    unpacker, pieces, view, at = zlib.decompressobj(EITHER), list[bytes](), memoryview(content), 0
    try:
        while not unpacker.eof:
            # What the unpacker has not read it copies: it is given little at a time.
            given: bytes | memoryview = unpacker.unconsumed_tail
            if not given:
                given = view[at : at + PIECE]
                at += len(given)
            piece = unpacker.decompress(given, PIECE)
            if not piece and not given and not unpacker.eof:
                return content  # it is cut short: whoever parses it says so
            count(len(piece))
            pieces.append(piece)
    except zlib.error:
        return content
    return b"".join(pieces)
