"""The files of one version of a model: whether they are all there, and whether they may be read."""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
from pathlib import Path

import grpc
from tensorflow.core.protobuf import saved_model_pb2

from serving.errors import ServingError
from tf_wcd.export import manifest

MOST_FILES = 10_000  # and folders: links can make endlessly many of a few
_VARIABLES = {"VarHandleOp", "VariableV2", "Variable"}
State = tuple[tuple[str, int, int], ...]


def state_of(path: Path) -> State:
    """Names, sizes and times of the files in a folder, which change while it is copied."""
    return tuple((str(file), status.st_size, status.st_mtime_ns) for file, status in _files(path)[0])


def check_version(path: Path, roots: Sequence[Path] | None = None) -> None:
    """Refuses what is not a whole SavedModel of plain files.

    Args:
        path: folder of the version.
        roots: folders that every file must be in, after all links are followed; ``None`` for anywhere.

    Raises:
        ServingError: UNAVAILABLE for what may still be on its way, PERMISSION_DENIED for files outside the roots,
            FAILED_PRECONDITION for what is no file.
    """
    files, are_all = _files(path)
    if not are_all:
        raise _refused(f"{path} has more than {MOST_FILES} files and folders")
    for file, status in files:
        # A pipe would be waited for without end, a device read without end.
        if not stat.S_ISREG(status.st_mode):
            raise _refused(f"{file} is not a regular file")
        if roots is not None and not is_below(file, roots):
            raise ServingError(grpc.StatusCode.PERMISSION_DENIED, f"{file} is not below the roots for reloading")
    if not (path / "saved_model.pb").exists():
        return  # there is another form, and TensorFlow itself says best what it misses
    different = manifest.difference(path)
    if different is not None:
        raise incomplete(f"{path} is incomplete: {different}")
    if not (path / "variables" / "variables.index").exists() and _has_variables(path / "saved_model.pb"):
        # TensorFlow takes such a folder for a model without variables, and fails at each request.
        raise incomplete(f"{path} is incomplete: its graph has variables, and variables/variables.index is missing")


def is_below(path: str | Path, roots: Sequence[Path]) -> bool:
    """Whether a path is one of the roots or inside one, after all links are followed.

    Example:

    >>> is_below("/models/rbm/1", [Path("/models")]), is_below("/models/../etc", [Path("/models")])
    (True, False)
    """
    real = Path(os.path.realpath(path))
    return any(real.is_relative_to(os.path.realpath(root)) for root in roots)


def _files(path: Path) -> tuple[list[tuple[Path, os.stat_result]], bool]:
    """The files of a folder, links followed, and whether these are all of them."""
    found: list[tuple[Path, os.stat_result]] = []
    seen = 0
    for folder, folders, names in os.walk(path, followlinks=True):
        seen += len(folders) + len(names)
        if seen > MOST_FILES:
            return found, False
        for name in sorted(names):
            file = Path(folder, name)
            try:
                found.append((file, file.stat()))
            except OSError:
                continue  # it vanished, or is a link to nothing
    return found, True


def _has_variables(file: Path) -> bool:
    try:
        saved = saved_model_pb2.SavedModel.FromString(file.read_bytes())
    except Exception:  # the message's own error, whose type is private; TensorFlow says what is wrong
        return False
    for graph in saved.meta_graphs:
        nodes = [graph.graph_def.node, *(function.node_def for function in graph.graph_def.library.function)]
        if any(node.op in _VARIABLES for part in nodes for node in part):
            return True
    return False


def incomplete(message: str) -> ServingError:
    """The error for files that may still be on their way."""
    return ServingError(grpc.StatusCode.UNAVAILABLE, message)


def _refused(message: str) -> ServingError:
    return ServingError(grpc.StatusCode.FAILED_PRECONDITION, message)
