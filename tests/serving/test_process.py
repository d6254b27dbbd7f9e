"""The server as a process: flags, signals, health, metrics."""

import http.client
import json
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import grpc
import numpy as np
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from tensorflow_serving.apis import prediction_service_pb2_grpc
from tensorflow_serving.config import model_server_config_pb2

from serving import SamplerClient, SamplerError
from serving.admission import Admission
from serving.core import ServerCore
from serving.manager import ModelManager
from serving.memory import give_back_large_blocks
from serving.metrics import Metrics
from serving.options import Options, channel_arguments, model_server_arguments, parse
from serving.rest import RestServer
from serving.server import Server
from tests.serving.conftest import N_V, Connection, running
from tests.support.processes import ENVIRONMENT, free_port, serving_process
from trainers import cli

X = np.zeros([1, N_V], "float32")


def test_flags_health_metrics_and_a_graceful_end(base, tmp_path):
    monitoring = tmp_path / "monitoring.config"
    monitoring.write_text("prometheus_config { enable: true }")
    with serving_process(
        "--port=-1",
        "--rest_api_port", "-1",
        "--model_name=rbm",
        f"--model_base_path={base}",
        "--enable_grpc_healthcheck_service",
        f"--monitoring_config_file={monitoring}",
        f"--grpc_socket_path={tmp_path}/socket",
        "--tensorflow_session_parallelism=3",
        "--grpc_channel_arguments=grpc.max_connection_age_ms=3600000",
    ) as process:  # fmt: skip
        connection = process.wait_until_serving()
        assert "--tensorflow_session_parallelism=3 is not known" in process.log
        check = health_pb2_grpc.HealthStub(connection.channel).Check
        for service in ("", "tensorflow.serving.PredictionService"):
            status = check(health_pb2.HealthCheckRequest(service=service)).status
            assert status == health_pb2.HealthCheckResponse.SERVING
        connection.predict("sample", seed=np.arange(3))
        with pytest.raises(grpc.RpcError):
            connection.predict("x", seed=np.arange(3))
        with pytest.raises(grpc.RpcError):
            connection.predict("sample", name="unknown", seed=np.arange(3))
        connection.http("POST", "/v1/models/rbm:predict", {"instances": [1]})
        code, text = connection.http("GET", "/monitoring/prometheus/metrics", raw=True)
        text = text.decode()
        assert code == 200
        assert ':tensorflow:serving:request_count{model_name="rbm",status="OK"} 2' in text
        assert ':tensorflow:serving:request_count{model_name="rbm",status="FAILED_PRECONDITION"} 1' in text
        assert ':tensorflow:serving:request_count{model_name="",status="NOT_FOUND"} 1' in text
        labels = 'model_name="rbm",API="Predict",entrypoint="GRPC"'
        assert f':tensorflow:serving:request_latency_bucket{{{labels},le="+Inf"}} 2' in text
        assert f":tensorflow:serving:request_latency_count{{{labels}}} 2" in text
        with grpc.insecure_channel(f"unix:{tmp_path}/socket") as channel:
            answer = health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest())
            assert answer.status == health_pb2.HealthCheckResponse.SERVING

        # SIGTERM: what was accepted is finished, what is new is refused.
        long = {"visible": X, "seed": np.zeros(1, "int64"), "steps": np.full(1, 30_000, "int32")}
        under_way = connection.prediction.Predict.future(connection.request("gibbs", **long), timeout=200)
        time.sleep(0.5)
        assert not under_way.done()
        process.send(signal.SIGTERM)
        time.sleep(0.3)
        with pytest.raises(grpc.RpcError) as refused:
            Connection(connection.port, None).predict("sample", seed=np.arange(3), timeout=30)
        assert refused.value.code() == grpc.StatusCode.UNAVAILABLE
        assert under_way.result().outputs["visible"].float_val
        assert process.wait() == 0
        assert "Shutting down" in process.log


@pytest.mark.slow
def test_clients_with_retries_lose_nothing_when_the_server_is_killed(base):
    port = free_port()
    flags = (f"--port={port}", "--model_name=rbm", f"--model_base_path={base}")
    with serving_process(*flags) as process:
        process.wait_until_serving()
        truth = SamplerClient(f"127.0.0.1:{port}", "rbm").sample(5, seed=1)
        results, stop = [], threading.Event()

        def ask(i):
            with SamplerClient(f"127.0.0.1:{port}", "rbm", timeout=300) as client:
                while not stop.is_set():
                    try:
                        results.append(np.array_equal(client.sample(5, seed=1), truth))
                    except grpc.RpcError as error:
                        results.append(error)

        threads = [threading.Thread(target=ask, args=(i,)) for i in range(4)]
        for thread in threads:
            thread.start()
        while len(results) < 20:
            time.sleep(0.02)
        process.send(signal.SIGKILL)
        process.wait()
        before = len(results)
        time.sleep(0.5)
        with serving_process(*flags) as again:
            again.wait_until_serving()
            while len(results) < before + 20:
                time.sleep(0.02)
            stop.set()
            for thread in threads:
                thread.join()
        assert all(result is True for result in results), [r for r in results if r is not True][:3]


