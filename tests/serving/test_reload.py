"""Who may change the models: nobody, below the operator's folders, or as with TF-Serving everybody."""

import logging

import grpc
import numpy as np
import pytest
from google.protobuf import text_format
from tensorflow_serving.apis import model_management_pb2

from serving.options import Options
from serving.server import Server
from tests.serving.conftest import N_V, eventually, put, running
from tests.serving.test_versions import states, version_used

X = np.zeros([1, N_V], "float32")


def reload(connection, *models):
    """Asks for these models, ``(name, base_path)``; code and text of the answer."""
    text = "".join(f'config {{ name: "{name}" base_path: "{path}" }}' for name, path in models)
    request = model_management_pb2.ReloadConfigRequest()
    text_format.Parse(f"model_config_list {{ {text} }}", request.config)
    try:
        status = connection.models.HandleReloadConfigRequest(request, timeout=60).status
    except grpc.RpcError as error:
        return error.code().name, error.details()
    return status.error_code, status.error_message


def test_it_is_off(library, base, tmp_path):
    put(library[1], tmp_path / "other", 1)
    with running(base) as connection:
        code, text = reload(connection, ("other", tmp_path / "other"))
        assert code == "PERMISSION_DENIED"
        assert "--reload_config_roots" in text
        assert reload(connection)[0] == "PERMISSION_DENIED"  # no models at all
        assert version_used(connection) == 1


def test_below_roots_alone(library, tmp_path):
    roots = tmp_path / "roots"
    put(library[0], roots / "a", 1)
    put(library[1], roots / "b", 1)
    put(library[2], tmp_path / "outside", 1)
    (roots / "link").symlink_to(tmp_path / "outside")
    # A version of links: each of its files is outside.
    (roots / "inner").mkdir()
    (roots / "inner" / "1").symlink_to(tmp_path / "outside" / "1")
    (roots / "file" / "1").mkdir(parents=True)
    (roots / "file" / "1" / "saved_model.pb").symlink_to(tmp_path / "outside" / "1" / "saved_model.pb")
    with running(roots / "a", reload_config_roots=f"{roots},/nowhere") as connection:
        for path in (tmp_path / "outside", roots / "link", f"{roots}/../outside", "/", f"{roots}2", "relative"):
            code, text = reload(connection, ("rbm", path))
            assert code == "PERMISSION_DENIED", text
            assert "below the server's roots" in text
        assert version_used(connection) == 1
        assert reload(connection, ("rbm", roots / "a"), ("b", roots / "b")) == (0, "")
        assert version_used(connection, name="b") == 1
        for name in ("inner", "file"):
            code, text = reload(connection, ("rbm", roots / "a"), (name, roots / name))
            assert code == "PERMISSION_DENIED", text
            assert states(connection, name) == [(1, "END")]
        assert version_used(connection) == 1


def test_servers_that_others_reach_warn(library, base, caplog):
    for host, options, warns in (
        ("0.0.0.0", {"reload_config_anywhere": True}, True),
        ("0.0.0.0", {"reload_config_roots": "/models"}, True),
        ("0.0.0.0", {}, False),
        ("127.0.0.1", {"reload_config_anywhere": True}, False),
    ):
        caplog.clear()
        with caplog.at_level(logging.WARNING, "serving"):
            # Without ports: nobody reaches anything.
            server = Server(Options(port=0, rest_api_port=0, model_base_path=str(base), host=host, **options))
            server.start()
            server.stop()
        assert any("can change the models" in message for message in caplog.messages) is warns


def test_the_file_of_models_is_polled(library, tmp_path, caplog):
    for i, name in enumerate("ab"):
        put(library[i], tmp_path / name, i + 1)

    def write(*names):
        models = "".join(
            f'config {{ name: "{n}" base_path: "{tmp_path}/{n}" model_platform: "tensorflow" }}' for n in names
        )
        file.write_text(f"model_config_list {{ {models} }}")

    file = tmp_path / "models.config"
    write("a")
    with running(None, model_config_file=str(file), model_config_file_poll_wait_seconds=0.1) as connection:
        assert version_used(connection, name="a") == 1
        write("b")
        eventually(lambda: states(connection, "b") == [(2, "AVAILABLE")] if _known(connection, "b") else False)
        assert not _known(connection, "a")
        # A file that cannot be read changes nothing.
        file.write_text("nonsense {")
        eventually(lambda: "is not applied" in caplog.text)
        assert version_used(connection, name="b") == 2
        write("a", "b")
        eventually(lambda: _known(connection, "a"))
        # One that is applied, but for a model that cannot be loaded.
        caplog.clear()
        (tmp_path / "c" / "1").mkdir(parents=True)
        (tmp_path / "c" / "1" / "saved_model.pb").write_bytes(b"nonsense")
        write("a", "c")
        eventually(lambda: "has no version that can be served" in caplog.text)
        assert "is not applied" not in caplog.text
        assert not _known(connection, "b")
    write("a")
    with running(None, model_config_file=str(file)) as connection:
        write("b")
        with pytest.raises(AssertionError):
            eventually(lambda: _known(connection, "b"), 0.5)


def test_a_model_that_moves_is_loaded_from_its_new_folder(library, tmp_path):
    for i, name in enumerate("ab"):
        put(library[i], tmp_path / name, 1)
    with running(tmp_path / "a", reload_config_anywhere=True, rest_api_port=0) as connection:
        x = np.eye(N_V, dtype="float32")
        before = connection.predict("free_energy", visible=x)
        assert reload(connection, ("rbm", tmp_path / "b")) == (0, "")
        after = connection.predict("free_energy", visible=x)
        assert not np.allclose(next(iter(before.values())), next(iter(after.values())))
        assert states(connection, "rbm") == [(1, "AVAILABLE")]


def _known(connection, name):
    try:
        return version_used(connection, name=name) > 0
    except grpc.RpcError:
        return False
