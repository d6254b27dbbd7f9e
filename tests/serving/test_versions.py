"""Versions, labels and lists of models: what is served, and what the status says of it."""

import shutil
import threading
import time

import grpc
import numpy as np
import pytest
from tensorflow_serving.apis import get_model_metadata_pb2, get_model_status_pb2, model_management_pb2, model_pb2
from tensorflow_serving.config import model_server_config_pb2

from serving import config_files, manager, publish
from serving.publish import versions_in
from serving.served_models import Model
from tests.serving.conftest import N_H, N_V, eventually, put, running
from tests.support.served import small_rbm

X = np.zeros([1, N_V], "float32")


def states(connection, name="rbm"):
    request = get_model_status_pb2.GetModelStatusRequest()
    request.model_spec.name = name
    names = get_model_status_pb2.ModelVersionStatus.State
    answer = connection.models.GetModelStatus(request).model_version_status
    return [(entry.version, names.Name(entry.state)) for entry in answer]


def version_used(connection, **kwargs):
    request = connection.request("free_energy", visible=X, **kwargs)
    return connection.prediction.Predict(request, timeout=30).model_spec.version.value


# Publishing


def test_publishing(tmp_path):
    class Model:
        def export(self, path, text="x"):
            path.mkdir()
            (path / "saved_model.pb").write_text(text)

    base = tmp_path / "deep" / "model"
    assert publish(Model(), base) == base / "1"
    (base / "00000007").mkdir()
    (base / "not-a-number").mkdir()
    (base / "9²").mkdir()
    assert publish(Model(), base, text="y") == base / "8"
    assert (base / "8" / "saved_model.pb").read_text() == "y"
    assert versions_in(base) == [1, 7, 8]
    publish(Model(), base, keep=2)
    assert versions_in(base) == [8, 9]
    assert not list(base.glob(".*"))
    with pytest.raises(ValueError, match="keep=0"):
        publish(Model(), base, keep=0)


def test_an_export_that_fails_leaves_nothing(tmp_path):
    class Broken:
        def export(self, path):
            path.mkdir()
            raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        publish(Broken(), tmp_path / "m")
    assert list((tmp_path / "m").iterdir()) == []


