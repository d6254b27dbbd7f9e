"""SavedModels through TensorFlow's C API: the loader and the session that TF-Serving itself runs on.

Only the public functions of ``tensorflow/c/c_api.h`` are used, from the library that Python's TensorFlow has loaded
already. A call releases Python's global interpreter lock while the session runs, and deleting a model frees all of its
memory.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from tensorflow.core.protobuf import config_pb2, meta_graph_pb2

from serving.c_library import INTERNAL, Output, SessionError, Status, library, made
from serving.c_tensors import array_of, delete_tensor, new_tensor

THREADS = 32 + 2 * (os.cpu_count() or 1)


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
        functions = library()
        self._session: int | None = None
        self._graph: int | None = None
        self._found: dict[str, Output] = {}  # by the names of tensors
        options = meta_graph = None
        tags = (ctypes.c_char_p * 1)(b"serve")
        try:
            self._graph = made(functions.TF_NewGraph(), "a graph")
            options = made(functions.TF_NewSessionOptions(), "a session's options")
            meta_graph = made(functions.TF_NewBuffer(), "a buffer")
            config = _config().SerializeToString()
            with Status() as status:
                functions.TF_SetConfig(options, config, len(config), status.pointer)
                status.check()
            with Status() as status:
                self._session = functions.TF_LoadSessionFromSavedModel(
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
                functions.TF_DeleteSessionOptions(options)
            if meta_graph is not None:
                functions.TF_DeleteBuffer(meta_graph)
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
        functions = library()
        arrays = [np.ascontiguousarray(array) if array.ndim else array for array in feeds.values()]
        inputs = (Output * len(arrays))(*map(self._output, feeds))
        outputs = (Output * len(fetches))(*map(self._output, fetches))
        operations = (ctypes.c_void_p * len(targets))(*map(self._operation, targets))
        tensors = (ctypes.c_void_p * len(arrays))()
        results = (ctypes.c_void_p * len(fetches))()
        options = _run_options(timeout_ms, in_this_thread)
        try:
            for i, array in enumerate(arrays):
                tensors[i] = new_tensor(array)
            with Status() as status:
                functions.TF_SessionRun(
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
            return [array_of(made(tensor, "an answer")) for tensor in results]
        finally:
            for tensor in filter(None, tensors):
                delete_tensor(tensor)
            for tensor in filter(None, results):
                functions.TF_DeleteTensor(tensor)
            if options is not None:
                functions.TF_DeleteBuffer(options)

    def add(self, graph: bytes, prefix: str) -> None:
        """Adds the nodes of a serialised GraphDef, with a prefix before their names."""
        functions = library()
        buffer = made(functions.TF_NewBufferFromString(graph, len(graph)), "a buffer")
        options = functions.TF_NewImportGraphDefOptions()
        try:
            functions.TF_ImportGraphDefOptionsSetPrefix(made(options, "options"), prefix.encode())
            with Status() as status:
                functions.TF_GraphImportGraphDef(self._graph, buffer, options, status.pointer)
                status.check()
        finally:
            functions.TF_DeleteBuffer(buffer)
            if options:
                functions.TF_DeleteImportGraphDefOptions(options)

    def add_enqueue(self, name: str, queue: str, value: str, after: Sequence[str]) -> None:
        """Adds a node that puts a tensor into a queue after other operations have run."""
        functions = library()
        inputs = self._output(queue), (Output * 1)(self._output(value))
        before = [self._operation(operation) for operation in after]
        description = made(functions.TF_NewOperation(self._graph, b"QueueEnqueueV2", name.encode()), "an operation")
        functions.TF_AddInput(description, inputs[0])
        functions.TF_AddInputList(description, inputs[1], 1)
        for operation in before:
            functions.TF_AddControlInput(description, operation)
        with Status() as status:
            functions.TF_FinishOperation(description, status.pointer)
            status.check()

    def close(self) -> None:
        """Frees the model's memory. No run may be in progress."""
        functions = library()
        if self._session is not None:
            with Status() as status:
                functions.TF_CloseSession(self._session, status.pointer)
                functions.TF_DeleteSession(self._session, status.pointer)
            self._session = None
        if self._graph is not None:
            functions.TF_DeleteGraph(self._graph)
            self._graph = None

    def _output(self, name: str) -> Output:
        found = self._found.get(name)
        if found is None:
            operation, _, index = name.partition(":")
            found = self._found[name] = Output(self._operation(operation), int(index or 0))
        return found

    def _operation(self, name: str) -> int:
        found = library().TF_GraphOperationByName(self._graph, name.encode())
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
    return made(library().TF_NewBufferFromString(content, len(content)), "a buffer")
