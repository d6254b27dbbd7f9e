"""Tensors of strings in TensorFlow's C API: an array of 24-byte structures, each with its text or a pointer to it."""

from __future__ import annotations

import ctypes
import functools
from pathlib import Path

import numpy as np
import tensorflow as tf

SIZE = 24  # bytes of TF_TString


@functools.cache
def _library() -> ctypes.CDLL:
    library = ctypes.CDLL(str(Path(tf.sysconfig.get_lib()) / "libtensorflow_cc.so.2"))
    pointer, size = ctypes.c_void_p, ctypes.c_size_t
    for name, result, arguments in (
        ("TF_StringInit", None, [pointer]),
        ("TF_StringCopy", None, [pointer, ctypes.c_char_p, size]),
        ("TF_StringDealloc", None, [pointer]),
        ("TF_StringGetDataPointer", pointer, [pointer]),
        ("TF_StringGetSize", size, [pointer]),
    ):
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    return library


def write_strings(address: int, values: np.ndarray) -> None:
    """Copies byte strings into a tensor's memory; `free_strings` frees them."""
    library = _library()
    for i, value in enumerate(values.ravel()):
        library.TF_StringInit(address + SIZE * i)
        library.TF_StringCopy(address + SIZE * i, value, len(value))


def read_strings(address: int, count: int) -> list[bytes]:
    """Copies of a tensor's byte strings."""
    library = _library()
    places = [address + SIZE * i for i in range(count)]
    return [
        ctypes.string_at(library.TF_StringGetDataPointer(place), library.TF_StringGetSize(place)) for place in places
    ]


def free_strings(address: int, count: int) -> None:
    """Frees what `write_strings` has copied. TensorFlow frees the strings of its own tensors."""
    for i in range(count):
        _library().TF_StringDealloc(address + SIZE * i)
