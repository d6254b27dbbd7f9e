"""SavedModels through TensorFlow's C API: the loader and the session that TF-Serving itself runs on.

Only the public functions of ``tensorflow/c/c_api.h`` are used, from the library that Python's TensorFlow has loaded
already. A call releases Python's global interpreter lock while the session runs, and deleting a model frees all of its
memory.
"""

from __future__ import annotations

import ctypes
import functools
import math
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.core.protobuf import config_pb2, meta_graph_pb2

from serving import c_strings

OK, CANCELLED, DEADLINE_EXCEEDED, RESOURCE_EXHAUSTED, UNIMPLEMENTED, INTERNAL = 0, 1, 4, 8, 12, 13
THREADS = 32 + 2 * (os.cpu_count() or 1)


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
        "TF_SetConfig": (None, [pointer, text, size, pointer]),
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
        "TF_NewImportGraphDefOptions": (pointer, []),
        "TF_DeleteImportGraphDefOptions": (None, [pointer]),
        "TF_ImportGraphDefOptionsSetPrefix": (None, [pointer, text]),
        "TF_GraphImportGraphDef": (None, [pointer, ctypes.POINTER(_Buffer), pointer, pointer]),
        "TF_NewOperation": (pointer, [pointer, text, text]),
        "TF_AddInput": (None, [pointer, _Output]),
        "TF_AddInputList": (None, [pointer, ctypes.POINTER(_Output), integer]),
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
            config = _config().SerializeToString()
            with _Status() as status:
                library.TF_SetConfig(options, config, len(config), status.pointer)
                status.check()
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
        self,
        feeds: Mapping[str, np.ndarray],
        fetches: Sequence[str],
        timeout_ms: float | None = None,
        targets: Sequence[str] = (),
        in_this_thread: bool = False,
    ) -> list[np.ndarray]:
        """Runs the graph.

        Args:
            feeds: arrays of numbers by the names of tensors (``"name:0"``).
            fetches: names of the tensors to return.
            timeout_ms: the run stops with DEADLINE_EXCEEDED after this many milliseconds; ``None`` for no limit.
            targets: names of operations to run besides.
            in_this_thread: do not wait for the session's threads, which may be at work.
        """
        library = _library()
        arrays = [np.ascontiguousarray(array) if array.ndim else array for array in feeds.values()]
        inputs = (_Output * len(arrays))(*map(self._output, feeds))
        outputs = (_Output * len(fetches))(*map(self._output, fetches))
        operations = (ctypes.c_void_p * len(targets))(*map(self._operation, targets))
        tensors = (ctypes.c_void_p * len(arrays))()
        results = (ctypes.c_void_p * len(fetches))()
        options = _run_options(timeout_ms, in_this_thread)
        try:
            for i, array in enumerate(arrays):
                tensors[i] = _new_tensor(array)
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
                    operations,
                    len(targets),
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

    def add(self, graph: bytes, prefix: str) -> None:
        """Adds the nodes of a serialised GraphDef, with a prefix before their names."""
        library = _library()
        buffer = made(library.TF_NewBufferFromString(graph, len(graph)), "a buffer")
        options = library.TF_NewImportGraphDefOptions()
        try:
            library.TF_ImportGraphDefOptionsSetPrefix(made(options, "options"), prefix.encode())
            with _Status() as status:
                library.TF_GraphImportGraphDef(self._graph, buffer, options, status.pointer)
                status.check()
        finally:
            library.TF_DeleteBuffer(buffer)
            if options:
                library.TF_DeleteImportGraphDefOptions(options)

    def add_enqueue(self, name: str, queue: str, value: str, after: Sequence[str]) -> None:
        """Adds a node that puts a tensor into a queue after other operations have run."""
        library = _library()
        inputs = self._output(queue), (_Output * 1)(self._output(value))
        before = [self._operation(operation) for operation in after]
        description = made(library.TF_NewOperation(self._graph, b"QueueEnqueueV2", name.encode()), "an operation")
        library.TF_AddInput(description, inputs[0])
        library.TF_AddInputList(description, inputs[1], 1)
        for operation in before:
            library.TF_AddControlInput(description, operation)
        with _Status() as status:
            library.TF_FinishOperation(description, status.pointer)
            status.check()

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
        return _Output(self._operation(operation), int(index or 0))

    def _operation(self, name: str) -> int:
        found = _library().TF_GraphOperationByName(self._graph, name.encode())
        if not found:
            raise SessionError(INTERNAL, f"The graph has no operation {name!r}")
        return found


def _config() -> config_pb2.ConfigProto:
    """Threads that take turns with operations, shared by all sessions.

    A chain of small operations keeps its thread until the end. With one for each core, as usual, nothing else would
    begin while as many chains run: no short request, and not even the node that stops a run.
    """
    config = config_pb2.ConfigProto()
    config.session_inter_op_thread_pool.add(num_threads=THREADS, global_name="serving")
    config.experimental.disable_thread_spinning = True  # the cores are for those that compute
    return config


def _run_options(timeout_ms: float | None, in_this_thread: bool) -> Any:
    """A buffer with the options of a run; ``None`` if there are none."""
    if timeout_ms is None and not in_this_thread:
        return None
    settings = config_pb2.RunOptions(inter_op_thread_pool=-1 if in_this_thread else 0)
    if timeout_ms is not None:
        settings.timeout_in_ms = max(1, int(timeout_ms))  # zero would mean that there is no limit
    content = settings.SerializeToString()
    return made(_library().TF_NewBufferFromString(content, len(content)), "a buffer")


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
