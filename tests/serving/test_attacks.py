"""Clients that ask for as much as they can: memory stays, the others' status and health are answered at once."""

import contextlib
import threading
import time

import grpc
import numpy as np
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from tensorflow_serving.apis import get_model_status_pb2

from tests.serving.conftest import N_V, Connection, eventually
from tests.serving.test_admission import ONE, short
from tests.support.processes import serving_process

LARGEST = {"visible": np.zeros([10_000, N_V], "float32"), "seed": np.arange(10_000)}
REFUSED = {grpc.StatusCode.RESOURCE_EXHAUSTED, grpc.StatusCode.UNAVAILABLE}
MEGABYTES, SECONDS = 300, 0.5


@contextlib.contextmanager
def attacked(base, *flags):
    """A server whose memory, status and health are watched, in a process of its own; yields its connection.

    Afterwards the process is alive, its memory within the limit, and the watcher's slowest answer within half a second:
    one of twenty may take longer, because the machine may be busy with other things.
    """
    flags = ("--port=-1", "--model_name=rbm", f"--model_base_path={base}", "--enable_grpc_healthcheck_service", *flags)
    with serving_process(*flags) as process:
        connection = process.wait_until_serving()
        connection.predict("clamp", **ONE)
        before, memory, times, end = process.memory_megabytes(), [], [], threading.Event()

        def watch():
            other = Connection(connection.port, None)
            health = health_pb2_grpc.HealthStub(other.channel)
            request = get_model_status_pb2.GetModelStatusRequest()
            request.model_spec.name = "rbm"
            while not end.wait(0.1):
                start = time.monotonic()
                other.models.GetModelStatus(request, timeout=20)
                assert health.Check(health_pb2.HealthCheckRequest(), timeout=20).status == 1
                times.append((time.monotonic() - start) / 2)
                memory.append(process.memory_megabytes())

        watcher = threading.Thread(target=watch)
        watcher.start()
        try:
            yield connection
        finally:
            end.set()
            watcher.join(60)
        print(f"status and health: {np.quantile(times, [0.5, 0.75, 1])} s, memory {before} and {max(memory)} MB")
        assert len(times) > 3
        assert np.quantile(times, 0.95) < SECONDS
        assert max(memory) < before + MEGABYTES
        assert process.process.poll() is None
        connection.predict("clamp", **ONE)


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
def test_200_clients_of_the_largest_legal_request(base):
    with attacked(base) as connection:
        request = connection.request("gibbs", **LARGEST, steps=np.full(10_000, 20, "int32"))
        answers = call_all(connection, request, 200, 300)
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
        rows = 900
        long = {"visible": np.zeros([rows, N_V], "float32"), "seed": np.arange(rows)}
        request = connection.request("gibbs", **long, steps=np.full(rows, 11_000, "int32"))
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
