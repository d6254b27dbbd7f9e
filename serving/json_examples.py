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


def members() -> dict[str, Callable[[Reader], Any]]:
    """Readers of the members that hold examples, each of which becomes a message as soon as it is read."""

    def examples(reader: Reader) -> Any:
        found: list[example_pb2.Example] = []
        with reader.lists():
            if reader.peek() != b"[":
                return reader.value()
            reader.elements(lambda value: found.append(_example(value)))
        return found

    def context(reader: Reader) -> Any:
        with reader.lists():
            return _example(reader.value())

    return {"examples": examples, "context": context}


def to_request(document: Mapping[str, Any], spec: model_pb2.ModelSpec, method: str) -> Any:
    """The message of a request."""
    if "examples" not in document:
        raise invalid("When method is classify, key 'examples' is expected and was not found")
    examples = document["examples"]
    if not isinstance(examples, list):
        raise invalid("Expecting 'examples' value to be an list/array")
    if not examples:
        raise invalid("'examples' value is an empty array")
    given = input_pb2.Input()
    if "context" in document:
        given.example_list_with_context.context.CopyFrom(document["context"])
        given.example_list_with_context.examples.extend(examples)
    else:
        given.example_list.examples.extend(examples)
    if method == "classify":
        return classification_pb2.ClassificationRequest(model_spec=spec, input=given)
    return regression_pb2.RegressionRequest(model_spec=spec, input=given)


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


def _example(value: Any) -> example_pb2.Example:
    if not isinstance(value, dict):
        raise invalid(f"Example must be JSON object but got JSON {_kind(value)}")
    example = example_pb2.Example()
    for name, content in value.items():
        example.features.feature[name].CopyFrom(_feature(name, content))
    return example


def _feature(name: str, content: Any) -> feature_pb2.Feature:
    feature = feature_pb2.Feature()
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
        return feature
    for item in content if isinstance(content, list) else [content]:
        feature.bytes_list.value.append(_bytes(name, item))
    return feature


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
