"""Requests and answers of the REST interface: JSON to tensors and back."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow_serving.apis import predict_pb2

from serving.errors import ServingError, invalid
from serving.tensors import MAX_TENSOR_BYTES, to_array, to_proto


def parse_object(body: bytes) -> dict[str, Any]:
    """The JSON object of a request's body."""
    if not body:
        raise invalid("JSON Parse error: The document is empty")
    try:
        document = json.loads(body)
    except (ValueError, RecursionError) as error:
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


def _from_instances(rows: Any, types: Mapping[str, int]) -> dict[str, np.ndarray]:
    if not isinstance(rows, list):
        raise invalid("Excepting 'instances' to be an list/array")
    if not rows:
        raise invalid("No values in 'instances' array")
    if isinstance(rows[0], dict):
        for number, row in enumerate(rows):
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
        return {name: _array([row[name] for row in rows], name, number) for name, number in types.items()}
    if len(types) > 1:
        raise invalid(
            "instances is a plain list, but expecting list of objects as multiple input tensors required as per "
            "tensorinfo_map"
        )
    if any(isinstance(row, dict) for row in rows):
        raise invalid("Expecting value/list but got object in the input list")
    ((name, number),) = types.items()
    return {name: _array(rows, name, number)}


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
    return {name: _array(columns[name], name, number) for name, number in types.items()}


def _array(value: Any, name: str, number: int) -> np.ndarray:
    dtype = tf.as_dtype(number)
    try:
        array = np.asarray(value)
    except (ValueError, RecursionError):
        raise invalid(f"Encountered list at unexpected size in the JSON of the input: {name}") from None
    if not array.size:
        array = array.astype(dtype.as_numpy_dtype)
    # Python's numbers: integers, floats or Booleans, all of one kind. Anything else is an array of objects or text.
    allowed = {"f": "fiu", "i": "iu", "u": "iu", "b": "b"}.get(np.dtype(dtype.as_numpy_dtype).kind, "")
    if array.dtype.kind not in allowed:
        raise invalid(f"JSON Value of the input {name} is not of expected type: {dtype.name}")
    wide = array
    array = array.astype(dtype.as_numpy_dtype)
    if array.dtype.kind in "iu" and not np.array_equal(array, wide):
        raise invalid(f"JSON Value of the input {name} is not of expected type: {dtype.name}")
    if array.nbytes > MAX_TENSOR_BYTES:
        raise invalid(f"The input {name} is larger than this server takes")
    return array


def to_request(spec: Any, inputs: Mapping[str, np.ndarray]) -> predict_pb2.PredictRequest:
    request = predict_pb2.PredictRequest(model_spec=spec)
    for name, array in inputs.items():
        request.inputs[name].CopyFrom(to_proto(array))
    return request


def from_response(response: predict_pb2.PredictResponse, by_rows: bool) -> bytes:
    """The body of the answer, in the form that the request had."""
    arrays = {name: to_array(proto, name) for name, proto in sorted(response.outputs.items())}
    if not by_rows:
        columns: Any = {name: _listed(array) for name, array in arrays.items()}
        return json.dumps({"outputs": next(iter(columns.values())) if len(columns) == 1 else columns}).encode()
    lengths = {array.shape[0] if array.ndim else None for array in arrays.values()}
    if len(lengths) > 1 or None in lengths:
        raise ServingError(*_NO_ROWS)
    lists = {name: _listed(array) for name, array in arrays.items()}
    if len(lists) == 1:
        return json.dumps({"predictions": next(iter(lists.values()))}).encode()
    rows = [dict(zip(lists, values, strict=True)) for values in zip(*lists.values(), strict=True)]
    return json.dumps({"predictions": rows}).encode()


def _listed(array: np.ndarray) -> Any:
    """Nested lists. Numbers in float32 are written with the digits of float32, not with those of float64."""
    if array.dtype == np.float32 and not np.array_equal(array, np.rint(array)):
        array = array.astype("U32").astype("float64")
    return array.tolist()


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) < 200 else f"{text[:200]}..."


_NO_ROWS = (invalid("").code, "Tensors of the answer have different numbers of rows: use 'inputs'")
