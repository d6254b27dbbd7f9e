"""What XLA has compiled, kept in a folder for later processes: ``TF_WCD_XLA_CACHE=folder`` in the environment.

XLA writes an entry atomically and compares the whole program when it reads one. It does not compare the processor, nor
TensorFlow's version, and an entry that is cut short ends a training as if its data had run out. So each combination
of machine, version and options has a subfolder of its own, and entries that are cut short are removed first.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import platform
from pathlib import Path

import tensorflow as tf

VARIABLE = "TF_WCD_XLA_CACHE"
_BYTES = 2  # how a protocol buffer marks a field that has its length in front


def use_cache(folder: str | Path) -> Path:
    """Has XLA keep what it compiles for the CPU; returns the subfolder for this machine and version.

    XLA reads its options once: a process that has compiled already goes on without.

    Args:
        folder: where the subfolders are; made if it is not there.
    """
    own = Path(folder).expanduser().absolute() / f"tensorflow-{tf.__version__}-{_fingerprint()}"
    try:
        own.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OSError(
            f"The folder of {VARIABLE} cannot be made ({error}). Name another one. Received: {str(folder)!r}"
        ) from error
    for entry in own.glob("*.pb"):
        with contextlib.suppress(FileNotFoundError):  # another process may have removed it
            if not is_complete(entry):
                entry.unlink()
    options = f"--tf_xla_persistent_cache_directory={own} --tf_xla_persistent_cache_device_types=CPU"
    flags = os.environ.get("TF_XLA_FLAGS", "")
    if "tf_xla_persistent_cache_directory" not in flags:
        os.environ["TF_XLA_FLAGS"] = f"{flags} {options}".strip()
    return own


def is_complete(path: Path) -> bool:
    """Whether a file is a protocol buffer whose fields fill it to its end, as far as their lengths tell.

    Example:

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "entry.pb"
    >>> for content in (bytes([10, 3, 1, 2, 3]), bytes([10, 3, 1, 2]), b""):
    ...     _ = path.write_bytes(content)
    ...     print(is_complete(path))
    True
    False
    False
    """
    size, position = path.stat().st_size, 0
    with path.open("rb") as file:
        while position < size:
            tag, length = _varint(file.read(10))
            if not tag:
                return False
            kind, position = tag & 7, position + length
            file.seek(position)
            value, length = _varint(file.read(10))
            if not length or kind not in (0, _BYTES):
                return False
            position += length + (value if kind == _BYTES else 0)
            file.seek(position)
    return size > 0 and position == size


def _varint(content: bytes) -> tuple[int, int]:
    """The number that some bytes begin with, and how many of them it takes; 0 of them where it is cut short."""
    value = 0
    for i, byte in enumerate(content):
        value |= (byte & 0x7F) << 7 * i
        if not byte & 0x80:
            return value, i + 1
    return 0, 0


def _fingerprint() -> str:
    """Of all that compiled code depends on beside the program."""
    processor = [platform.system(), platform.machine(), platform.processor(), str(os.cpu_count())]
    with contextlib.suppress(OSError):
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        processor += sorted({line for line in lines if line.startswith(("model name", "flags", "Features"))})
    known = [*processor, os.environ.get("XLA_FLAGS", "")]
    return hashlib.sha256("\n".join(known).encode()).hexdigest()[:16]
