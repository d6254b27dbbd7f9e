"""Versions that are copied while the server looks: one that is incomplete never replaces a good one."""

import json
import os
import shutil
import time

import grpc
import numpy as np
import pytest
import tensorflow as tf

from serving import publish, version_files
from serving.errors import ServingError
from serving.publish import versions_in
from tests.serving.conftest import N_V, eventually, put, running
from tests.serving.test_versions import states, version_used
from tf_wcd.export.manifest import MANIFEST, difference

X = np.zeros([1, N_V], "float32")
DATA = "variables/variables.data-00000-of-00001"


@pytest.fixture(scope="module")
def foreign(tmp_path_factory):
    """A model that is not ours: variables, and no manifest."""
    module = tf.Module()
    module.a = tf.Variable(tf.random.normal([200, 200], seed=1))
    module.f = tf.function(lambda x: {"y": x @ module.a}, input_signature=[tf.TensorSpec([None, 200], tf.float32)])
    path = tmp_path_factory.mktemp("foreign") / "model"
    tf.saved_model.save(module, str(path), signatures={"serving_default": module.f})
    return path


def copy(source, target, names):
    for name in names:
        (target / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source / name, target / name)


def test_an_export_has_a_manifest(library, tmp_path):
    assert difference(library[0]) is None
    for change in (
        lambda path: (path / DATA).write_bytes((path / DATA).read_bytes()[:-1]),
        lambda path: (path / DATA).write_bytes(bytes((path / DATA).stat().st_size)),  # the size alone is not enough
        lambda path: (path / "variables" / "variables.index").unlink(),
        lambda path: (path / "assets.extra" / "tf_wcd.json").write_text("{}"),
        lambda path: (path / MANIFEST).write_text("[]"),
    ):
        path = tmp_path / "copy"
        shutil.copytree(library[0], path)
        version_files.check_version(path)
        change(path)
        with pytest.raises(ServingError, match="is incomplete"):
            version_files.check_version(path)
        shutil.rmtree(path)


@pytest.mark.parametrize("name", ["../secret", "/secret", "variables/../../secret"])
def test_a_manifest_is_about_its_own_folder(library, tmp_path, name):
    """It says nothing of other files, whose sizes and checksums whoever wrote it could try out."""
    shutil.copytree(library[0], tmp_path / "copy")
    (tmp_path / "secret").write_text("secret")
    named = str(tmp_path / "secret") if name == "/secret" else name
    (tmp_path / "copy" / MANIFEST).write_text(json.dumps({"files": {named: {"size": 5, "sha256": "0"}}}))
    assert difference(tmp_path / "copy") == f"{MANIFEST} has files of other folders"


