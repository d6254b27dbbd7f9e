"""`tf.Example`s in JSON, as the REST methods ``:classify`` and ``:regress`` take them, and their answers."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from tensorflow.core.example import example_pb2, feature_pb2
from tensorflow_serving.apis import classification_pb2, input_pb2, model_pb2, regression_pb2

from serving.errors import invalid
from serving.json_reader import Reader, Unusable

EXAMPLES = 10_000  # of one request
# In memory, as far as their messages go, which is far more than the two characters of an empty object.
EXAMPLE_BYTES, FEATURE_BYTES, GROWTH = 600, 200, 16


def members(given: input_pb2.Input, count: Callable[[int], None]) -> dict[str, Callable[[Reader], Any]]:
    """Readers of the members that hold examples, each of which goes into the message as soon as it is read.

    Args:
        given: the message.
        count: is told the bytes of memory that each example takes; what it raises ends the reading.
    """
    content = given.example_list_with_context

    def examples(reader: Reader) -> Any:
        del content.examples[:]
        with reader.lists():
            if reader.peek() != b"[":
                raise invalid("Expecting 'examples' value to be an list/array")
            reader.elements(take)
        return content.examples

    def take(value: Any) -> None:
        if len(content.examples) >= EXAMPLES:
            raise invalid(f"A request may have at most {EXAMPLES} examples. Received: more of them")
        _fill(content.examples.add(), value, count)

    def context(reader: Reader) -> Any:
        content.context.Clear()
        with reader.lists():
            _fill(content.context, reader.value(), count)
        return content.context

    return {"examples": examples, "context": context}


def new_request(method: str) -> Any:
    """A message to read the examples into."""
    return (classification_pb2.ClassificationRequest if method == "classify" else regression_pb2.RegressionRequest)()


def complete(request: Any, document: Mapping[str, Any], spec: model_pb2.ModelSpec) -> None:
    """Ends the message of a document whose examples it has already."""
    if "examples" not in document:
        raise invalid("When method is classify, key 'examples' is expected and was not found")
    if not document["examples"]:
        raise invalid("'examples' value is an empty array")
    request.model_spec.CopyFrom(spec)


def from_classes(response: classification_pb2.ClassificationResponse) -> bytes:
    rows = response.result.classifications
    return _results([[[entry.label, _digits(entry.score)] for entry in row.classes] for row in rows])


def from_values(response: regression_pb2.RegressionResponse) -> bytes:
    return _results([_digits(entry.value) for entry in response.result.regressions])


def _results(rows: list[Any]) -> bytes:
    return json.dumps({"results": rows}).encode()


def _digits(value: float) -> float:
    """A number with the digits of float32."""
    return float(str(np.float32(value)))


def _fill(example: example_pb2.Example, value: Any, count: Callable[[int], None]) -> None:
    if not isinstance(value, dict):
        raise invalid(f"Example must be JSON object but got JSON {_kind(value)}")
    count(EXAMPLE_BYTES + FEATURE_BYTES * len(value))
    for name, content in value.items():
        _fill_feature(example.features.feature[name], name, content)
    count(GROWTH * example.ByteSize())


def _fill_feature(feature: feature_pb2.Feature, name: str, content: Any) -> None:
    if isinstance(content, Unusable):
        raise invalid(f"Unexpected element type in feature: {name}")
    array = np.asarray(content) if isinstance(content, bool | int | float) else content
    if isinstance(array, np.ndarray):
        if array.ndim > 1:
            raise invalid(f"Feature: {name} has element with unexpected JSON type: Array")
        if array.dtype.kind == "f" and array.size:
            feature.float_list.value.extend(array.ravel().tolist())
        elif array.dtype.kind in "bi" or (array.dtype.kind == "u" and array.max() < 2**63):
            feature.int64_list.value.extend(map(int, array.ravel().tolist()))
        elif array.size:
            raise invalid(f"Feature: {name} has uint64 element. Only int64 is supported.")
        return
    for item in content if isinstance(content, list) else [content]:
        feature.bytes_list.value.append(_bytes(name, item))


def _bytes(name: str, item: Any) -> bytes:
    if isinstance(item, str):
        return item.encode("utf-8", "surrogatepass")
    if isinstance(item, dict) and set(item) == {"b64"} and isinstance(item["b64"], str):
        try:
            return base64.b64decode(item["b64"], validate=True)
        except (binascii.Error, ValueError):
            raise invalid(f"Feature: {name} has base64 text that cannot be decoded") from None
    raise invalid(f"Feature: {name} has element with unexpected JSON type: {_kind(item)}")


def _kind(value: Any) -> str:
    names = {str: "String", bool: "Bool", type(None): "Null", dict: "Object", list: "Array", np.ndarray: "Array"}
    return names.get(type(value), "Number" if isinstance(value, int | float) else "Array")
