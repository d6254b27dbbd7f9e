"""Arrays of tensor messages, and back."""

from __future__ import annotations

import math

import numpy as np
import tensorflow as tf
from tensorflow.core.framework import tensor_pb2, types_pb2

from serving.errors import invalid
from tf_wcd.export import wire_format

# A few bytes can ask for an array of any size (one value, to be repeated): there must be a limit.
MAX_TENSOR_BYTES = 2**28
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


def to_array(proto: tensor_pb2.TensorProto, name: str) -> np.ndarray:
    """The array of a message.

    Args:
        proto: the message, with any content.
        name: name of the input, for error messages.

    Raises:
        ServingError: INVALID_ARGUMENT for anything that is not a tensor of numbers.
    """
    field = _FIELDS.get(proto.dtype)
    sizes = [dim.size for dim in proto.tensor_shape.dim]
    if field is None:
        raise invalid(f"tensor parsing error: {name}: unsupported type {_type_name(proto.dtype)}")
    if proto.tensor_shape.unknown_rank or any(size < 0 for size in sizes) or len(sizes) > 32:
        raise invalid(f"tensor parsing error: {name}: bad shape {sizes[:33]}")
    dtype = np.dtype(tf.as_dtype(proto.dtype).as_numpy_dtype)
    count = math.prod(sizes)
    if math.prod(max(1, size) for size in sizes) > 2**40:  # NumPy has no array of such a shape, even without elements
        raise invalid(f"tensor parsing error: {name}: bad shape {sizes}")
    if count * dtype.itemsize > MAX_TENSOR_BYTES:
        raise invalid(f"tensor parsing error: {name}: {count} elements are more than this server takes")
    if proto.tensor_content:
        if len(proto.tensor_content) != count * dtype.itemsize:
            raise invalid(f"tensor parsing error: {name}: {len(proto.tensor_content)} bytes for the shape {sizes}")
        return np.frombuffer(proto.tensor_content, dtype).reshape(sizes)
    values = getattr(proto, field)
    try:
        given = np.fromiter(values, dtype, min(len(values), count))
    except OverflowError:
        raise invalid(f"tensor parsing error: {name}: a value does not fit into {dtype.name}") from None
    # TensorFlow's short form: the last value stands for all that follow.
    missing = count - len(given)
    if missing:
        given = np.concatenate([given, np.full(missing, given[-1] if len(given) else 0, dtype)])
    return given.reshape(sizes)


def to_proto(array: np.ndarray) -> tensor_pb2.TensorProto:
    """The message of an array, with its values in the typed field, as TF-Serving answers."""
    number = tf.as_dtype(array.dtype).as_datatype_enum
    proto = tensor_pb2.TensorProto(dtype=number)
    for size in array.shape:
        proto.tensor_shape.dim.add(size=size)
    if number in _RAW and array.size:
        content = np.ascontiguousarray(array).tobytes()
        proto.MergeFromString(wire_format.field(_RAW[number], content))
    else:
        getattr(proto, _FIELDS[number]).extend(array.ravel().tolist())
    return proto


def _type_name(number: int) -> str:
    return types_pb2.DataType.Name(number) if number in types_pb2.DataType.values() else str(number)
