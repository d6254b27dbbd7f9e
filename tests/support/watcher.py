"""Another client of a server, in a process of its own: how long status and health take while others keep it busy.

Run as a program it asks until its input ends, and prints the seconds of each answer.
"""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import threading
import time
from collections.abc import Iterator

import grpc

GET_STATUS = "/tensorflow.serving.ModelService/GetModelStatus"
CHECK = "/grpc.health.v1.Health/Check"
PAUSE, TIMEOUT = 0.05, 20.0


@contextlib.contextmanager
def watching(port: int, status_request: bytes) -> Iterator[dict[str, list[float]]]:
    """Yields a dictionary that has the times of both kinds of answers after the block."""
    command = [sys.executable, __file__, str(port), status_request.hex()]
    times: dict[str, list[float]] = {}
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        try:
            yield times
        finally:
            times.update(json.loads(process.communicate("", timeout=60)[0]))


def main(port: str, status_request: str) -> None:
    over = threading.Event()
    threading.Thread(target=lambda: (sys.stdin.read(), over.set()), daemon=True).start()
    times: dict[str, list[float]] = {"status": [], "health": []}
    with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
        ask = {"status": (channel.unary_unary(GET_STATUS), bytes.fromhex(status_request))}
        ask["health"] = (channel.unary_unary(CHECK), b"")
        first = True
        while not over.wait(PAUSE):
            for name, (method, request) in ask.items():
                start = time.monotonic()
                answer = method(request, timeout=TIMEOUT)
                times[name].append(time.monotonic() - start)
                assert name == "status" or answer == b"\x08\x01"  # SERVING
            if first:
                print("ready", flush=True)
                first = False
    print(json.dumps(times))


if __name__ == "__main__":
    main(*sys.argv[1:])
