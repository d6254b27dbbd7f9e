"""The functions of TensorFlow's C API that the server calls, from the library that Python's TensorFlow has loaded."""

from __future__ import annotations

import ctypes
import functools
from pathlib import Path
from typing import Any

import tensorflow as tf

OK, CANCELLED, DEADLINE_EXCEEDED, RESOURCE_EXHAUSTED, UNIMPLEMENTED, INTERNAL = 0, 1, 4, 8, 12, 13


class SessionError(Exception):
    """A TensorFlow status other than OK. The codes are those of gRPC."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code, self.message = code, message


class Output(ctypes.Structure):
    _fields_ = [("operation", ctypes.c_void_p), ("index", ctypes.c_int)]


class Buffer(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p),
        ("length", ctypes.c_size_t),
        ("deallocator", ctypes.c_void_p),
    ]


@functools.cache
def library() -> ctypes.CDLL:
    functions = ctypes.CDLL(str(Path(tf.sysconfig.get_lib()) / "libtensorflow_cc.so.2"))
    pointer, text, integer, size = ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int, ctypes.c_size_t
    signatures: dict[str, tuple[Any, list[Any]]] = {
        "TF_NewStatus": (pointer, []),
        "TF_DeleteStatus": (None, [pointer]),
        "TF_GetCode": (integer, [pointer]),
        "TF_Message": (text, [pointer]),
        "TF_NewSessionOptions": (pointer, []),
        "TF_DeleteSessionOptions": (None, [pointer]),
        "TF_SetConfig": (None, [pointer, text, size, pointer]),
        "TF_NewGraph": (pointer, []),
        "TF_DeleteGraph": (None, [pointer]),
        "TF_NewBuffer": (ctypes.POINTER(Buffer), []),
        "TF_NewBufferFromString": (ctypes.POINTER(Buffer), [text, size]),
        "TF_DeleteBuffer": (None, [ctypes.POINTER(Buffer)]),
        "TF_LoadSessionFromSavedModel": (
            pointer,
            [
                pointer,
                ctypes.POINTER(Buffer),
                text,
                ctypes.POINTER(text),
                integer,
                pointer,
                ctypes.POINTER(Buffer),
                pointer,
            ],
        ),
        "TF_CloseSession": (None, [pointer, pointer]),
        "TF_DeleteSession": (None, [pointer, pointer]),
        "TF_GraphOperationByName": (pointer, [pointer, text]),
        "TF_NewImportGraphDefOptions": (pointer, []),
        "TF_DeleteImportGraphDefOptions": (None, [pointer]),
        "TF_ImportGraphDefOptionsSetPrefix": (None, [pointer, text]),
        "TF_GraphImportGraphDef": (None, [pointer, ctypes.POINTER(Buffer), pointer, pointer]),
        "TF_NewOperation": (pointer, [pointer, text, text]),
        "TF_AddInput": (None, [pointer, Output]),
        "TF_AddInputList": (None, [pointer, ctypes.POINTER(Output), integer]),
        "TF_AddControlInput": (None, [pointer, pointer]),
        "TF_FinishOperation": (pointer, [pointer, pointer]),
        "TF_AllocateTensor": (pointer, [integer, ctypes.POINTER(ctypes.c_int64), integer, size]),
        "TF_DeleteTensor": (None, [pointer]),
        "TF_TensorData": (pointer, [pointer]),
        "TF_TensorByteSize": (size, [pointer]),
        "TF_TensorType": (integer, [pointer]),
        "TF_NumDims": (integer, [pointer]),
        "TF_Dim": (ctypes.c_int64, [pointer, integer]),
        "TF_SessionRun": (
            None,
            [
                pointer,
                ctypes.POINTER(Buffer),
                ctypes.POINTER(Output),
                ctypes.POINTER(pointer),
                integer,
                ctypes.POINTER(Output),
                ctypes.POINTER(pointer),
                integer,
                ctypes.POINTER(pointer),
                integer,
                ctypes.POINTER(Buffer),
                pointer,
            ],
        ),
    }
    for name, (result, arguments) in signatures.items():
        function = getattr(functions, name)
        function.restype, function.argtypes = result, arguments
    return functions


def made(pointer: Any, what: str) -> Any:
    """A pointer that the library returned, checked: it is null where there is no memory."""
    if not pointer:
        raise SessionError(RESOURCE_EXHAUSTED, f"There is no memory for {what}")
    return pointer


class Status:
    """The status of one call; `check` raises it as an error."""

    def __enter__(self) -> Status:
        self.pointer = made(library().TF_NewStatus(), "a status")
        return self

    def __exit__(self, *_: object) -> None:
        library().TF_DeleteStatus(self.pointer)

    def check(self) -> None:
        code = library().TF_GetCode(self.pointer)
        if code != OK:
            raise SessionError(code, library().TF_Message(self.pointer).decode("utf-8", "replace"))
