"""How much memory a request takes when it is parsed, judged by its bytes alone.

Arrays take what they take in the message. Many small parts, of two bytes each, take up to 24 times as much.
"""

from __future__ import annotations

WEIGHT = 24  # bytes in memory for each byte of a message of small parts
FIELDS = 1000  # of a request to predict; one that is made of arrays has some dozens
_DEPTH, _TENSOR = 3, 2  # request, entry of `inputs`, its tensor, the tensor's shape: each is field 2 of the one before
_PACKED = {7, 10, 11, 13, 16, 17}  # fields of a tensor: numbers of which each may take one byte, and eight in memory
_MESSAGES = {14, 15}  # fields of a tensor that hold further messages
_FIXED = {1: 8, 5: 4}  # sizes by wire type
_VARINT, _LENGTH = 0, 2


def predict_bytes(content: bytes) -> int:
    """Bytes that a PredictRequest may take in memory.

    Example:

    >>> from tensorflow_serving.apis import predict_pb2
    >>> request = predict_pb2.PredictRequest()
    >>> request.inputs["visible"].tensor_content = b"0" * 1000
    >>> predict_bytes(request.SerializeToString()) == request.ByteSize()
    True
    """
    dense = WEIGHT * len(content)
    fields = packed = 0
    parts = [(0, len(content), 0)]
    try:
        while parts:
            at, end, depth = parts.pop()
            while at < end:
                fields += 1
                if fields > FIELDS:
                    return dense
                tag, at = _varint(content, at, end)
                number, kind = tag >> 3, tag & 7
                if kind == _VARINT:
                    _, at = _varint(content, at, end)
                elif kind == _LENGTH:
                    size, at = _varint(content, at, end)
                    if size > end - at or (depth == _TENSOR and number in _MESSAGES):
                        return dense
                    if number == 2 and depth < _DEPTH:
                        parts.append((at, at + size, depth + 1))
                    elif depth == _TENSOR and number in _PACKED:
                        packed += size
                    at += size
                elif kind in _FIXED:
                    at += _FIXED[kind]
                else:
                    return dense
    except ValueError:
        return dense
    return len(content) + 7 * packed


def _varint(content: bytes, at: int, end: int) -> tuple[int, int]:
    """A number, and where it ends."""
    value = 0
    for shift in range(0, 70, 7):
        if at >= end:
            break
        byte = content[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, at
    raise ValueError("the number does not end")
