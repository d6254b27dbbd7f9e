"""What strangers can do to the REST interface: attacks are bounded, and others are answered meanwhile."""

import asyncio
import contextlib
import gzip
import http.client
import json
import socket
import threading
import time

import numpy as np
import pytest
from tensorflow_serving.apis import get_model_status_pb2
from tensorflow_serving.config import model_server_config_pb2

from serving.admission import Admission
from serving.core import ServerCore
from serving.http_exchange import RestLimits
from serving.manager import ModelManager
from serving.metrics import Metrics
from serving.options import Options, rest_limits
from serving.rest import RestServer
from tests.serving.conftest import N_V, eventually, put, running
from tests.support.processes import serving_process

POST = b"POST /v1/models/rbm:predict HTTP/1.1\r\nHost: localhost\r\n"
BODY = b'{"instances": [{"seed": 1}, {"seed": 2}]}'


@contextlib.contextmanager
def rest(**limits):
    """A REST server without models."""
    core = ServerCore(ModelManager(model_server_config_pb2.ModelServerConfig()), Admission(1, 1))
    server = RestServer(core, Metrics(), ("127.0.0.1", 0), "/metrics", RestLimits(**limits))
    server.start()
    try:
        yield server
    finally:
        server.stop(1.0)


def say(port, text, timeout=20.0):
    """Sends bytes, and reads until the server closes the connection."""
    with socket.create_connection(("127.0.0.1", port), timeout=timeout) as connection:
        connection.sendall(text)
        answer = b""
        with contextlib.suppress(ConnectionResetError):
            while content := connection.recv(65536):
                answer += content
    return answer


def ask(port, method="GET", path="/v1/models/x", body=None, headers=None, timeout=20.0):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=timeout)
    try:
        connection.request(method, path, body, headers or {})
        response = connection.getresponse()
        return response.status, response.read(), dict(response.getheaders())
    finally:
        connection.close()


def test_dribbling_connections_do_not_shut_others_out():
    """More than the server takes: the oldest that have not finished their request give way."""
    with rest(max_connections=50, header_timeout=30) as server, contextlib.ExitStack() as open_ones:
        dribbling = []
        for _ in range(120):
            connection = open_ones.enter_context(socket.create_connection(("127.0.0.1", server.port), timeout=20))
            connection.sendall(b"GET / HT")
            dribbling.append(connection)
        for _ in range(5):
            start = time.monotonic()
            assert ask(server.port, path="/metrics")[0] == 200
            assert time.monotonic() - start < 5
        with contextlib.suppress(ConnectionResetError):
            assert dribbling[0].recv(10) == b""  # closed


def test_heads_and_bodies_have_to_arrive_in_time():
    """A byte now and then does not help: the deadline is for the whole."""
    with rest(timeout=0.7, header_timeout=0.7) as server:
        for start in (b"GET / HTTP/1.1\r\nX: ", POST + b"Content-Length: 1000\r\n\r\n"):
            with socket.create_connection(("127.0.0.1", server.port), timeout=20) as connection:
                connection.sendall(start)
                end = time.monotonic() + 15
                with contextlib.suppress(OSError):  # closed by the other side
                    while time.monotonic() < end:
                        connection.sendall(b"a")
                        time.sleep(0.1)
                assert time.monotonic() < end


