"""The deploy files say what the servers understand."""

import inspect
import json
import re
import subprocess
from pathlib import Path

import numpy as np
import pytest
from tensorflow.core.protobuf import saved_model_pb2

from serving import client, commands, config_files
from serving.options import parse
from tests.serving.conftest import put, running
from tests.support.served import signatures

DEPLOY = Path(config_files.__file__).parent / "deploy"


def text_of(name):
    """A file with its variables filled in: their defaults, or a word."""
    text = re.sub(r"\$\{\w+:-([^}]*)\}", r"\1", (DEPLOY / name).read_text())
    return re.sub(r"\$\{\w+\}", "word", text)


def documents(name):
    yaml = pytest.importorskip("yaml")
    return list(yaml.safe_load_all(text_of(name)))


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


@pytest.mark.parametrize("name", ["kubernetes.yaml", "kubernetes-publisher.yaml"])
def test_kubernetes_manifests_are_valid(name):
    """By the schemas of Kubernetes 1.31; a field that does not exist is an error."""
    kubernetes_validate = pytest.importorskip("kubernetes_validate")
    for document in documents(name):
        kubernetes_validate.validate(document, "1.31", strict=True)
        with pytest.raises(kubernetes_validate.ValidationError):
            kubernetes_validate.validate({**document, "spec": {"nonsense": 1}}, "1.31", strict=True)


def test_the_compose_file_is_valid():
    compose_spec = pytest.importorskip("compose_spec")
    text = text_of("docker-compose.yml")
    assert compose_spec.PyCompose.from_yaml(text).service_names() == ["serving", "wcd"]
    with pytest.raises(ValueError, match="portz"):
        compose_spec.PyCompose.from_yaml(text.replace("ports:", "portz:"))


def test_compose():
    (compose,) = documents("docker-compose.yml")
    assert compose["services"]["serving"]["image"] == "tensorflow/serving:2.20.0"
    assert (DEPLOY / compose["services"]["wcd"]["build"]["context"] / "pyproject.toml").exists()
    for name, first in (("serving", 8500), ("wcd", 8510)):
        service = compose["services"][name]
        options = flags_understood(service["command"])
        mounted = {volume.rsplit(":", 2)[1]: volume.rsplit(":", 2)[0] for volume in service["volumes"]}
        for file in (options.model_config_file, options.batching_parameters_file, options.monitoring_config_file):
            assert (DEPLOY / mounted[file]).exists()
        assert "/models" in mounted
        ports = [f"127.0.0.1:{first}:{options.port}", f"127.0.0.1:{first + 1}:{options.rest_api_port}"]
        assert service["ports"] == ports
        assert service["read_only"]
        assert service["cap_drop"] == ["ALL"]
    assert options.host == "0.0.0.0"  # of the container


def test_the_health_check_of_compose(library, tmp_path):
    """Its bash line succeeds while the model is served, and fails otherwise."""
    (compose,) = documents("docker-compose.yml")
    command, *arguments, line = compose["services"]["serving"]["healthcheck"]["test"]
    assert (command, arguments) == ("CMD", ["bash", "-c"])
    put(library[0], tmp_path / "rbm", 1)
    with running(tmp_path / "rbm") as connection:
        ask = lambda text: subprocess.run(["bash", "-c", text], timeout=30, capture_output=True).returncode  # noqa: E731
        here = line.replace("/8501 ", f"/{connection.rest_port} ")
        assert here != line
        assert ask(here) == 0
        assert ask(here.replace("models/rbm", "models/other")) != 0
    assert ask(here) != 0


