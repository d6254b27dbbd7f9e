"""Downloads from a server on this machine: once, whole and right, or nothing is kept."""

import os

import pytest

from tests.tf_wcd.conftest import files_in
from tf_wcd.datasets import download


def check_is(content):
    def check(path):
        if path.read_bytes() != content:
            raise ValueError("Received: something else")

    return check


def test_fetch_downloads_once(server, cache):
    content = os.urandom(300_000)
    server.files["/a"] = content
    for _ in range(3):
        assert download.fetch(f"{server.address}/a", "a.bin", check_is(content)).read_bytes() == content
    assert server.requests == ["/a"]
    assert files_in(cache) == ["a.bin"]


def test_fetch_replaces_a_broken_file(server, cache):
    server.files["/a"] = b"right"
    (cache / "a.bin").write_bytes(b"rig")
    assert download.fetch(f"{server.address}/a", "a.bin", check_is(b"right")).read_bytes() == b"right"
    # Without the network the broken file is gone all the same.
    (cache / "a.bin").write_bytes(b"rig")
    with pytest.raises(OSError, match="Could not download"):
        download.fetch(f"{server.address}/missing", "a.bin", check_is(b"right"))
    assert files_in(cache) == []


def test_a_wrong_file_is_not_kept(server, cache):
    server.files["/a"] = b"wrong"
    with pytest.raises(ValueError, match=r"/a is not the file.*not kept.*TF_WCD_DATA.*Received: something else"):
        download.fetch(f"{server.address}/a", "a.bin", check_is(b"right"))
    assert files_in(cache) == []


def test_a_connection_that_breaks_off(server, cache):
    content = os.urandom(300_000)
    server.files["/a"] = content
    for bytes_sent in (0, 1, 150_000):
        server.hang_up_after = bytes_sent
        with pytest.raises(OSError, match=rf"Could not download .*/a.*after {bytes_sent} of 300000 bytes"):
            download.fetch(f"{server.address}/a", "a.bin", check_is(content))
        assert files_in(cache) == []
    server.hang_up_after = None
    assert download.fetch(f"{server.address}/a", "a.bin", check_is(content)).read_bytes() == content


def test_no_such_file_and_no_server(server, cache):
    with pytest.raises(OSError, match=r"Could not download .*404"):
        download.fetch(f"{server.address}/none", "a.bin", check_is(b""))
    with pytest.raises(OSError, match=r"Could not download .*Received: URLError"):
        download.fetch("http://127.0.0.1:9/a", "a.bin", check_is(b""))
    assert files_in(cache) == []
