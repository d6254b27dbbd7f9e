"""Files and folders appear whole or not at all, and what a killed process leaves is removed."""

import contextlib
import os
import time
import uuid

import pytest

from tf_wcd import files


def names_in(folder):
    return sorted(path.name for path in folder.iterdir())


def leftover(folder, age, directory):
    """What a killed process leaves: a hidden file or folder, so many seconds old."""
    path = folder / f".model.{uuid.uuid4().hex}.part"
    if directory:
        path.mkdir()
        (path / "content").write_text("cut short")
    else:
        path.write_text("cut short")
    os.utime(path, (time.time() - age,) * 2)
    return path.name


@pytest.mark.parametrize("content", ["text", b"bytes"])
def test_a_file_is_replaced(tmp_path, content):
    path = tmp_path / "file"
    for _ in range(2):
        files.write_atomically(path, content)
        assert path.read_bytes() == (content.encode() if isinstance(content, str) else content)
        assert names_in(tmp_path) == ["file"]


def test_after_an_error_the_old_file_is_there(tmp_path):
    path = tmp_path / "file"
    path.write_text("old")

    def replace():
        with files.replaced_atomically(path) as new:
            new.write_text("new")
            assert path.read_text() == "old"
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        replace()
    assert path.read_text() == "old"
    assert names_in(tmp_path) == ["file"]


def test_a_folder_that_is_not_renamed_is_removed(tmp_path):
    with contextlib.suppress(ZeroDivisionError), files.new_folder(tmp_path) as new:
        new.mkdir()
        (new / "content").write_text("half")
        raise ZeroDivisionError
    assert names_in(tmp_path) == []


def test_a_folder_gets_the_first_free_name(tmp_path):
    (tmp_path / "1").write_text("a file")
    (tmp_path / "2").mkdir()
    (tmp_path / "2" / "content").write_text("old")
    targets = [tmp_path / name for name in "123"]
    with files.new_folder(tmp_path) as new:
        (new / "deep").mkdir(parents=True)
        (new / "deep" / "content").write_text("new")
        assert files.rename_to_first_free(new, targets) == tmp_path / "3"
    assert (tmp_path / "3" / "deep" / "content").read_text() == "new"
    assert (tmp_path / "2" / "content").read_text() == "old"
    with files.new_folder(tmp_path) as new:
        new.mkdir()
        with pytest.raises(FileExistsError):
            files.rename_to_first_free(new, targets)
    assert names_in(tmp_path) == ["1", "2", "3"]


def test_content_is_on_the_disk_before_the_name(tmp_path, monkeypatch):
    events = []
    for name in ("fsync", "rename", "replace"):
        function = getattr(os, name)
        monkeypatch.setattr(os, name, lambda *a, name=name, function=function: (events.append(name), function(*a))[1])
    files.write_atomically(tmp_path / "file", "text")
    assert events == ["fsync", "replace"]
    events.clear()
    with files.new_folder(tmp_path) as new:
        (new / "deep").mkdir(parents=True)
        for path in (new / "a", new / "deep" / "b"):
            path.write_text("text")
        files.rename_to_first_free(new, [tmp_path / "1"])
    assert events == ["fsync"] * 4 + ["rename", "fsync"]  # two files and two folders; the one with the new name


def test_a_removed_folder_loses_its_name_first(tmp_path, monkeypatch):
    (tmp_path / "1").mkdir()
    (tmp_path / "1" / "content").write_text("old")
    monkeypatch.setattr(files.shutil, "rmtree", lambda *args, **kwargs: None)  # killed at this point
    files.remove_folder(tmp_path / "1")
    (left,) = names_in(tmp_path)
    assert left.startswith(".1.")
    assert left.endswith(".part")
    files.remove_folder(tmp_path / "1")  # it is gone already


@pytest.mark.parametrize("directory", [False, True])
def test_leftovers_are_removed_after_a_day(tmp_path, directory):
    young = leftover(tmp_path, files.STALE_SECONDS - 60, directory)
    leftover(tmp_path, files.STALE_SECONDS + 60, directory)
    others = {".profile", "model.part", ".model.part"}
    for name in others:
        (tmp_path / name).write_text("another program's")
        os.utime(tmp_path / name, (0, 0))
    files.write_atomically(tmp_path / "file", "text")
    assert set(names_in(tmp_path)) == {"file", young} | others