def test_kubernetes():
    by_kind = {document["kind"]: document for document in documents("kubernetes.yaml")}
    assert set(by_kind) == {
        "PersistentVolumeClaim", "Deployment", "Service", "HorizontalPodAutoscaler", "PodDisruptionBudget",
        "NetworkPolicy",
    }  # fmt: skip
    deployment = by_kind["Deployment"]
    pod = deployment["spec"]["template"]
    labels = pod["metadata"]["labels"]
    (container,) = pod["spec"]["containers"]
    assert container["image"] == "tensorflow/serving:2.20.0"
    options = flags_understood(container["args"])
    assert [port["containerPort"] for port in container["ports"]] == [options.port, options.rest_api_port]
    (model,) = config_files.read_models(DEPLOY / "models.config").model_config_list.config
    for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
        # Not by gRPC, which may be encrypted.
        assert container[probe]["httpGet"] == {"path": f"/v1/models/{model.name}", "port": "rest"}
    assert deployment["spec"]["selector"]["matchLabels"] == labels
    assert by_kind["Service"]["spec"]["selector"] == labels
    assert by_kind["PodDisruptionBudget"]["spec"]["selector"]["matchLabels"] == labels
    policy = by_kind["NetworkPolicy"]["spec"]
    assert policy["podSelector"]["matchLabels"] == labels
    assert {port["port"] for rule in policy["ingress"] for port in rule["ports"]} == {
        options.port, options.rest_api_port,
    }  # fmt: skip
    scaler = by_kind["HorizontalPodAutoscaler"]["spec"]
    assert scaler["scaleTargetRef"]["name"] == deployment["metadata"]["name"]
    assert by_kind["PodDisruptionBudget"]["spec"]["minAvailable"] < scaler["minReplicas"] < scaler["maxReplicas"]
    volumes = {volume["name"] for volume in pod["spec"]["volumes"]}
    assert {mount["name"] for mount in container["volumeMounts"]} == volumes
    assert by_kind["PersistentVolumeClaim"]["metadata"]["name"] == "wcd-models"
    assert "storageClassName: ${STORAGE_CLASS}" in (DEPLOY / "kubernetes.yaml").read_text()


def test_the_publisher():
    """Its command is one of ours, and it writes where the servers read."""
    (job,) = documents("kubernetes-publisher.yaml")
    pod = job["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    arguments = dict(argument.removeprefix("--").split("=") for argument in container["args"])
    assert container["command"] == ["wcd", "export"]
    assert set(arguments) <= set(inspect.signature(commands.export_model).parameters)
    (model,) = config_files.read_models(DEPLOY / "models.config").model_config_list.config
    assert arguments["base_path"] == model.base_path
    claims = [volume["persistentVolumeClaim"]["claimName"] for volume in pod["volumes"] if "emptyDir" not in volume]
    assert claims == ["wcd-models"]


@pytest.mark.parametrize("name", ["kubernetes.yaml", "kubernetes-publisher.yaml"])
def test_containers_are_locked_in(name):
    for document in documents(name):
        if "template" not in document["spec"]:
            continue
        pod = document["spec"]["template"]["spec"]
        assert pod["securityContext"]["runAsNonRoot"]
        assert pod["automountServiceAccountToken"] is False
        for container in pod["containers"]:
            assert container["securityContext"] == {
                "allowPrivilegeEscalation": False,
                "readOnlyRootFilesystem": True,
                "capabilities": {"drop": ["ALL"]},
            }


def test_the_image_has_what_is_installed():
    """The folders that are copied, the extra that is installed, and flags that the server knows."""
    text = (DEPLOY / "Dockerfile").read_text()
    root = DEPLOY.parent.parent
    for line in re.findall(r"^COPY (.*) /source\S*$", text, re.MULTILINE):
        assert all((root / name).exists() for name in line.split())
    assert re.search(r"^USER 1000$", text, re.MULTILINE)
    options = flags_understood(json.loads(re.search(r"^CMD (.*)$", text, re.MULTILINE)[1]))
    assert options.host == "0.0.0.0"


def test_exports_need_no_new_tensorflow(library):
    """Graphs that a TensorFlow of years ago runs, and so TF-Serving's newest release, which is older than ours."""
    saved = saved_model_pb2.SavedModel.FromString((library[0] / "saved_model.pb").read_bytes())
    assert [graph.graph_def.versions.min_consumer for graph in saved.meta_graphs] == [12]


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
