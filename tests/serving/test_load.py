"""Many clients at once: nothing fails while versions change, and overload is refused and not suffered.

The short forms run with every test; the long ones are what is promised: ``pytest -m slow tests/serving``.
"""

import threading
import time

import grpc
import numpy as np
import pytest

from tests.serving.conftest import N_V, put
from tests.serving.processes import serving_process
from tests.tf_wcd.served import signatures

X = np.random.default_rng(0).integers(0, 2, (4, N_V)).astype("float32")


def swap_under_load(library, tmp_path, clients, seconds, *flags):
    """Clients ask all the time while the three models take turns as new versions; returns what they saw."""
    base = tmp_path / "rbm"
    put(library[0], base, 1)
    truth = {}
    for i, path in enumerate(library):
        served = signatures(path)
        sample = served["sample"](seed=np.arange(4))["visible"]
        truth[i] = served["free_energy"](visible=X)["free_energy"], sample
    poll = "--file_system_poll_wait_seconds=0.2"
    with serving_process("--port=-1", "--model_name=rbm", f"--model_base_path={base}", poll, *flags) as process:
        port = process.wait_until_serving().port
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
            connection.channel.close()

        threads = [threading.Thread(target=ask, args=(i,)) for i in range(clients)]
        for thread in threads:
            thread.start()
        time.sleep(seconds / 4)
        memory = [process.memory_megabytes()]
        for version in (2, 3, 4):
            put(library[(version - 1) % 3], base, version)
            time.sleep(seconds / 4)
            end = time.monotonic() + 120
            while version not in versions and time.monotonic() < end:  # a busy machine may need longer
                time.sleep(0.1)
            memory.append(process.memory_megabytes())
        stop.set()
        for thread in threads:
            thread.join()
        assert process.process.poll() is None
    return counts, failures, versions, memory


@pytest.mark.parametrize("flags", [(), ("--enable_batching",)])
def test_versions_change_under_load(library, tmp_path, flags):
    counts, failures, versions, _ = swap_under_load(library, tmp_path, 8, 12, *flags)
    assert not failures, failures[:5]
    assert min(counts) > 0
    assert versions == {1, 2, 3, 4}


@pytest.mark.slow
@pytest.mark.parametrize("flags", [(), ("--enable_batching",)])
def test_32_clients_for_a_minute_with_three_swaps(library, tmp_path, flags):
    counts, failures, versions, memory = swap_under_load(library, tmp_path, 32, 60, *flags)
    print(f"{flags}: {sum(counts)} requests, versions {sorted(versions)}, memory {memory} MB")
    assert not failures, failures[:5]
    assert min(counts) > 0
    assert versions == {1, 2, 3, 4}
    # The first swap brings two models into memory at once; after that it must not grow.
    assert memory[3] < memory[1] + 60


@pytest.mark.parametrize("flags", [(), ("--enable_batching",)])
def test_overload_is_refused_quickly(library, tmp_path, flags):
    """Far more than can be done: accepted requests are answered within their deadline, the others refused at once."""
    put(library[0], tmp_path / "rbm", 1)
    if flags:
        (tmp_path / "b.config").write_text(
            "max_batch_size { value: 4 } max_enqueued_batches { value: 2 } num_batch_threads { value: 1 }"
        )
        flags = (*flags, f"--batching_parameters_file={tmp_path}/b.config")
    flags = ("--max_running=1", "--max_waiting=4", *flags)
    with serving_process("--port=-1", "--model_name=rbm", f"--model_base_path={tmp_path}/rbm", *flags) as process:
        connection = process.wait_until_serving()
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