def test_errors_at_the_start(base, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    monkeypatch.setenv("PATH", str(tmp_path))

    def fails(*flags):
        with pytest.raises(SystemExit) as end:
            cli.main(["serve", *flags])
        assert end.value.code in (1, 2)
        return capsys.readouterr().err

    assert "Exactly one of" in fails("--port=-1")
    (tmp_path / "bad.config").write_text("nonsense {")
    message = fails(f"--model_config_file={tmp_path}/bad.config")
    assert "bad.config cannot be read" in message
    assert "Error parsing text-format tensorflow.serving.ModelServerConfig" in message
    model = 'config { name: "a" base_path: "/a" }'
    for models, text in (
        (2 * model, "wcd serve: Illegal to list a model more than once: ['a']"),
        (model.replace("}", 'model_platform: "x" }'), "wcd serve: The platform of a model must be 'tensorflow'"),
    ):
        (tmp_path / "models.config").write_text(f"model_config_list {{ {models} }}")
        assert text in fails(f"--model_config_file={tmp_path}/models.config")
    (tmp_path / "corrupt" / "1").mkdir(parents=True)
    assert "cannot be loaded" in fails(f"--model_base_path={tmp_path}/corrupt")
    assert "not on the PATH" in fails("--engine=tensorflow_model_server", f"--model_base_path={base}")


def test_a_server_that_looks_once_does_not_wait_for_models(tmp_path):
    options = Options(port=-1, model_name="rbm", model_base_path=f"{tmp_path}/rbm", file_system_poll_wait_seconds=0)
    server = Server(options)
    end = threading.Event()
    end.set()  # so that a server that waits does not wait for ever
    with pytest.raises(RuntimeError, match=r"rbm has no folder .*/rbm yet.* only once.* Received: 0"):
        server.start(end)
    server.stop()


def test_files_that_cannot_be_read_leave_no_threads(tmp_path):
    (tmp_path / "bad.config").write_text("nonsense {")

    def batching():
        return {thread for thread in threading.enumerate() if thread.name.startswith("batch-")}

    before = batching()
    for name in ("ssl_config_file", "monitoring_config_file", "batching_parameters_file"):
        with pytest.raises(ValueError, match=r"bad.config cannot be read"):
            Server(Options(model_base_path="m", enable_batching=True, **{name: f"{tmp_path}/bad.config"}))
    assert not batching() - before


def test_connections_that_are_still_open_are_refused_after_the_end():
    core = ServerCore(ModelManager(model_server_config_pb2.ModelServerConfig()), Admission(1, 1))
    rest = RestServer(core, Metrics(), ("127.0.0.1", 0))
    rest.start()
    connection = http.client.HTTPConnection("127.0.0.1", rest.port, timeout=30)

    def ask():
        connection.request("POST", "/v1/models/rbm:predict", "{}")
        response = connection.getresponse()
        return response.status, json.loads(response.read())["error"], response.will_close

    status, _, closes = ask()
    assert (status, closes) == (404, False)
    rest.stop(1.0)
    assert ask() == (503, "The server is shutting down", True)
    connection.close()


def test_a_port_that_is_taken(base):
    with running(base) as connection:
        for option, port, text in (("port", connection.port, "gRPC"), ("rest_api_port", connection.rest_port, "REST")):
            second = running(base, **{option: port})
            with pytest.raises(RuntimeError, match=f"{text} port {port} cannot be opened"):
                second.__enter__()


def test_the_real_program_gets_the_same_flags(tmp_path):
    """With a stand-in on the PATH that prints its arguments: ours are left out, all others are passed."""
    program = tmp_path / "tensorflow_model_server"
    program.write_text('#!/bin/sh\necho "$@"\n')
    program.chmod(0o755)
    result = subprocess.run(
        [sys.executable, "-m", "serving.server", "--engine=tensorflow_model_server", "--model_base_path=/m",
         "--port=85", "--host", "0.0.0.0", "--max_waiting=3", "--enable_batching", "--other=1"],
        capture_output=True, text=True, env={**ENVIRONMENT, "PATH": f"{tmp_path}:{ENVIRONMENT['PATH']}"}, timeout=240,
    )  # fmt: skip
    assert result.stdout.split() == ["--model_base_path=/m", "--port=85", "--enable_batching", "--other=1"]


def test_settings_of_the_c_library():
    assert give_back_large_blocks() is (sys.platform == "linux")


def test_flags():
    options, unknown = parse(["--model_base_path=m", "--enable_batching=true", "--port", "1", "--flush_caches"])
    assert (options.enable_batching, options.port, options.model_name) == (True, 1, "default")
    assert unknown == ["--flush_caches"]
    assert parse(["--model_base_path=m", "--enable_batching=false"])[0].enable_batching is False
    assert model_server_arguments(["--host", "h", "--port=1"]) == ["--port=1"]
    assert model_server_arguments(["--model_base_path=models/rbm"]) == [f"--model_base_path={Path.cwd()}/models/rbm"]
    assert model_server_arguments(["--model_base_path=gs://b/rbm"]) == ["--model_base_path=gs://b/rbm"]
    assert channel_arguments("a=1,b=text") == [("a", 1), ("b", "text")]
    with pytest.raises(ValueError, match="key=value"):
        channel_arguments("a")
    with pytest.raises(SystemExit):
        parse(["--model_base_path=m", "--max_running=0"])


def certificate(folder, name, authority=None):
    """Makes a key and a certificate, of its own or signed by an authority; the paths."""
    key, cert = f"{folder}/{name}.key", f"{folder}/{name}.cert"
    signing = ["-CA", f"{folder}/{authority}.cert", "-CAkey", f"{folder}/{authority}.key"] if authority else []
    openssl = subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", f"/CN={name}",
         "-addext", "subjectAltName=DNS:localhost", "-keyout", key, "-out", cert, *signing],
        capture_output=True, check=False,
    )  # fmt: skip
    if openssl.returncode:
        pytest.skip("openssl is needed to make a certificate")
    return Path(key), Path(cert)


