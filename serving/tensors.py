"""Arrays of tensor messages, and back."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

import grpc
import numpy as np
import tensorflow as tf
from tensorflow.core.framework import tensor_pb2, types_pb2

from serving.errors import ServingError, invalid
from tf_wcd.export import wire_format

# A few bytes can ask for an array of any size (one value, to be repeated): there must be a limit.
MAX_TENSOR_BYTES = 2**28
PIECE = 2**16  # values
# Where a message keeps the values of each type.
_FIELDS = {
    types_pb2.DT_FLOAT: "float_val",
    types_pb2.DT_DOUBLE: "double_val",
    types_pb2.DT_INT32: "int_val",
    types_pb2.DT_INT16: "int_val",
    types_pb2.DT_INT8: "int_val",
    types_pb2.DT_UINT8: "int_val",
    types_pb2.DT_UINT16: "int_val",
    types_pb2.DT_INT64: "int64_val",
    types_pb2.DT_UINT32: "uint32_val",
    types_pb2.DT_UINT64: "uint64_val",
    types_pb2.DT_BOOL: "bool_val",
}
_RAW = {types_pb2.DT_FLOAT: 5, types_pb2.DT_DOUBLE: 6}  # fields whose packed form is the array's memory


class Declared(NamedTuple):
    """What a message says of its tensor, before any memory is taken for it.

    Attributes:
        shape: its shape.
        dtype: its type.
        size: bytes of the array.
    """

    shape: list[int]
    dtype: np.dtype
    size: int


def declared(proto: tensor_pb2.TensorProto, name: str) -> Declared:
    """Shape, type and size of a message's tensor, checked, with nothing expanded.

    Args:
        proto: the message, with any content.
        name: name of the input, for error messages.

    Raises:
        ServingError: INVALID_ARGUMENT for anything that is not a tensor of numbers.
    """
    sizes = [dim.size for dim in proto.tensor_shape.dim[:33]]
    if proto.dtype not in _FIELDS:
        raise invalid(f"tensor parsing error: {name}: unsupported type {_type_name(proto.dtype)}")
    if proto.tensor_shape.unknown_rank or any(size < 0 for size in sizes) or len(sizes) > 32:
        raise invalid(f"tensor parsing error: {name}: bad shape {sizes}")
    dtype = np.dtype(tf.as_dtype(proto.dtype).as_numpy_dtype)
    count = math.prod(sizes)
    if math.prod(max(1, size) for size in sizes) > 2**40:  # NumPy has no array of such a shape, even without elements
        raise invalid(f"tensor parsing error: {name}: bad shape {sizes}")
    size = count * dtype.itemsize
    if size > MAX_TENSOR_BYTES:
        raise invalid(f"tensor parsing error: {name}: {count} elements are more than this server takes")
    if proto.tensor_content and len(proto.tensor_content) != size:
        raise invalid(f"tensor parsing error: {name}: {len(proto.tensor_content)} bytes for the shape {sizes}")
    return Declared(sizes, dtype, size)


def to_array(proto: tensor_pb2.TensorProto, name: str) -> np.ndarray:
    """The array of a message; see `declared`."""
    shape, dtype, size = declared(proto, name)
    if proto.tensor_content:
        return np.frombuffer(proto.tensor_content, dtype).reshape(shape)
    values = getattr(proto, _FIELDS[proto.dtype])
    array = np.empty(size // dtype.itemsize, dtype)
    given = min(len(values), len(array))
    try:
        # In pieces: other threads have their turn in between.
        for start in range(0, given, PIECE):
            array[start : min(start + PIECE, given)] = values[start : min(start + PIECE, given)]
    except OverflowError:
        raise invalid(f"tensor parsing error: {name}: a value does not fit into {dtype.name}") from None
    # TensorFlow's short form: the last value stands for all that follow.
    array[given:] = array[given - 1] if given else 0
    return array.reshape(shape)


def to_proto(array: np.ndarray) -> tensor_pb2.TensorProto:
    """The message of an array, with its values in the typed field, as TF-Serving answers."""
    proto = tensor_pb2.TensorProto()
    fill(proto, array)
    return proto


def check_types(arrays: Mapping[str, np.ndarray]) -> None:
    """Raises ServingError for outputs of a type that has no message here, texts say."""
    for name, array in arrays.items():
        dtype = tf.as_dtype(array.dtype)
        if dtype.as_datatype_enum not in _FIELDS:
            text = f"The output {name} is of the type {dtype.name}, which this server does not answer with"
            raise ServingError(grpc.StatusCode.UNIMPLEMENTED, text)


def fill(proto: tensor_pb2.TensorProto, array: np.ndarray) -> None:
    """Makes an empty message that of an array: large ones exist once more on the way, and no oftener."""
    proto.dtype = tf.as_dtype(array.dtype).as_datatype_enum
    for size in array.shape:
        proto.tensor_shape.dim.add(size=size)
    if proto.dtype in _RAW and array.size:
        content = np.ascontiguousarray(array).reshape(-1).data.cast("B")
        proto.MergeFromString(wire_format.field(_RAW[proto.dtype], content))
    else:
        getattr(proto, _FIELDS[proto.dtype]).extend(array.ravel().tolist())


def _type_name(number: int) -> str:
    return types_pb2.DataType.Name(number) if number in types_pb2.DataType.values() else str(number)
