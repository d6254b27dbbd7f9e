"""A server as a process of its own, as users start it."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time

from tests.serving.conftest import Connection

ENVIRONMENT = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "2"}


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


class Process:
    """``python -m serving.server`` with the given flags, and perhaps fewer open files than this process may have."""

    def __init__(self, *flags: str, open_files: int | None = None) -> None:
        command = [sys.executable, "-m", "serving.server", *flags]
        if open_files is not None:
            limit = f"import resource, os, sys; resource.setrlimit(resource.RLIMIT_NOFILE, ({open_files},) * 2)"
            command = [sys.executable, "-c", f"{limit}; os.execv(sys.argv[1], sys.argv[1:])", *command]
        self.process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=ENVIRONMENT)
        self.lines: list[str] = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        self.lines.extend(self.process.stderr)

    @property
    def log(self) -> str:
        return "".join(self.lines)

    def wait_until_serving(self, seconds: float = 240.0) -> Connection:
        end = time.monotonic() + seconds
        while not (match := re.search(r"Serving: gRPC port (\w+), REST port (\w+)", self.log)):
            assert time.monotonic() < end, self.log
            assert self.process.poll() is None, self.log
            time.sleep(0.05)
        port, rest = (None if text == "None" else int(text) for text in match.groups())
        return Connection(port, rest)

    def memory_megabytes(self) -> float:
        with open(f"/proc/{self.process.pid}/status") as file:
            return next(int(line.split()[1]) for line in file if line.startswith("VmRSS")) / 1024

    def send(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def wait(self, seconds: float = 120.0) -> int:
        code = self.process.wait(seconds)
        self._reader.join(10)
        return code


@contextlib.contextmanager
def serving_process(*flags: str, open_files: int | None = None):
    process = Process(*flags, open_files=open_files)
    try:
        yield process
    finally:
        if process.process.poll() is None:
            process.process.kill()
        process.wait()