def in_config(path):
    return path.read_text().replace("\n", "\\n")


def test_tls(base, tmp_path):
    """A certificate of our own: encrypted clients get answers, others do not. The socket is encrypted, too."""
    key, cert = certificate(tmp_path, "server")
    file, socket = tmp_path / "ssl.config", f"unix:{tmp_path}/socket"
    file.write_text(f'server_key: "{in_config(key)}" server_cert: "{in_config(cert)}" client_verify: false')
    with running(base, ssl_config_file=str(file), grpc_socket_path=f"{tmp_path}/socket") as connection:
        credentials = grpc.ssl_channel_credentials(cert.read_bytes())
        with SamplerClient(f"localhost:{connection.port}", "rbm", credentials=credentials) as client:
            assert client.sample(2, seed=0).shape == (2, N_V)
        with pytest.raises(grpc.RpcError):
            connection.predict("sample", seed=np.arange(2), timeout=5)
        ask = lambda channel: prediction_service_pb2_grpc.PredictionServiceStub(channel).Predict(  # noqa: E731
            connection.request("sample", seed=np.arange(2)), timeout=5
        )
        with grpc.insecure_channel(socket) as channel, pytest.raises(grpc.RpcError):
            ask(channel)
        options = [("grpc.ssl_target_name_override", "localhost")]
        with grpc.secure_channel(socket, credentials, options) as channel:
            assert ask(channel).model_spec.version.value == 1


def test_clients_have_to_prove_themselves(base, tmp_path):
    """With `client_verify`, only clients with a certificate of the authority `custom_ca` are answered."""
    key, cert = certificate(tmp_path, "server")
    _, authority = certificate(tmp_path, "authority")
    theirs, stranger = certificate(tmp_path, "client", "authority"), certificate(tmp_path, "stranger")
    file = tmp_path / "ssl.config"
    file.write_text(
        f'server_key: "{in_config(key)}" server_cert: "{in_config(cert)}" '
        f'custom_ca: "{in_config(authority)}" client_verify: true'
    )

    def ask(*pair, timeout=2.0):
        credentials = grpc.ssl_channel_credentials(cert.read_bytes(), *(path.read_bytes() for path in pair))
        with SamplerClient(f"localhost:{connection.port}", "rbm", credentials=credentials, timeout=timeout) as client:
            return client.sample(2, seed=0)

    with running(base, ssl_config_file=str(file)) as connection:
        assert ask(*theirs, timeout=30.0).shape == (2, N_V)
        for pair in ((), stranger):
            with pytest.raises(SamplerError):
                ask(*pair)


def test_channel_arguments_of_the_operator_win(base):
    with running(base, grpc_channel_arguments="grpc.max_receive_message_length=1000") as connection:
        connection.predict("sample", seed=np.arange(2))
        with pytest.raises(grpc.RpcError) as error:
            connection.predict("sample", seed=np.arange(1000))
        assert error.value.code() == grpc.StatusCode.RESOURCE_EXHAUSTED


def test_the_access_log(base, caplog):
    with caplog.at_level("INFO", "serving.access"):
        for options, lines in (({}, 0), ({"access_log": True}, 2)):
            caplog.clear()
            with running(base, **options) as connection:
                connection.predict("sample", seed=np.arange(2))
                connection.http("GET", "/v1/models/rbm")
            requests = [record.getMessage() for record in caplog.records if record.name == "serving.access"]
            assert len(requests) == lines
    assert re.fullmatch(r"gRPC ipv4:127\.0\.0\.1:\d+ Predict 'rbm' OK [\d.]+ ms", requests[0])
    assert re.fullmatch(r"REST 127\.0\.0\.1 'GET /v1/models/rbm' 200 \d+ bytes [\d.]+ ms", requests[1])
