"""Requests and answers of the REST interface: JSON to tensors and back."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow_serving.apis import predict_pb2

from serving.errors import ServingError, invalid
from serving.json_reader import Column, ParseError, Reader, Unusable
from serving.tensors import MAX_TENSOR_BYTES, to_proto

MOST_NAMES = 1000  # of inputs in a row: each has a column, which keeps up to 64 KB as Python's objects
PIECE = 2**12  # numbers that are written in one step, in which no other thread runs


class Rows:
    """The array ``"instances"``: rows, each an object or each a value."""

    def __init__(self, reader: Reader) -> None:
        self.number = 0
        self.first: Any = None
        self.odd: tuple[int, Any] | None = None  # the first row whose names are not those of row 0
        self.columns: dict[str, Column] = {}
        self.values: Any = None
        self.named = reader.lists_objects()
        if self.named:
            reader.elements(self._take)
        else:
            self.values = reader.value()

    def _take(self, row: Any) -> None:
        if self.number == 0:
            self.first = row
            if isinstance(row, dict) and len(row) > MOST_NAMES:
                raise invalid(f"A row may have at most {MOST_NAMES} inputs. Received: {len(row)}")
            self.columns = {name: Column() for name in row}
        if not isinstance(row, dict) or row.keys() != self.columns.keys():
            self.odd = self.odd or (self.number, row)
        else:
            for name, value in row.items():
                self.columns[name].append(value)
        self.number += 1


def parse_object(
    body: bytes, check: Callable[[], None] = lambda: None, members: dict[str, Callable[[Reader], Any]] | None = None
) -> dict[str, Any]:
    """The JSON object of a request's body.

    Args:
        body: the text.
        check: called again and again while a large body is read.
        members: functions that read members of the object, beside ``"instances"``.
    """
    if not body:
        raise invalid("JSON Parse error: The document is empty")
    try:
        document = Reader(body, {"instances": Rows, **(members or {})}, check).document()
    except ParseError as error:
        raise invalid(f"JSON Parse error: {error}") from None
    if not isinstance(document, dict):
        raise invalid(f"JSON Value: {_shown(document)} Is not object")
    signature = document.get("signature_name", "")
    if not isinstance(signature, str):
        raise invalid(
            f"JSON Value: {_shown(document)} not formatted correctly. 'signature_name' key must be a string value."
        )
    try:
        signature.encode()
    except UnicodeEncodeError:
        # Half of a surrogate pair is not a character: Python's JSON accepts it, protocol buffers do not.
        raise invalid(
            f"JSON Parse error: The surrogate pair in string is invalid. Received: {_shown(signature)}"
        ) from None
    return document


def to_inputs(document: Mapping[str, Any], types: Mapping[str, int]) -> tuple[dict[str, np.ndarray], bool]:
    """Arrays by input, and whether the request listed them row by row.

    Args:
        document: with ``"instances"`` (a list of rows) or ``"inputs"`` (whole tensors).
        types: type of each input of the signature.
    """
    if "instances" in document and "inputs" in document:
        raise invalid("Not formatted correctly expecting only one of 'inputs' or 'instances' keys to exist")
    if "instances" in document:
        return _from_instances(document["instances"], types), True
    if "inputs" in document:
        return _from_columns(document["inputs"], types), False
    raise invalid("Missing 'inputs' or 'instances' key")


def _from_instances(rows: Rows, types: Mapping[str, int]) -> dict[str, np.ndarray]:
    if rows.named:
        _check_row(0, rows.first, types)
        if rows.odd is not None:
            _check_row(*rows.odd, types)
        # One column after the other, so that both forms of all of them are never in memory together.
        return {name: _array(rows.columns.pop(name).array(), name, number) for name, number in types.items()}
    values = rows.values
    if not isinstance(values, np.ndarray | Unusable):
        raise invalid("Excepting 'instances' to be an list/array")
    if isinstance(values, np.ndarray) and not len(values):
        raise invalid("No values in 'instances' array")
    if len(types) > 1:
        raise invalid(
            "instances is a plain list, but expecting list of objects as multiple input tensors required as per "
            "tensorinfo_map"
        )
    if isinstance(values, Unusable) and values.objects:
        raise invalid("Expecting value/list but got object in the input list")
    ((name, number),) = types.items()
    return {name: _array(values, name, number)}


def _check_row(number: int, row: Any, types: Mapping[str, int]) -> None:
    if not isinstance(row, dict):
        raise invalid(f"Expecting object but got list at item {number} of input list")
    for name in row:
        if name not in types:
            raise invalid(
                f"Failed to process element: {number} key: {name} of 'instances' list. "
                f"Error: INVALID_ARGUMENT: JSON object: does not have named input: {name}"
            )
    if set(row) != set(types):
        raise invalid(
            f"Failed to process element: {number} of 'instances' list. JSON object: {_shown(row)} "
            f"keys must be equal to: {','.join(sorted(types))}"
        )


def _from_columns(columns: Any, types: Mapping[str, int]) -> dict[str, np.ndarray]:
    if not isinstance(columns, dict):
        if len(types) > 1:
            raise invalid(
                "inputs is a plain value/list, but expecting an object as multiple input tensors required as per "
                "tensorinfo_map"
            )
        ((name, number),) = types.items()
        return {name: _array(columns, name, number)}
    for name in types:
        if name not in columns:
            raise invalid(f"Missing named input: {name} in 'inputs' object.")
    return {name: _array(columns.pop(name), name, number) for name, number in types.items()}


def _array(value: Any, name: str, number: int) -> np.ndarray:
    dtype = tf.as_dtype(number)
    wrong = invalid(f"JSON Value of the input {name} is not of expected type: {dtype.name}")
    if isinstance(value, Unusable):
        if value.ragged:
            raise invalid(f"Encountered list at unexpected size in the JSON of the input: {name}")
        raise wrong
    if not isinstance(value, np.ndarray | bool | int | float):
        raise wrong
    wide = np.asarray(value)
    kind = np.dtype(dtype.as_numpy_dtype)
    if not wide.size:
        wide = wide.astype(kind)
    if wide.size * kind.itemsize > MAX_TENSOR_BYTES:
        raise invalid(f"The input {name} is larger than this server takes")
    # Integers, floats or Booleans, all of one kind.
    if wide.dtype.kind not in {"f": "fiu", "i": "iu", "u": "iu", "b": "b"}.get(kind.kind, ""):
        raise wrong
    with np.errstate(over="ignore"):
        array = wide.astype(kind)
    if kind.kind in "iu" and not np.array_equal(array, wide):
        raise wrong
    return array


def to_request(spec: Any, inputs: Mapping[str, np.ndarray]) -> predict_pb2.PredictRequest:
    request = predict_pb2.PredictRequest(model_spec=spec)
    for name, array in inputs.items():
        request.inputs[name].CopyFrom(to_proto(array))
    return request


def from_arrays(outputs: Mapping[str, np.ndarray], by_rows: bool) -> Iterator[bytes]:
    """The body of the answer, in the form that the request had, piece by piece.

    Raises:
        ServingError: before the first piece, if the answer has no such form.
    """
    arrays = dict(sorted(outputs.items()))
    if not by_rows:
        return _columns(arrays)
    lengths = {array.shape[0] if array.ndim else None for array in arrays.values()}
    if len(lengths) > 1 or None in lengths:
        raise ServingError(*_NO_ROWS)
    return _rows(arrays)


def _columns(arrays: Mapping[str, np.ndarray]) -> Iterator[bytes]:
    if len(arrays) == 1:
        (array,) = arrays.values()
        yield b'{"outputs": '
        yield from _value(array)
    else:
        yield b'{"outputs": {'
        for number, (name, array) in enumerate(arrays.items()):
            yield f"{', ' if number else ''}{json.dumps(name)}: ".encode()
            yield from _value(array)
        yield b"}"
    yield b"}"


def _value(array: np.ndarray) -> Iterator[bytes]:
    if array.size <= PIECE or not array.ndim:
        yield json.dumps(_listed(array)).encode()
        return
    yield b"["
    for first, last in _steps(len(array), array.size):
        yield _joined(_listed(array[first:last]), first)
    yield b"]"


def _rows(arrays: Mapping[str, np.ndarray]) -> Iterator[bytes]:
    count = len(next(iter(arrays.values())))
    yield b'{"predictions": ['
    for first, last in _steps(count, sum(array.size for array in arrays.values())):
        lists = {name: _listed(array[first:last]) for name, array in arrays.items()}
        if len(lists) == 1:
            yield _joined(next(iter(lists.values())), first)
        else:
            rows = [dict(zip(lists, values, strict=True)) for values in zip(*lists.values(), strict=True)]
            yield _joined(rows, first)
    yield b"]}"


def _steps(rows: int, size: int) -> Iterator[tuple[int, int]]:
    """First and last row of each piece."""
    step = max(1, PIECE * rows // max(1, size))
    for first in range(0, rows, step):
        yield first, min(rows, first + step)


def _joined(values: list[Any], first: int) -> bytes:
    """Elements of a longer list, after the ``first`` ones."""
    return (", " if first else "").encode() + json.dumps(values)[1:-1].encode()


def _listed(array: np.ndarray) -> Any:
    """Nested lists. Numbers in float32 are written with the digits of float32, not with those of float64."""
    if array.dtype == np.float32 and not np.array_equal(array, np.rint(array)):
        array = array.astype("U32").astype("float64")
    return array.tolist()


def _shown(value: Any) -> str:
    """The beginning of a value, for an error message."""
    if isinstance(value, dict):
        items = itertools.islice(value.items(), 20)
        text = "{" + ", ".join(f"{_shown(name)}: {_shown(item)}" for name, item in items) + "}"
    elif isinstance(value, np.ndarray):
        text = repr(value[:20].tolist())
    elif isinstance(value, Unusable | Rows):
        text = "[...]"
    else:
        text = repr(value[:200] if isinstance(value, str) else value)
    return text if len(text) < 200 else f"{text[:200]}..."


_NO_ROWS = (invalid("").code, "Tensors of the answer have different numbers of rows: use 'inputs'")
