"""Many clients at once: nothing fails while versions change, and overload is refused and not suffered.

The short forms run with every test; the long ones are what is promised: ``pytest -m slow tests/serving``.
"""

import contextlib
import threading
import time

import grpc
import numpy as np
import pytest

from tests.serving.conftest import N_V, put, running
from tests.support.processes import serving_process
from tests.support.served import signatures

X = np.random.default_rng(0).integers(0, 2, (4, N_V)).astype("float32")


@contextlib.contextmanager
def own_process(base, *flags):
    """The port of a server in a process of its own, and a function for the memory that it has."""
    poll = "--file_system_poll_wait_seconds=0.2"
    with serving_process("--port=-1", "--model_name=rbm", f"--model_base_path={base}", poll, *flags) as process:
        yield process.wait_until_serving().port, process.memory_megabytes
        assert process.process.poll() is None


@contextlib.contextmanager
def this_process(base, **options):
    with running(base, rest_api_port=0, **options) as connection:
        yield connection.port, float


def swap_under_load(server, library, base, clients, seconds, pause=0.0):
    """Clients ask all the time while the three models take turns as new versions; returns what they saw.

    Args:
        server: a context in which version 1 of the folder is served, as `own_process` makes it.
        pause: seconds that a client waits before it asks again.
    """
    truth = {}
    for i, path in enumerate(library):
        served = signatures(path)
        sample = served["sample"](seed=np.arange(4))["visible"]
        truth[i] = served["free_energy"](visible=X)["free_energy"], sample
    with server as (port, memory_megabytes):
        counts, failures, stop = [0] * clients, [], threading.Event()
        versions = set()

        def ask(number):
            from tests.serving.conftest import Connection

            connection = Connection(port, None)
            energy = connection.request("free_energy", visible=X)
            sample = connection.request("sample", seed=np.arange(4))
            while not stop.is_set():
                try:
                    first = connection.prediction.Predict(energy, timeout=60)
                    second = connection.prediction.Predict(sample, timeout=60)
                except grpc.RpcError as error:
                    failures.append((error.code(), error.details()))
                    continue
                for which, response, key in ((0, first, "free_energy"), (1, second, "visible")):
                    version = response.model_spec.version.value
                    versions.add(version)
                    right = truth[(version - 1) % 3][which].ravel()
                    if not np.array_equal(np.array(response.outputs[key].float_val, "float32"), right):
                        failures.append(("wrong answer", version, key))
                counts[number] += 2
                time.sleep(pause)
            connection.channel.close()

        threads = [threading.Thread(target=ask, args=(i,)) for i in range(clients)]
        for thread in threads:
            thread.start()
        time.sleep(seconds / 4)
        memory = [memory_megabytes()]
        for version in (2, 3, 4):
            put(library[(version - 1) % 3], base, version)
            time.sleep(seconds / 4)
            end = time.monotonic() + 120
            while version not in versions and time.monotonic() < end:  # a busy machine may need longer
                time.sleep(0.1)
            memory.append(memory_megabytes())
        stop.set()
        for thread in threads:
            thread.join()
    return counts, failures, versions, memory


@pytest.mark.parametrize("batching", [pytest.param(False, marks=pytest.mark.slow), True])
def test_versions_change_under_load(library, base, batching):
    server = this_process(base, enable_batching=batching)
    counts, failures, versions, _ = swap_under_load(server, library, base, clients=6, seconds=1, pause=0.05)
    assert not failures, failures[:5]
    assert min(counts) > 0
    assert versions == {1, 2, 3, 4}


@pytest.mark.slow
@pytest.mark.parametrize("flags", [(), ("--enable_batching",)])
def test_32_clients_for_a_minute_with_three_swaps(library, base, flags):
    server = own_process(base, *flags)
    counts, failures, versions, memory = swap_under_load(server, library, base, clients=32, seconds=60)
    print(f"{flags}: {sum(counts)} requests, versions {sorted(versions)}, memory {memory} MB")
    assert not failures, failures[:5]
    assert min(counts) > 0
    assert versions == {1, 2, 3, 4}
    # The first swap brings two models into memory at once; after that it must not grow.
    assert memory[3] < memory[1] + 60


@pytest.mark.parametrize("batching", [False, True])
def test_overload_is_refused_quickly(base, tmp_path, batching):
    """Far more than can be done: accepted requests are answered within their deadline, the others refused at once."""
    options = {"max_running": 1, "max_waiting": 4, "rest_api_port": 0}
    if batching:
        (tmp_path / "b.config").write_text(
            "max_batch_size { value: 4 } max_enqueued_batches { value: 2 } num_batch_threads { value: 1 }"
        )
        options |= {"enable_batching": True, "batching_parameters_file": str(tmp_path / "b.config")}
    with running(base, **options) as connection:
        work = {"visible": X, "seed": np.arange(4), "steps": np.full(4, 500, "int32")}
        request = connection.request("gibbs", **work)
        deadline = 120.0
        start = time.monotonic()
        finished: list = []
        futures = [connection.prediction.Predict.future(request, timeout=deadline) for _ in range(100)]
        for future in futures:
            future.add_done_callback(lambda f: finished.append((f.code(), time.monotonic() - start)))
        codes = [future.code() for future in futures]  # waits for each
        while len(finished) < len(futures):
            time.sleep(0.01)
        accepted = codes.count(grpc.StatusCode.OK)
        assert accepted >= 1
        refused = (grpc.StatusCode.RESOURCE_EXHAUSTED, grpc.StatusCode.UNAVAILABLE)
        assert all(code is grpc.StatusCode.OK or code in refused for code in codes), set(codes)
        assert sum(code in refused for code in codes) >= 10
        # Nobody who was refused had to wait for the work of others to end.
        assert max(t for code, t in finished if code in refused) <= max(
            t for code, t in finished if code not in refused
        )
        connection.predict("gibbs", timeout=60, **work)