def test_a_version_copied_file_by_file_is_served_when_it_is_whole(library, base):
    """The graph first, the variables last, a part of them before: the old version answers all the while."""
    names = ["saved_model.pb", "fingerprint.pb", "assets.extra/tf_wcd.json", MANIFEST, "variables/variables.index"]
    with running(base, enable_model_warmup=True) as connection:
        for name in names:
            copy(library[1], base / "2", [name])
            time.sleep(0.25)
            assert version_used(connection) == 1
        content = (library[1] / DATA).read_bytes()
        (base / "2" / DATA).write_bytes(content[: len(content) // 2])
        time.sleep(0.3)
        assert (2, "END") in states(connection)
        assert version_used(connection) == 1
        (base / "2" / DATA).write_bytes(content)
        eventually(lambda: version_used(connection) == 2, 20)  # and not after a minute


def test_models_without_a_manifest(foreign, tmp_path):
    graph_only = ["saved_model.pb", "fingerprint.pb"]
    copy(foreign, tmp_path / "m" / "1", [*graph_only, "variables/variables.index", DATA])
    with running(tmp_path / "m", model_name="m") as connection:
        ask = lambda: connection.prediction.Predict(  # noqa: E731
            connection.request("", name="m", x=np.ones([1, 200], "float32")), timeout=30
        )
        assert ask().model_spec.version.value == 1
        copy(foreign, tmp_path / "m" / "2", graph_only)
        eventually(lambda: (2, "END") in states(connection, "m"))
        assert ask().model_spec.version.value == 1
        copy(foreign, tmp_path / "m" / "2", ["variables/variables.index", DATA])
        eventually(lambda: ask().model_spec.version.value == 2, 20)
    version_files.check_version(tmp_path / "m" / "2")


def test_a_start_falls_back_to_the_newest_version_that_loads(library, base):
    put(library[1], base, 2)
    put(library[2], base, 3)
    (base / "3" / DATA).unlink()
    with running(base) as connection:
        assert states(connection) == [(3, "END"), (2, "AVAILABLE")]
        assert version_used(connection) == 2
        copy(library[2], base / "3", [DATA])
        eventually(lambda: states(connection) == [(3, "AVAILABLE"), (2, "END")])


def test_what_is_no_file_is_refused_and_holds_nobody_up(library, base):
    """A pipe as the graph, or anywhere else: loading goes on with other versions."""
    with running(base) as connection:
        for version, name in ((2, "saved_model.pb"), (3, DATA), (4, "assets.extra/tf_wcd.json")):
            aside = base / f".{version}"
            shutil.copytree(library[1], aside)
            (aside / name).unlink()
            os.mkfifo(aside / name)
            aside.rename(base / str(version))
            eventually(lambda v=version: (v, "END") in states(connection), 20)
        put(library[2], base, 5)
        eventually(lambda: version_used(connection) == 5, 20)


def test_links_without_end_hold_nobody_up(library, base):
    """Two links to their own folder make millions of folders of one."""
    with running(base) as connection:
        aside = base / ".2"
        shutil.copytree(library[1], aside)
        for link in "abc":
            (aside / link).symlink_to(".")
        aside.rename(base / "2")
        eventually(lambda: (2, "END") in states(connection), 20)
        assert version_used(connection) == 1
        status = connection.http("GET", "/v1/models/rbm/versions/2")[1]["model_version_status"][0]["status"]
        assert "has more than 10000 files and folders" in status["error_message"]
        put(library[2], base, 3)
        eventually(lambda: version_used(connection) == 3, 20)


class Model:
    def export(self, path):
        path.mkdir()
        (path / "saved_model.pb").write_text("x")


def test_numbers_are_given_once(tmp_path):
    base = tmp_path / "m"
    for number in (1, 2, 3):
        assert publish(Model(), base).name == str(number)
    shutil.rmtree(base / "3")
    assert publish(Model(), base).name == "4"
    shutil.rmtree(base / "4")
    assert versions_in(base) == [1, 2]
    (base / "last_version").write_text("nonsense")
    assert publish(Model(), base).name == "3"  # as far as is known
    assert difference(base / "3") is None
    (base / "3" / "saved_model.pb").write_text("")
    assert difference(base / "3") == "saved_model.pb has 0 bytes, and not 1"


def test_a_number_that_cannot_be_kept_publishes_nothing(tmp_path, monkeypatch):
    from tf_wcd import files

    base = tmp_path / "m"
    publish(Model(), base)

    def full(path, content):
        raise OSError("disk full")

    with monkeypatch.context() as patched:
        patched.setattr(files, "write_atomically", full)
        with pytest.raises(OSError, match=r"those before, \[1\], are as they were. disk full"):
            publish(Model(), base)
    assert versions_in(base) == [1]
    assert publish(Model(), base).name == "2"


def test_what_killed_publishers_left_is_removed_after_a_day(tmp_path):
    base = tmp_path / "m"
    long_ago = time.time() - 2 * 24 * 60 * 60
    for name in (".publishing-7", f".new.{'0' * 32}.part"):
        (base / name).mkdir(parents=True)
        os.utime(base / name, (long_ago, long_ago))
    (base / ".publishing-8").mkdir()
    publish(Model(), base)
    assert sorted(path.name for path in base.iterdir()) == [".publishing-8", "1", "last_version"]


def test_files_that_change_while_they_are_loaded(library, base, monkeypatch):
    """What was read may be of two versions: it is read again."""
    from serving import manager

    class Changing(manager.Servable):
        times = 0

        def __init__(self, name, version, path, *arguments):
            super().__init__(name, version, path, *arguments)
            Changing.times += 1
            if Changing.times == 1:
                os.utime(path / "saved_model.pb")

    monkeypatch.setattr(manager, "Servable", Changing)
    with running(base) as connection:
        assert version_used(connection) == 1
        assert Changing.times == 2


def test_an_unknown_model_is_still_unknown(base):
    with running(base) as connection, pytest.raises(grpc.RpcError, match="NOT_FOUND"):
        version_used(connection, name="x")
