"""SavedModels through TensorFlow's C API: the loader and the session that TF-Serving itself runs on.

Only the public functions of ``tensorflow/c/c_api.h`` are used, from the library that Python's TensorFlow has loaded
already. A call releases Python's global interpreter lock while the session runs, and deleting a model frees all of its
memory.
"""

from __future__ import annotations

import ctypes
import functools
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.core.protobuf import config_pb2, meta_graph_pb2

from serving import c_strings

OK, RESOURCE_EXHAUSTED, UNIMPLEMENTED, INTERNAL = 0, 8, 12, 13


class SessionError(Exception):
    """A TensorFlow status other than OK. The codes are those of gRPC."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code, self.message = code, message


class _Output(ctypes.Structure):
    _fields_ = [("operation", ctypes.c_void_p), ("index", ctypes.c_int)]


class _Buffer(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p),
        ("length", ctypes.c_size_t),
        ("deallocator", ctypes.c_void_p),
    ]


@functools.cache
def _library() -> ctypes.CDLL:
    library = ctypes.CDLL(str(Path(tf.sysconfig.get_lib()) / "libtensorflow_cc.so.2"))
    pointer, text, integer, size = ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int, ctypes.c_size_t
    signatures: dict[str, tuple[Any, list[Any]]] = {
        "TF_NewStatus": (pointer, []),
        "TF_DeleteStatus": (None, [pointer]),
        "TF_GetCode": (integer, [pointer]),
        "TF_Message": (text, [pointer]),
        "TF_NewSessionOptions": (pointer, []),
        "TF_DeleteSessionOptions": (None, [pointer]),
        "TF_NewGraph": (pointer, []),
        "TF_DeleteGraph": (None, [pointer]),
        "TF_NewBuffer": (ctypes.POINTER(_Buffer), []),
        "TF_NewBufferFromString": (ctypes.POINTER(_Buffer), [text, size]),
        "TF_DeleteBuffer": (None, [ctypes.POINTER(_Buffer)]),
        "TF_LoadSessionFromSavedModel": (
            pointer,
            [
                pointer,
                ctypes.POINTER(_Buffer),
                text,
                ctypes.POINTER(text),
                integer,
                pointer,
                ctypes.POINTER(_Buffer),
                pointer,
            ],
        ),
        "TF_CloseSession": (None, [pointer, pointer]),
        "TF_DeleteSession": (None, [pointer, pointer]),
        "TF_GraphOperationByName": (pointer, [pointer, text]),
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
                ctypes.POINTER(_Buffer),
                ctypes.POINTER(_Output),
                ctypes.POINTER(pointer),
                integer,
                ctypes.POINTER(_Output),
                ctypes.POINTER(pointer),
                integer,
                ctypes.POINTER(pointer),
                integer,
                ctypes.POINTER(_Buffer),
                pointer,
            ],
        ),
    }
    for name, (result, arguments) in signatures.items():
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    return library


def made(pointer: Any, what: str) -> Any:
    """A pointer that the library returned, checked: it is null where there is no memory."""
    if not pointer:
        raise SessionError(RESOURCE_EXHAUSTED, f"There is no memory for {what}")
    return pointer


class _Status:
    """The status of one call; `check` raises it as an error."""

    def __enter__(self) -> _Status:
        self.pointer = made(_library().TF_NewStatus(), "a status")
        return self

    def __exit__(self, *_: object) -> None:
        _library().TF_DeleteStatus(self.pointer)

    def check(self) -> None:
        code = _library().TF_GetCode(self.pointer)
        if code != OK:
            raise SessionError(code, _library().TF_Message(self.pointer).decode("utf-8", "replace"))


class SavedModelSession:
    """A loaded SavedModel.

    Args:
        path: its folder.

    Attributes:
        meta_graph: the graph's description, with its signatures.

    Raises:
        SessionError: if it cannot be loaded.
    """

    def __init__(self, path: str | Path) -> None:
        library = _library()
        self._session: int | None = None
        self._graph: int | None = None
        options = meta_graph = None
        tags = (ctypes.c_char_p * 1)(b"serve")
        try:
            self._graph = made(library.TF_NewGraph(), "a graph")
            options = made(library.TF_NewSessionOptions(), "a session's options")
            meta_graph = made(library.TF_NewBuffer(), "a buffer")
            with _Status() as status:
                self._session = library.TF_LoadSessionFromSavedModel(
                    options, None, str(path).encode(), tags, 1, self._graph, meta_graph, status.pointer
                )
                status.check()
            made(self._session, "a session")
            content = ctypes.string_at(meta_graph.contents.data, meta_graph.contents.length)
            self.meta_graph = meta_graph_pb2.MetaGraphDef.FromString(content)
        except BaseException:
            self.close()
            raise
        finally:
            if options is not None:
                library.TF_DeleteSessionOptions(options)
            if meta_graph is not None:
                library.TF_DeleteBuffer(meta_graph)
        # The session has the graph by now; only the signatures are needed from here on.
        self.meta_graph.ClearField("graph_def")
        self.meta_graph.ClearField("object_graph_def")

    def run(
        self, feeds: Mapping[str, np.ndarray], fetches: Sequence[str], timeout_ms: float | None = None
    ) -> list[np.ndarray]:
        """Runs the graph.

        Args:
            feeds: arrays of numbers by the names of tensors (``"name:0"``).
            fetches: names of the tensors to return.
            timeout_ms: the run stops with DEADLINE_EXCEEDED after this many milliseconds; ``None`` for no limit.
        """
        library = _library()
        arrays = [np.ascontiguousarray(array) if array.ndim else array for array in feeds.values()]
        inputs = (_Output * len(arrays))(*map(self._output, feeds))
        outputs = (_Output * len(fetches))(*map(self._output, fetches))
        tensors = (ctypes.c_void_p * len(arrays))()
        results = (ctypes.c_void_p * len(fetches))()
        options = None
        try:
            for i, array in enumerate(arrays):
                tensors[i] = _new_tensor(array)
            if timeout_ms is not None:
                # Zero would mean that there is no limit.
                settings = config_pb2.RunOptions(timeout_in_ms=max(1, int(timeout_ms))).SerializeToString()
                options = made(library.TF_NewBufferFromString(settings, len(settings)), "a buffer")
            with _Status() as status:
                library.TF_SessionRun(
                    self._session,
                    options,
                    inputs,
                    tensors,
                    len(arrays),
                    outputs,
                    results,
                    len(fetches),
                    None,
                    0,
                    None,
                    status.pointer,
                )
                status.check()
            return [_array_of(made(tensor, "an answer")) for tensor in results]
        finally:
            for tensor in tensors:
                if tensor and library.TF_TensorType(tensor) == tf.string.as_datatype_enum:
                    c_strings.free_strings(library.TF_TensorData(tensor), math.prod(_shape_of(tensor)))
            for tensor in (*tensors, *results):
                if tensor:
                    library.TF_DeleteTensor(tensor)
            if options is not None:
                library.TF_DeleteBuffer(options)

    def close(self) -> None:
        """Frees the model's memory. No run may be in progress."""
        library = _library()
        if self._session is not None:
            with _Status() as status:
                library.TF_CloseSession(self._session, status.pointer)
                library.TF_DeleteSession(self._session, status.pointer)
            self._session = None
        if self._graph is not None:
            library.TF_DeleteGraph(self._graph)
            self._graph = None

    def _output(self, name: str) -> _Output:
        operation, _, index = name.partition(":")
        found = _library().TF_GraphOperationByName(self._graph, operation.encode())
        if not found:
            raise SessionError(INTERNAL, f"The graph has no operation {operation!r}")
        return _Output(found, int(index or 0))


