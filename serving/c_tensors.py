"""Arrays as tensors of TensorFlow's C API, and back."""

from __future__ import annotations

import ctypes
import math

import numpy as np
import tensorflow as tf

from serving import c_strings
from serving.c_library import UNIMPLEMENTED, SessionError, library, made


def new_tensor(array: np.ndarray) -> int:
    """A tensor with a copy of an array; `delete_tensor` frees it."""
    functions = library()
    dtype = tf.as_dtype(array.dtype)
    shape = (ctypes.c_int64 * array.ndim)(*array.shape)
    size = c_strings.SIZE * array.size if dtype == tf.string else array.nbytes
    allocated = functions.TF_AllocateTensor(dtype.as_datatype_enum, shape, array.ndim, size)
    tensor = made(allocated, f"a tensor of {size} bytes")
    if array.nbytes and dtype == tf.string:
        c_strings.write_strings(made(functions.TF_TensorData(tensor), "a tensor's data"), array)
    elif array.nbytes:
        ctypes.memmove(made(functions.TF_TensorData(tensor), "a tensor's data"), array.ctypes.data, array.nbytes)
    return tensor


def delete_tensor(tensor: int) -> None:
    """Frees a tensor of `new_tensor`. TensorFlow frees the texts of its own tensors."""
    functions = library()
    if functions.TF_TensorType(tensor) == tf.string.as_datatype_enum:
        c_strings.free_strings(functions.TF_TensorData(tensor), math.prod(_shape_of(tensor)))
    functions.TF_DeleteTensor(tensor)


def _shape_of(tensor: int) -> list[int]:
    functions = library()
    return [functions.TF_Dim(tensor, i) for i in range(functions.TF_NumDims(tensor))]


def array_of(tensor: int) -> np.ndarray:
    """A copy of a tensor of numbers, or of texts as byte strings."""
    functions = library()
    dtype = tf.as_dtype(functions.TF_TensorType(tensor))
    shape = _shape_of(tensor)
    if dtype == tf.string:
        texts = np.empty(math.prod(shape), object)
        if texts.size:
            texts[:] = c_strings.read_strings(made(functions.TF_TensorData(tensor), "a tensor's data"), texts.size)
        return texts.reshape(shape)
    if dtype.as_numpy_dtype is object:
        raise SessionError(UNIMPLEMENTED, f"Tensors of the type {dtype.name} are not supported")
    array = np.empty(shape, dtype.as_numpy_dtype)
    if array.nbytes:
        ctypes.memmove(array.ctypes.data, made(functions.TF_TensorData(tensor), "a tensor's data"), array.nbytes)
    return array
