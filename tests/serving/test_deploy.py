"""The deploy files say what the servers understand."""

from pathlib import Path

import numpy as np
import pytest

from serving import client, config_files
from serving.options import parse
from tests.serving.conftest import put, running
from tests.support.served import signatures

DEPLOY = Path(config_files.__file__).parent / "deploy"


def documents(name):
    yaml = pytest.importorskip("yaml")
    return list(yaml.safe_load_all((DEPLOY / name).read_text()))


def test_config_files_are_parsed_by_their_messages():
    (model,) = config_files.read_models(DEPLOY / "models.config").model_config_list.config
    assert (model.name, model.base_path, model.model_platform) == ("rbm", "/models/rbm", "tensorflow")
    assert model.model_version_policy.latest.num_versions == 2
    batching = config_files.read_batching(DEPLOY / "batching.config")
    assert (batching.max_batch_size, batching.batch_rows, batching.batch_timeout_micros) == (1000, 32, 40_000)
    assert batching.max_batch_size >= client.MAX_CHUNK
    assert batching.max_enqueued_batches * batching.batch_rows >= 2 * batching.max_batch_size
    assert config_files.read_monitoring(DEPLOY / "monitoring.config") == "/monitoring/prometheus/metrics"


def flags_understood(arguments):
    options, unknown = parse(arguments)
    assert unknown == []
    return options


def test_compose():
    (compose,) = documents("docker-compose.yml")
    service = compose["services"]["serving"]
    assert service["image"].startswith("tensorflow/serving:")
    options = flags_understood(service["command"])
    mounted = {volume.rsplit(":", 2)[1]: volume.rsplit(":", 2)[0] for volume in service["volumes"]}
    for file in (options.model_config_file, options.batching_parameters_file, options.monitoring_config_file):
        assert (DEPLOY / mounted[file]).exists()
    assert "/models" in mounted
    assert service["ports"] == [f"{options.port}:{options.port}", f"{options.rest_api_port}:{options.rest_api_port}"]


def test_kubernetes():
    by_kind = {document["kind"]: document for document in documents("kubernetes.yaml")}
    assert set(by_kind) == {"PersistentVolumeClaim", "Deployment", "Service", "HorizontalPodAutoscaler"}
    deployment = by_kind["Deployment"]
    pod = deployment["spec"]["template"]
    (container,) = pod["spec"]["containers"]
    options = flags_understood(container["args"])
    assert options.enable_grpc_healthcheck_service
    assert container["readinessProbe"]["grpc"]["port"] == options.port
    assert [port["containerPort"] for port in container["ports"]] == [options.port, options.rest_api_port]
    assert deployment["spec"]["selector"]["matchLabels"] == pod["metadata"]["labels"]
    assert by_kind["Service"]["spec"]["selector"] == pod["metadata"]["labels"]
    scaler = by_kind["HorizontalPodAutoscaler"]["spec"]
    assert scaler["scaleTargetRef"]["name"] == deployment["metadata"]["name"]
    assert scaler["minReplicas"] < scaler["maxReplicas"]
    volumes = {volume["name"] for volume in pod["spec"]["volumes"]}
    assert {mount["name"] for mount in container["volumeMounts"]} == volumes
    assert by_kind["PersistentVolumeClaim"]["metadata"]["name"] == "wcd-models"


def test_the_embedded_server_runs_with_them(library, tmp_path):
    put(library[0], tmp_path / "models" / "rbm", 1)
    text = (DEPLOY / "models.config").read_text().replace("/models/rbm", f"{tmp_path}/models/rbm")
    (tmp_path / "models.config").write_text(text)
    with running(
        None,
        model_config_file=str(tmp_path / "models.config"),
        enable_batching=True,
        batching_parameters_file=str(DEPLOY / "batching.config"),
        monitoring_config_file=str(DEPLOY / "monitoring.config"),
        enable_model_warmup=True,
    ) as connection:
        assert connection.predict("sample", seed=range(3))["visible"].shape[0] == 3
        # More than one batch, in requests of the client's own size.
        with client.SamplerClient(f"127.0.0.1:{connection.port}", "rbm") as sampler:
            samples = sampler.sample(1100, seed=0)
        truth = signatures(library[0])["sample"](seed=client.row_seeds(0, 1100))["visible"]
        np.testing.assert_array_equal(samples, truth)
        status, text = connection.http("GET", "/monitoring/prometheus/metrics", raw=True)
        assert status == 200
        assert b"request_count" in text


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("max_batch_size: 3", config_files.read_batching),
        ("max_batch_size { value: 0 }", config_files.read_batching),
        ("nonsense", config_files.read_models),
        ('server_key: "x"', config_files.read_tls),
    ],
)
def test_bad_files(tmp_path, text, read):
    (tmp_path / "file").write_text(text)
    with pytest.raises(ValueError, match=r"cannot be read|Received"):
        read(tmp_path / "file")