@pytest.mark.parametrize(
    ("head", "status"),
    [
        (b"Content-Length: 41\r\nContent-Length: 5\r\n", b"400"),
        (b"Content-Length: 41\r\nContent-Length: 41\r\n", b"400"),
        (b"Content-Length: 41, 5\r\n", b"400"),
        (b"Content-Length: 41\r\nTransfer-Encoding: chunked\r\n", b"400"),
        (b"Content-Length: +41\r\n", b"400"),
        (b"Transfer-Encoding: gzip, chunked\r\n", b"400"),
        (b"Content-Length: 41\r\nContent-Encoding: br\r\n", b"415"),
        (b"Content-Length: 41\r\nHost: second\r\n", b"400"),
        (b"Content-Length: 40000000\r\n", b"413"),
        (b"Content-Length: 41\r\nX: " + b"a" * 20_000 + b"\r\n", b""),
    ],
)
def test_requests_that_could_be_read_in_two_ways_are_refused_once(head, status):
    with rest() as server:
        answer = say(server.port, POST + head + b"\r\n" + BODY + b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert answer.startswith(b"HTTP/1.1 " + status if status else b""), answer
        assert b"200" not in answer
        assert b"request_count" not in answer


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Host": "127.0.0.1:8501"}, 404),
        ({"Host": "[::1]:8501"}, 404),
        ({"Host": "localhost"}, 404),
        ({"Host": "models.example:1"}, 404),
        ({"Host": "rebound.example"}, 403),
        ({"Host": "127.0.0.1.rebound.example"}, 403),
        ({"Host": ""}, 403),
        ({"Host": "localhost:8501", "Origin": "http://localhost:8501"}, 404),
        ({"Host": "localhost:8501", "Origin": "http://localhost:9"}, 403),
        ({"Host": "localhost:8501", "Origin": "http://evil.example"}, 403),
        ({"Host": "localhost:8501", "Origin": "null"}, 403),
        ({"Host": "own.example:8501", "Origin": "http://own.example:8501"}, 404),
        ({"Host": "own.example:8501", "Origin": "http://own.example:9999"}, 403),
        ({"Host": "127.0.0.1:8501", "Origin": "http://127.0.0.1:9999"}, 403),
        ({"Host": "localhost:8501", "Origin": "https://models.example"}, 404),
    ],
)
def test_hosts_and_origins(headers, status):
    own = rest_limits(Options(host="own.example")).own_hosts | {"127.0.0.1"}
    with rest(hosts=frozenset({"models.example"}), own_hosts=own) as server:
        for method, body in (("GET", None), ("POST", BODY)):
            got, content, _ = ask(server.port, method, "/v1/models/x" + (":predict" if body else ""), body, headers)
            assert got == status, content
            assert "--rest_allowed_hosts" in json.loads(content)["error"] or status == 404
    with rest(hosts=frozenset("*")) as server:
        assert ask(server.port, headers=headers)[0] == 404


def test_pages_of_other_sites_may_read_what_they_may_ask():
    """Those that the operator has named, and no others: what browsers look for in the headers."""
    site, ours = "https://models.example", "http://localhost:8501"
    with rest(hosts=frozenset({"models.example"})) as server:
        for method, path, status in (("GET", "/v1/models/x", 404), ("POST", "/v1/models/x:predict", 404),
                                     ("OPTIONS", "/v1/models/x:predict", 200)):  # fmt: skip
            body = BODY if method == "POST" else None
            got, _, headers = ask(server.port, method, path, body, {"Host": "localhost:8501", "Origin": site})
            assert (got, headers.get("Access-Control-Allow-Origin"), headers.get("Vary")) == (status, site, "Origin")
            assert "POST" in headers["Access-Control-Allow-Methods"]
            assert headers["Access-Control-Allow-Headers"] == "Content-Type, Content-Encoding"
            for origin, refused in ((ours, 400), ("http://evil.example", 403)):
                got, _, headers = ask(server.port, method, path, body, {"Host": "localhost:8501", "Origin": origin})
                assert not [name for name in headers if name.startswith("Access-Control")]
                assert got == (404 if origin == ours and method != "OPTIONS" else refused)
        assert ask(server.port, "OPTIONS", "/v1/models/x")[0] == 400
        # Also why a body was refused before all of it was there.
        asked = {"Host": "localhost:8501", "Origin": site, "Content-Length": "40000000"}
        got, _, headers = ask(server.port, "POST", "/v1/models/x:predict", b"", asked)
        assert (got, headers.get("Access-Control-Allow-Origin")) == (413, site)


