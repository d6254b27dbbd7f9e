"""Hostile clients of REST, against a server in a process of its own: others are answered, and memory stays."""

import collections
import contextlib
import gzip
import http.client
import json
import socket
import threading
import time

import numpy as np
import pytest

from tests.serving.conftest import put
from tests.serving.test_attacks import attacked
from tests.support.served import small_rbm

pytestmark = pytest.mark.slow
PREDICT = "/v1/models/rbm:predict"
HEAD = f"POST {PREDICT} HTTP/1.1\r\nHost: localhost\r\n".encode()
WIDE = 784  # units: bodies may be as large as REST takes at all
ROW = {"visible": np.zeros([1, WIDE], "float32"), "seed": np.zeros(1, "int64"), "steps": np.ones(1, "int32")}
ROW["mask"] = np.ones([1, WIDE], "float32")


@pytest.fixture(scope="module")
def wide(tmp_path_factory):
    base = tmp_path_factory.mktemp("wide")
    small_rbm(n_v=WIDE, n_h=20, scale=0.05).export(base / "export", gibbs_steps=5)
    put(base / "export", base / "rbm", 1)
    return base / "rbm"


def post(port, body, headers=(), path=PREDICT):
    """The status, or ``None`` where the server has closed the connection before all was sent."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    try:
        connection.request("POST", path, body, dict(headers))
        response = connection.getresponse()
        response.read()
        return response.status
    except ConnectionError:
        return None
    finally:
        connection.close()


def at_once(count, work, seconds):
    """What several threads that work again and again get, counted."""
    seen, end = collections.Counter(), time.monotonic() + seconds

    def again():
        while time.monotonic() < end:
            seen[work()] += 1

    threads = [threading.Thread(target=again) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return seen


def test_connections_that_dribble_and_bodies_that_never_end(wide):
    """Twice as many heads as the server takes connections, and a hundred bodies of 8 MB but for their last byte."""
    with attacked(wide, "--rest_api_port=-1", one=ROW) as connection, contextlib.ExitStack() as stack:

        def opened():
            return stack.enter_context(socket.create_connection(("127.0.0.1", connection.rest_port), timeout=20))

        heads = [opened() for _ in range(1100)]
        half = b" " * (2**23 - 1)
        for number in range(100):
            with contextlib.suppress(OSError):
                body = opened()
                body.sendall(HEAD + b"Content-Length: %d\r\n\r\n" % 2**23 + half)
            for head in heads[number::100]:
                with contextlib.suppress(OSError):
                    head.sendall(b"GET /v1/models/rbm HTTP/1.1\r\nX: "[:20])
        for _ in range(10):
            for head in heads:
                with contextlib.suppress(OSError):
                    head.sendall(b"a")
            time.sleep(0.3)
        assert post(connection.rest_port, b'{"instances": [{"seed": 1}]}') == 200


def nested(members):
    """An object of so many small ones: a tenth of a kilobyte in memory for each ten bytes."""
    inside = ",".join(f'"{i:02}":{{}}' for i in range(100))
    return "{" + ",".join(f'"{i:06}":{{{inside}}}' for i in range(members // 100)) + "}"


@pytest.mark.parametrize(
    ("body", "headers", "statuses"),
    [
        (nested(2_500_000).encode(), {}, {400}),
        (b'{"inputs":' + b"[" * 2**24, {}, {400}),
        (b'{"inputs":[' + b"[]," * 10**6 + b"[]]}", {}, {400, 504}),
        (b'{"inputs":[' + b'"ab",' * 10**6 + b'"ab"]}', {}, {400, 504}),
        (b'{"inputs":"' + b"a" * 2**24 + b'"}', {}, {400}),
        (gzip.compress(bytes(2**28), 9), {"Content-Encoding": "gzip"}, {413, None}),
        (gzip.compress(b" " * (2**25 - 1), 9), {"Content-Encoding": "gzip"}, {400}),
    ],
    ids=["objects", "brackets", "lists", "texts", "text", "bomb", "spaces"],
)
def test_bodies_that_unfold(wide, body, headers, statuses):
    with attacked(wide, "--rest_api_port=-1", one=ROW) as connection:
        seen = at_once(4, lambda: post(connection.rest_port, body, headers), 5)
        print(seen)
        assert set(seen) <= {*statuses, 503}, seen
        assert set(seen) & statuses
        assert post(connection.rest_port, b'{"instances": [{"seed": 1}]}') == 200


def test_the_largest_legal_bodies(wide):
    """Bodies of 30 MB of rows, two at a time, by clients of whom some leave at once."""
    row = "[" + ",".join(["0.123456789"] * WIDE) + "]"
    body = ('{"signature_name": "encode", "inputs": [' + ",".join([row] * 3200) + "]}").encode()
    assert 2**24 < len(body) < 2**25
    with attacked(wide, "--rest_api_port=-1", one=ROW) as connection:

        def leave():
            with socket.create_connection(("127.0.0.1", connection.rest_port), timeout=20) as leaving:
                leaving.sendall(HEAD + b"Content-Length: %d\r\n\r\n" % len(body) + body)
            return "left"

        turns = iter(range(10**6))
        seen = at_once(2, lambda: leave() if next(turns) % 3 == 2 else post(connection.rest_port, body), 8)
        print(seen)
        assert seen[200] >= 2
        assert set(seen) <= {200, 429, 503, 504, "left"}, seen


def test_answers_that_are_not_read(wide):
    """Of 25 MB each, by eight clients who send no more than the question."""
    inputs = {"seed": list(range(2000))}
    body = json.dumps({"signature_name": "sample", "inputs": inputs}).encode()
    timeout = "--rest_api_timeout_in_ms=5000"
    with attacked(wide, "--rest_api_port=-1", timeout, one=ROW) as connection, contextlib.ExitStack() as stack:
        for _ in range(8):
            client = stack.enter_context(socket.socket())
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            client.settimeout(20)
            client.connect(("127.0.0.1", connection.rest_port))
            client.sendall(HEAD + b"Content-Length: %d\r\n\r\n" % len(body) + body)
        time.sleep(10)
        assert post(connection.rest_port, b'{"instances": [{"seed": 1}]}') == 200