def test_publishers_that_race_get_versions_of_their_own(tmp_path):
    barrier = threading.Barrier(8)

    class Slow:
        def __init__(self, number):
            self.number = number

        def export(self, path):
            path.mkdir()
            (path / "saved_model.pb").write_text(str(self.number))
            barrier.wait()

    paths: list = []
    threads = [threading.Thread(target=lambda i=i: paths.append((i, publish(Slow(i), tmp_path)))) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert versions_in(tmp_path) == list(range(1, 9))
    for number, path in paths:
        assert (path / "saved_model.pb").read_text() == str(number)


def test_a_published_model_is_served(tmp_path):
    rbm = small_rbm(n_v=N_V, n_h=N_H)
    publish(rbm, tmp_path / "rbm", gibbs_steps=5)
    with running(tmp_path / "rbm") as connection:
        assert version_used(connection) == 1
        answer = connection.predict("free_energy", visible=X)["free_energy"]
        np.testing.assert_allclose(answer, rbm.free_energy(X), rtol=1e-6)


# Serving


def test_answers_say_which_model_answered(connection):
    request = connection.request("", seed=np.arange(2))
    response = connection.prediction.Predict(request)
    assert response.model_spec.name == "rbm"
    assert response.model_spec.version.value == 3
    assert response.model_spec.signature_name == "serving_default"
    assert len(response.outputs["visible"].float_val) == 2 * N_V
    assert response.outputs["visible"].tensor_content == b""
    assert version_used(connection, version=1) == version_used(connection, label="stable") == 1


def test_metadata(connection):
    request = get_model_metadata_pb2.GetModelMetadataRequest(metadata_field=["signature_def"])
    request.model_spec.name = "rbm"
    response = connection.prediction.GetModelMetadata(request)
    table = get_model_metadata_pb2.SignatureDefMap()
    assert response.metadata["signature_def"].Unpack(table)
    assert set(table.signature_def) == {
        "serving_default", "sample", "gibbs", "clamp", "encode", "free_energy", "log_prob",
    }  # fmt: skip
    assert [dim.size for dim in table.signature_def["clamp"].inputs["mask"].tensor_shape.dim] == [-1, N_V]
    status, answer = connection.http("GET", "/v1/models/rbm/metadata")
    assert status == 200
    assert answer["model_spec"]["version"] == "3"
    inside = answer["metadata"]["signature_def"]["signature_def"]["sample"]["inputs"]["seed"]
    assert inside["dtype"] == "DT_INT64"
    status, answer = connection.http("GET", "/v1/models/rbm")
    assert [entry["version"] for entry in answer["model_version_status"]] == ["3", "1"]
    assert answer["model_version_status"][0]["state"] == "AVAILABLE"
    assert answer["model_version_status"][0]["status"] == {"error_code": "OK", "error_message": ""}


def test_a_new_version_replaces_the_old_one_and_a_corrupt_one_does_not(library, base):
    with running(base) as connection:
        assert version_used(connection) == 1
        put(library[1], base, 2)
        eventually(lambda: version_used(connection) == 2)
        eventually(lambda: states(connection) == [(2, "AVAILABLE"), (1, "END")])
        with pytest.raises(grpc.RpcError, match=r"Specific\(rbm, 1\)"):
            version_used(connection, version=1)
        # Three ways to be corrupt: no file, a file of rubbish, variables cut short.
        (base / "3").mkdir()
        (base / ".4").mkdir()
        (base / ".4" / "saved_model.pb").write_bytes(b"rubbish" * 100)
        (base / ".4").rename(base / "4")
        aside = base / ".5"
        shutil.copytree(library[2], aside)
        data = aside / "variables" / "variables.data-00000-of-00001"
        data.write_bytes(data.read_bytes()[:100])
        aside.rename(base / "5")
        eventually(lambda: (5, "END") in states(connection))
        assert version_used(connection) == 2
        request = get_model_status_pb2.GetModelStatusRequest()
        request.model_spec.name = "rbm"
        request.model_spec.version.value = 5
        (entry,) = connection.models.GetModelStatus(request).model_version_status
        assert entry.status.error_code != 0
        assert entry.status.error_message
        # A good one after it is served.
        put(library[2], base, 6)
        eventually(lambda: version_used(connection) == 6)


def test_a_warm_up_request_that_fails_makes_the_load_fail(library, base):
    from tf_wcd.export.warmup import write_warmup

    with running(base, enable_model_warmup=True) as connection:
        aside = base / ".2"
        shutil.copytree(library[1], aside)
        write_warmup(aside / "assets.extra", {"sample": {"seed": np.zeros([1, 1], "int64")}})
        aside.rename(base / "2")
        eventually(lambda: (2, "END") in states(connection))
        assert version_used(connection) == 1


def test_a_model_that_is_in_use_is_unloaded_afterwards(library, base):
    with running(base) as connection:
        long = connection.request("gibbs", visible=X, seed=np.zeros(1, "int64"), steps=np.full(1, 20_000, "int32"))
        under_way = connection.prediction.Predict.future(long, timeout=120)
        time.sleep(0.2)
        put(library[1], base, 2)
        eventually(lambda: version_used(connection) == 2)
        assert under_way.result().model_spec.version.value in (1, 2)
        eventually(lambda: (1, "END") in states(connection))


def test_a_version_that_is_loaded_anew_stays_available(tmp_path, monkeypatch):
    """Its old copy may still answer its last request then, and ends later; the status is that of the new one."""

    waits: list = []

    class Loaded:
        name, unused = "rbm", threading.Event()

        def __init__(self, *_):
            pass

        def close_when_unused(self, timeout=None):
            waits.append(timeout)
            return self.unused.wait(timeout)

    def state():
        ((_, status),) = models.status(model_pb2.ModelSpec(name="rbm"))
        return manager.State.State.Name(status.state)

    def wait_for_unloading():
        Loaded.unused.set()
        for thread in threading.enumerate():
            if thread.name == "unload":
                thread.join(30)

    monkeypatch.setattr(manager, "Servable", Loaded)
    (tmp_path / "rbm" / "1").mkdir(parents=True)
    models = manager.ModelManager(config_files.one_model("rbm", str(tmp_path / "rbm")), poll_seconds=0)
    models.start()
    models._unload(models._models["rbm"], 1)
    assert state() == "UNLOADING"
    eventually(lambda: waits == [None])  # as long as a request may take, whatever deadlines the operator allows
    models.reconcile()
    wait_for_unloading()
    assert state() == "AVAILABLE"
    models._unload(models._models["rbm"], 1)
    wait_for_unloading()
    assert state() == "END"
    models.stop()


def reload(connection, text):
    from google.protobuf import text_format

    request = model_management_pb2.ReloadConfigRequest()
    text_format.Parse(text, request.config)
    return connection.models.HandleReloadConfigRequest(request, timeout=120).status


def test_policies_labels_and_a_new_list_of_models(library, tmp_path):
    for version in (1, 2, 3):
        put(library[version - 1], tmp_path / "a", version)
    put(library[0], tmp_path / "b", 5)

    def model(name, extra=""):
        return f'config {{ name: "{name}" base_path: "{tmp_path}/{name}" model_platform: "tensorflow" {extra} }}'

    file = tmp_path / "models.config"
    specific = "model_version_policy { specific { versions: 1 versions: 3 } }"
    labels = 'version_labels { key: "stable" value: 1 } version_labels { key: "canary" value: 3 }'
    file.write_text(f"model_config_list {{ {model('a', specific + labels)} {model('b')} }}")
    with running(None, model_config_file=str(file), reload_config_anywhere=True) as connection:
        assert states(connection, "a") == [(3, "AVAILABLE"), (1, "AVAILABLE")]
        assert version_used(connection, name="a", label="canary") == 3
        assert version_used(connection, name="a", label="stable") == 1
        assert version_used(connection, name="b") == 5
        # The whole list is replaced: b goes, a gets other versions.
        latest = "model_version_policy { latest { num_versions: 2 } }"
        assert reload(connection, f"model_config_list {{ {model('a', latest)} }}").error_code == 0
        assert version_used(connection, name="a", version=2) == 2
        eventually(lambda: (1, "END") in states(connection, "a"))
        with pytest.raises(grpc.RpcError, match=r"Latest\(b\)"):
            version_used(connection, name="b")
        with pytest.raises(grpc.RpcError, match="label: canary"):
            version_used(connection, name="a", label="canary")
        # A label for what is not available is refused, and nothing changes; so is nonsense.
        missing = 'version_labels { key: "x" value: 9 }'
        assert reload(connection, f"model_config_list {{ {model('a', latest + missing)} }}").error_code == 9
        assert reload(connection, f"model_config_list {{ {model('a')} {model('a')} }}").error_code == 3
        assert reload(connection, 'model_config_list { config { name: "c" } }').error_code == 3
        (tmp_path / "c" / "1").mkdir(parents=True)
        assert reload(connection, f"model_config_list {{ {model('a', latest)} {model('c')} }}").error_code != 0
        assert version_used(connection, name="a") == 3


def test_fallbacks_are_few(tmp_path):
    """A client may name /proc, whose hundreds of folders with numbers took a minute to look through."""
    for version in range(1, 101):
        (tmp_path / str(version)).mkdir()
    model = Model(model_server_config_pb2.ModelConfig(base_path=str(tmp_path)))
    assert model.aspired() == [100]
    assert model.fallbacks() == list(range(99, 79, -1))