def test_half_sent_bodies_are_bounded():
    """Bodies that never end take a few megabytes all together; small requests are answered, and a new body, too."""
    with rest(max_body=2**20, max_bytes=2**22, timeout=20) as server, contextlib.ExitStack() as open_ones:
        for _ in range(30):
            connection = open_ones.enter_context(socket.create_connection(("127.0.0.1", server.port), timeout=20))
            with contextlib.suppress(OSError):
                connection.sendall(POST + b"Content-Length: 1000000\r\n\r\n" + b" " * 900_000)
        assert server._http.bytes <= 2**22
        assert ask(server.port, "POST", "/v1/models/x:predict", BODY)[0] == 404
        body = b'{"signature_name": "' + b"a" * 900_000 + b'"}'
        assert ask(server.port, "POST", "/v1/models/x:predict", body)[0] in (400, 404)
    eventually(lambda: server._http.bytes == 0)


def test_head_gzip_and_chunks(connection):
    port = connection.rest_port
    for path in ("/", "/v1/models/rbm", "/v1/models/rbm/metadata"):
        got = ask(port, "GET", path)
        status, content, headers = ask(port, "HEAD", path)
        assert (status, content) == (200, b"")
        assert headers["Content-Length"] == got[2]["Content-Length"]
    assert ask(port, "HEAD", "/v1/models/x")[0] == 404
    truth = ask(port, "POST", "/v1/models/rbm:predict", BODY)
    assert truth[0] == 200
    packed = ask(port, "POST", "/v1/models/rbm:predict", gzip.compress(BODY), {"Content-Encoding": "gzip"})
    assert packed[:2] == truth[:2]
    pieces = (BODY[i : i + 7] for i in range(0, len(BODY), 7))  # http.client sends an iterator as chunks
    chunked = ask(port, "POST", "/v1/models/rbm:predict", pieces)
    assert chunked[:2] == truth[:2]
    assert ask(port, "POST", "/v1/models/rbm:predict", BODY[:-5], {"Content-Encoding": "gzip"})[0] == 400


def test_bodies_that_are_too_large(connection):
    """The largest that this model can need is about a megabyte, packed or not."""
    port, path = connection.rest_port, "/v1/models/rbm:predict"
    large = b" " * (10_000 * (2 * N_V * 12 + 100) + 1)
    for body, headers in ((large, {}), (gzip.compress(large), {"Content-Encoding": "gzip"})):
        status, content, _ = ask(port, "POST", path, body, headers)
        assert status == 413
        assert b"at most 2680000 bytes" in content
    with contextlib.suppress(ConnectionError):  # the server may close before all has been sent
        assert ask(port, "POST", path, iter([large]))[0] == 413
    # Many gigabytes of nothing.
    bomb = gzip.compress(bytes(2**24), 9)
    with contextlib.suppress(ConnectionError):
        assert ask(port, "POST", path, bomb * 100, {"Content-Encoding": "gzip"})[0] == 413
    assert connection.server._rest._http.bytes == 0
    assert ask(port, "POST", path, BODY)[0] == 200


def test_packed_bodies_let_others_have_their_turn():
    """A kilobyte is sixteen pieces: between them, other connections are read."""
    with rest(max_body=2**25, max_bytes=2**27) as server:
        port, turns, over = server.port, [], threading.Event()

        async def count():
            while not over.is_set():
                turns.append(server._http.bytes)
                await asyncio.sleep(0)

        asyncio.run_coroutine_threadsafe(count(), server._http._loop)
        packed = {"Content-Encoding": "gzip"}
        assert ask(port, "POST", "/v1/models/x:predict", gzip.compress(b" " * (2**20 - 1)), packed)[0] == 400
        over.set()
        assert len(set(turns)) > 10  # of sixteen


