"""Clients that ask for as much as they can: memory stays, the others' status and health are answered at once."""

import contextlib
import threading
import time

import grpc
import numpy as np
import pytest
from tensorflow_serving.apis import get_model_status_pb2

from serving.admission import Limits
from tests.serving.conftest import N_V, Connection, eventually
from tests.serving.test_admission import ONE, short
from tests.support.processes import serving_process
from tests.support.watcher import watching

REFUSED = {grpc.StatusCode.RESOURCE_EXHAUSTED, grpc.StatusCode.UNAVAILABLE}
MEGABYTES, SECONDS = 300, 0.5


@contextlib.contextmanager
def attacked(base, *flags, one=ONE, open_files=None):
    """A server whose memory, status and health are watched, in a process of its own; yields its connection.

    Args:
        base: folder of the model.
        *flags: of the server; with ``--rest_api_port=-1``, its status over REST is watched as well.
        one: a row for `clamp`, which the model has to answer before and after.
        open_files: the most that the server may have.

    Afterwards the process is alive, its memory within the limit, and another client was answered within half a second,
    always. That client is a third process: what it waits for is the server, and not the attackers in this process.
    """
    flags = ("--port=-1", "--model_name=rbm", f"--model_base_path={base}", "--enable_grpc_healthcheck_service", *flags)
    with serving_process(*flags, open_files=open_files) as process:
        connection = process.wait_until_serving()
        connection.process = process
        connection.predict("clamp", **one)
        before, memory, end = process.memory_megabytes(), [], threading.Event()

        def watch_memory():
            while not end.wait(0.1):
                memory.append(process.memory_megabytes())

        watcher = threading.Thread(target=watch_memory)
        watcher.start()
        request = get_model_status_pb2.GetModelStatusRequest()
        request.model_spec.name = "rbm"
        try:
            with watching(connection.port, request.SerializeToString(), connection.rest_port) as times:
                yield connection
        finally:
            end.set()
            watcher.join(60)
        for name, seconds in times.items():
            print(f"{name}: {np.quantile(seconds, [0.5, 0.95, 1])} s of {len(seconds)}")
            assert len(seconds) > 3
            assert max(seconds) < SECONDS, (name, sorted(seconds)[-5:])
        print(f"memory {before:.0f} and {max(memory):.0f} MB")
        assert max(memory) < before + MEGABYTES
        assert process.process.poll() is None
        connection.predict("clamp", **one)


def call_all(connection, request, count, timeout):
    """Codes of many calls at once, each through a connection of its own, and their times."""
    clients = [Connection(connection.port, None) for _ in range(count)]
    answers, lock, start = [], threading.Lock(), time.monotonic()

    def done(future):
        with lock:
            answers.append((future.code(), time.monotonic() - start))

    calls = [client.prediction.Predict.future(request, timeout=timeout) for client in clients]
    for call in calls:
        call.add_done_callback(done)
    eventually(lambda: len(answers) == count, timeout + 30)
    for client in clients:
        client.channel.close()
    return answers


@pytest.mark.slow
@pytest.mark.parametrize("rows", [10_000, 100])
def test_200_clients_of_the_largest_legal_request(base, rows):
    """The most rows, and the most steps that exports have by default, with as much of the other as a server allows."""
    with attacked(base) as connection:
        work = {"visible": np.zeros([rows, N_V], "float32"), "seed": np.arange(rows)}
        steps = np.full(rows, Limits.max_row_steps // rows, "int32")
        answers = call_all(connection, connection.request("gibbs", **work, steps=steps), 200, 600)
        with pytest.raises(grpc.RpcError, match="rows times steps may be at most"):
            connection.predict("gibbs", **work, steps=steps + 1)
        codes = [code for code, _ in answers]
        assert set(codes) <= {grpc.StatusCode.OK, *REFUSED}
        assert codes.count(grpc.StatusCode.OK) >= 10
        assert sum(code in REFUSED for code in codes) >= 50
        # Who is refused does not wait for the others' work.
        assert max(t for code, t in answers if code in REFUSED) < max(t for _, t in answers)


@pytest.mark.slow
@pytest.mark.parametrize("flags", [(), ("--enable_batching",)])
def test_two_calls_of_rows_times_steps(base, flags):
    """10,000 rows of 10,000 steps in 93 bytes; then as much as is allowed, by clients who leave."""
    with attacked(base, *flags) as connection:
        request = connection.request("gibbs", **{key: ONE[key] for key in ("visible", "seed", "steps")})
        short(request, "visible", 10_000, N_V)
        short(request, "seed", 10_000)
        short(request, "steps", 10_000)
        request.inputs["steps"].int_val[0] = 10_000
        codes = {code for code, _ in call_all(connection, request, 2, 60)}
        assert codes == {grpc.StatusCode.INVALID_ARGUMENT}
        long = {"visible": np.zeros([1, N_V], "float32"), "seed": np.arange(1)}
        request = connection.request("gibbs", **long, steps=np.full(1, Limits.max_row_steps, "int32"))
        leaving = Connection(connection.port, None)
        calls = [leaving.prediction.Predict.future(request, timeout=300) for _ in range(8)]
        time.sleep(2)
        assert not any(call.done() for call in calls)
        leaving.channel.close()
        start = time.monotonic()
        connection.predict("clamp", timeout=60, **ONE)
        assert time.monotonic() - start < 20  # minutes, were they still computed


@pytest.mark.slow
def test_50_huge_declared_shapes(base):
    with attacked(base) as connection:
        request = connection.request("clamp", **ONE)
        short(request, "visible", 10**8, N_V)
        short(request, "mask", 10**8, N_V)
        end = time.monotonic() + 3
        while time.monotonic() < end:
            answers = call_all(connection, request, 50, 60)
            assert {code for code, _ in answers} <= {grpc.StatusCode.INVALID_ARGUMENT, *REFUSED}
