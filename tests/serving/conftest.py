"""Published models and servers for the tests: real SavedModels, real ports on this machine."""

from __future__ import annotations

import contextlib
import http.client
import json
import shutil
import time
from pathlib import Path

import grpc
import numpy as np
import pytest

pytest.importorskip("tensorflow_serving.apis.predict_pb2", reason="needs the extra 'serving'")

from tensorflow_serving.apis import model_service_pb2_grpc, predict_pb2, prediction_service_pb2_grpc

from serving.options import Options
from serving.server import Server
from serving.tensors import to_array, to_proto
from tests.support.served import small_rbm

N_V, N_H = 7, 5  # odd numbers: rows of vectorised code never come out even


@pytest.fixture(scope="session")
def library(tmp_path_factory):
    """Three models of one shape, exported once: ``library[0]`` and so on are folders to copy."""
    folder = tmp_path_factory.mktemp("library")
    for i in range(3):
        small_rbm("bernoulli", "bernoulli", N_V, N_H, seed=i).export(
            folder / str(i), gibbs_steps=20, max_steps=1_000_000
        )
    return [folder / str(i) for i in range(3)]


def put(source: Path, base: Path, version: int | str) -> Path:
    """Publishes a copy of an export under a number, the way `publish` does it."""
    base.mkdir(parents=True, exist_ok=True)
    aside = base / f".aside-{version}"
    shutil.copytree(source, aside)
    aside.rename(base / str(version))
    return base / str(version)


@pytest.fixture
def base(library, tmp_path):
    """A folder with version 1 of a model."""
    put(library[0], tmp_path / "models" / "rbm", 1)
    return tmp_path / "models" / "rbm"


class Connection:
    """What a client does, with as little of our own code as possible."""

    def __init__(self, port: int | None, rest_port: int | None) -> None:
        self.port, self.rest_port = port, rest_port
        self.channel = grpc.insecure_channel(f"127.0.0.1:{port}")
        self.prediction = prediction_service_pb2_grpc.PredictionServiceStub(self.channel)
        self.models = model_service_pb2_grpc.ModelServiceStub(self.channel)

    def request(self, signature="", name="rbm", version=None, label=None, **arrays):
        request = predict_pb2.PredictRequest()
        request.model_spec.name = name
        request.model_spec.signature_name = signature
        if version is not None:
            request.model_spec.version.value = version
        if label is not None:
            request.model_spec.version_label = label
        for key, value in arrays.items():
            request.inputs[key].CopyFrom(to_proto(np.asarray(value)))
        return request

    def predict(self, signature="", timeout=30.0, **kwargs):
        response = self.prediction.Predict(self.request(signature, **kwargs), timeout=timeout)
        return {key: to_array(value, key) for key, value in response.outputs.items()}

    def http(self, method, path, body=None, raw=False):
        connection = http.client.HTTPConnection("127.0.0.1", self.rest_port, timeout=60)
        try:
            if body is not None and not isinstance(body, bytes):
                body = json.dumps(body)
            connection.request(method, path, body)
            response = connection.getresponse()
            content = response.read()
            return response.status, content if raw else json.loads(content)
        finally:
            connection.close()


def eventually(condition, seconds=60.0):
    """Waits until something is true."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.05)


@contextlib.contextmanager
def running(base: Path | None, **options):
    """A server in this process, and a connection to it."""
    settings = {
        **{"port": -1, "rest_api_port": -1, "model_name": "rbm", "file_system_poll_wait_seconds": 0.1},
        "enable_model_warmup": False,  # seven requests at each load, which few tests are about
    }
    if base is not None:
        settings["model_base_path"] = str(base)
    server = Server(Options(**{**settings, **options}))
    try:
        server.start()
        connection = Connection(server.port, server.rest_port)
        connection.server = server
        yield connection
        connection.channel.close()
    finally:
        server.stop()


@pytest.fixture(scope="session")
def connection(library, tmp_path_factory):
    """One server for all tests that do not change it: version 1 (label "stable") and 3 of `rbm`."""
    folder = tmp_path_factory.mktemp("served")
    put(library[0], folder / "rbm", 1)
    put(library[1], folder / "rbm", 3)
    config = folder / "models.config"
    config.write_text(
        f"""model_config_list {{ config {{
            name: "rbm" base_path: "{folder}/rbm" model_platform: "tensorflow"
            model_version_policy {{ all {{}} }} version_labels {{ key: "stable" value: 1 }}
        }} }}"""
    )
    monitoring = folder / "monitoring.config"
    monitoring.write_text('prometheus_config { enable: true path: "/monitoring/prometheus/metrics" }')
    with running(
        None,
        model_config_file=str(config),
        monitoring_config_file=str(monitoring),
        enable_grpc_healthcheck_service=True,
        max_row_steps=10_000_000,  # so that the graph's own limit is reached
    ) as connection:
        yield connection