def test_a_packed_body_that_unfolds_too_late_holds_nothing(monkeypatch):
    """Its time ends while it unfolds: what comes out after that is not kept, and does not count for ever."""
    go, sleep = threading.Event(), asyncio.sleep

    async def slowly(seconds):
        while not go.is_set():
            await sleep(0.002)
        await sleep(seconds)

    def reading():
        return [task for task in asyncio.all_tasks(server._http._loop) if "_read_fixed_body" in repr(task.get_coro())]

    monkeypatch.setattr("serving.http_exchange.asyncio.sleep", slowly)
    with rest(timeout=0.3) as server:
        body = gzip.compress(b" " * (2**20 - 1))
        head = b"Content-Encoding: gzip\r\nContent-Length: %d\r\n\r\n" % len(body)
        assert say(server.port, POST + head + body) == b""
        assert len(reading()) == 1
        go.set()
        eventually(lambda: not reading())
        assert server._http.bytes == 0
        assert ask(server.port, "POST", "/v1/models/x:predict", BODY)[0] == 404


def test_large_json_holds_nobody_up(library, tmp_path):
    """Bodies of 32 MB from two clients: gRPC answers meanwhile, and the memory is bounded."""
    put(library[0], tmp_path / "rbm", 1)
    with serving_process(
        "--port=-1", "--rest_api_port=-1", "--model_name=rbm", f"--model_base_path={tmp_path}/rbm",
        "--enable_model_warmup=false",
    ) as process:  # fmt: skip
        connection = process.wait_until_serving()
        eventually(lambda: "Web page: http://127.0.0.1:" in process.log)
        assert ask(connection.rest_port, "POST", "/v1/models/rbm:predict", b"0" * 2**26)[0] == 413
        connection.predict("sample", seed=np.arange(3))
        before = process.memory_megabytes()
        # Within the limit of this model, as large as it may be.
        rows = 10_000
        row = '{"visible": [' + ",".join(["0.123456789"] * N_V) + '], "seed": 1, "steps": 0}'
        body = ('{"signature_name": "gibbs", "instances": [' + ",".join([row] * rows) + "]}").encode()
        results = []
        threads = [
            threading.Thread(
                target=lambda: results.append(
                    ask(connection.rest_port, "POST", "/v1/models/rbm:predict", body, timeout=60)
                )
            )
            for _ in range(2)
        ]
        for thread in threads:
            thread.start()
        waits, memory = [], []
        request = get_model_status_pb2.GetModelStatusRequest()
        request.model_spec.name = "rbm"
        while any(thread.is_alive() for thread in threads):
            start = time.monotonic()
            connection.models.GetModelStatus(request, timeout=30)
            waits.append(time.monotonic() - start)
            memory.append(process.memory_megabytes())
            time.sleep(0.02)
        assert [status for status, _, _ in results] == [200, 200]
        assert len(json.loads(results[0][1])["predictions"]) == rows
        assert max(memory) < before + 300
        assert len(waits) > 2
        print(f"longest wait {max(waits):.3f} s, memory {before:.0f} to {max(memory):.0f} MB")


def test_a_client_who_leaves_stops_the_computation(base):
    with running(base) as connection:
        work = connection.server.core._wanted
        inputs = {"visible": [[0.0] * N_V], "seed": [1], "steps": [1_000_000]}  # a minute and more
        body = json.dumps({"signature_name": "gibbs", "inputs": inputs}).encode()
        head = POST + b"Content-Length: %d\r\n\r\n" % len(body)
        with socket.create_connection(("127.0.0.1", connection.rest_port), timeout=20) as leaving:
            leaving.sendall(head + body)
            eventually(lambda: len(work) == 1)
        eventually(lambda: not work, 20)
        assert ask(connection.rest_port, "POST", "/v1/models/rbm:predict", BODY)[0] == 200


def test_the_access_log(connection, caplog):
    with rest(access_log=True) as server, caplog.at_level("INFO", "serving.access"):
        ask(server.port, path="/v1/models/x")
        ask(server.port, headers={"Host": "evil.example"})
        eventually(lambda: len(caplog.messages) == 2)
    assert caplog.messages[0].startswith("REST 127.0.0.1 'GET /v1/models/x' 404 ")
    assert " 403 " in caplog.messages[1]