def _new_tensor(array: np.ndarray) -> int:
    library = _library()
    dtype = tf.as_dtype(array.dtype)
    shape = (ctypes.c_int64 * array.ndim)(*array.shape)
    size = c_strings.SIZE * array.size if dtype == tf.string else array.nbytes
    allocated = library.TF_AllocateTensor(dtype.as_datatype_enum, shape, array.ndim, size)
    tensor = made(allocated, f"a tensor of {size} bytes")
    if array.nbytes and dtype == tf.string:
        c_strings.write_strings(made(library.TF_TensorData(tensor), "a tensor's data"), array)
    elif array.nbytes:
        ctypes.memmove(made(library.TF_TensorData(tensor), "a tensor's data"), array.ctypes.data, array.nbytes)
    return tensor


def _shape_of(tensor: int) -> list[int]:
    library = _library()
    return [library.TF_Dim(tensor, i) for i in range(library.TF_NumDims(tensor))]


def _array_of(tensor: int) -> np.ndarray:
    """A copy of a tensor of numbers, or of texts as byte strings."""
    library = _library()
    dtype = tf.as_dtype(library.TF_TensorType(tensor))
    shape = _shape_of(tensor)
    if dtype == tf.string:
        texts = np.empty(math.prod(shape), object)
        if texts.size:
            texts[:] = c_strings.read_strings(made(library.TF_TensorData(tensor), "a tensor's data"), texts.size)
        return texts.reshape(shape)
    if dtype.as_numpy_dtype is object:
        raise SessionError(UNIMPLEMENTED, f"Tensors of the type {dtype.name} are not supported")
    array = np.empty(shape, dtype.as_numpy_dtype)
    if array.nbytes:
        ctypes.memmove(array.ctypes.data, made(library.TF_TensorData(tensor), "a tensor's data"), array.nbytes)
    return array
