"""Hostile clients of gRPC that do not compute: they wait, do not read, open connections, or have models changed."""

import contextlib
import os
import shutil
import socket
import threading
import time

import grpc
import numpy as np
import pytest

from tests.serving.conftest import N_V, Connection, eventually, put
from tests.serving.test_attacks import attacked
from tests.serving.test_reload import reload
from tests.serving.test_versions import version_used
from tests.serving.test_waiting_calls import CHECK, GET_STATUS, PREDICT, large_and_unread, silent_calls

pytestmark = pytest.mark.slow


def test_calls_without_messages_and_answers_that_are_not_read(base):
    with attacked(base) as connection, contextlib.ExitStack() as stack:
        for method in (GET_STATUS, CHECK, PREDICT):
            for _ in range(3):
                stack.enter_context(silent_calls(connection, method, 200))
        for _ in range(4):
            stack.enter_context(large_and_unread(connection, 20))
        time.sleep(5)
        for _ in range(20):
            connection.predict("sample", seed=np.arange(3))


def test_connections_that_say_nothing(base):
    """More than the files that a process may have open, often: REST is answered, and new versions are loaded."""
    with attacked(base, "--rest_api_port=-1", open_files=1024) as connection, contextlib.ExitStack() as stack:
        for _ in range(1200):
            with contextlib.suppress(OSError):
                stack.enter_context(socket.create_connection(("127.0.0.1", connection.port), timeout=20))
        put(base / "1", base, 2)
        eventually(lambda: version_used(connection) == 2, 30)
        assert "Too many open files" not in connection.process.log
        # They end by themselves: then others can connect again.
        new = Connection(connection.port, None)
        new.prediction.Predict(new.request("sample", seed=np.arange(3)), timeout=60, wait_for_ready=True)


def test_models_of_any_folder(library, base, tmp_path):
    """Refused by default; and where it is allowed, folders of all kinds hold nobody up."""
    with attacked(base) as connection:
        end = time.monotonic() + 2
        while time.monotonic() < end:
            assert reload(connection, ("rbm", "/proc"))[0] == "PERMISSION_DENIED"
    for name, make in (
        ("pipe", os.mkfifo),
        ("device", lambda path: path.symlink_to("/dev/zero")),
        ("folder", lambda path: path.mkdir()),
    ):
        shutil.copytree(library[0], tmp_path / name / "1")
        (tmp_path / name / "1" / "saved_model.pb").unlink()
        make(tmp_path / name / "1" / "saved_model.pb")
    (tmp_path / "links" / "1").mkdir(parents=True)
    for link in "abc":
        (tmp_path / "links" / "1" / link).symlink_to(".")
    kept = ("rbm", base)
    with attacked(base, "--reload_config_anywhere") as connection:
        for path in ("/proc", "/sys", "/dev", *(tmp_path / name for name in ("pipe", "device", "folder", "links"))):
            start = time.monotonic()
            code, text = reload(connection, kept, ("other", path))
            assert time.monotonic() - start < 30
            print(path, code, text[:100])
            assert version_used(connection) == 1
            with pytest.raises(grpc.RpcError):
                version_used(connection, name="other")
        assert reload(connection, kept) == (0, "")


def test_long_chains_hold_short_ones_up_for_little(base):
    """Clients with rows of 10,000 steps, others with one: batched apart, and the short ones pass."""
    with attacked(base, "--enable_batching") as connection:
        rows = 20
        work = {"visible": np.zeros([rows, N_V], "float32"), "seed": np.arange(rows)}
        long = connection.request("gibbs", **work, steps=np.full(rows, 10_000, "int32"))
        short = {name: value[:1] for name, value in work.items()}
        over = threading.Event()

        def occupy():
            client = Connection(connection.port, None)
            while not over.is_set():
                with contextlib.suppress(grpc.RpcError):
                    client.prediction.Predict(long, timeout=300)
            client.channel.close()

        threads = [threading.Thread(target=occupy) for _ in range(6)]
        for thread in threads:
            thread.start()
        time.sleep(2)
        times = []
        for _ in range(40):
            start = time.monotonic()
            connection.predict("gibbs", **short, steps=np.ones(1, "int32"))
            times.append(time.monotonic() - start)
            time.sleep(0.05)
        over.set()
        for thread in threads:
            thread.join()
        print(f"short calls: {np.quantile(times, [0.5, 0.95, 1])} s")
        assert max(times) < 1.0
