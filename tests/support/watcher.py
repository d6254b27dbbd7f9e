"""Another client of a server, in a process of its own: how long status and health take while others keep it busy.

Run as a program it asks until its input ends, and prints the seconds of each answer.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator

import grpc

GET_STATUS = "/tensorflow.serving.ModelService/GetModelStatus"
CHECK = "/grpc.health.v1.Health/Check"
PAUSE, TIMEOUT = 0.05, 20.0


@contextlib.contextmanager
def watching(port: int, status_request: bytes, rest_port: int | None = None) -> Iterator[dict[str, list[float]]]:
    """Yields a dictionary that has the times of each kind of answers after the block.

    Args:
        port: of gRPC.
        status_request: what to ask for the status.
        rest_port: ask there as well, by a new connection each time.
    """
    command = [sys.executable, __file__, str(port), status_request.hex(), str(rest_port or 0)]
    times: dict[str, list[float]] = {}
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        try:
            yield times
        finally:
            times.update(json.loads(process.communicate("", timeout=60)[0]))


def rest_status(port: int) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=TIMEOUT)
    connection.request("GET", "/v1/models/rbm")
    response = connection.getresponse()
    assert response.status == 200, response.read()
    response.read()
    connection.close()


def main(port: str, status_request: str, rest_port: str) -> None:
    over = threading.Event()
    threading.Thread(target=lambda: (sys.stdin.read(), over.set()), daemon=True).start()
    with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
        status, check = channel.unary_unary(GET_STATUS), channel.unary_unary(CHECK)
        ask: dict[str, Callable[[], object]] = {
            "status": lambda: status(bytes.fromhex(status_request), timeout=TIMEOUT),
            "health": lambda: check(b"", timeout=TIMEOUT),
        }
        if int(rest_port):
            ask["REST"] = lambda: rest_status(int(rest_port))
        times: dict[str, list[float]] = {name: [] for name in ask}
        first = True
        while not over.wait(PAUSE):
            for name, method in ask.items():
                start = time.monotonic()
                answer = method()
                times[name].append(time.monotonic() - start)
                assert name != "health" or answer == b"\x08\x01"  # SERVING
            if first:
                print("ready", flush=True)
                first = False
    print(json.dumps(times))


if __name__ == "__main__":
    main(*sys.argv[1:])
