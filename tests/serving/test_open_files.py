"""Connections of gRPC leave files for others."""

import resource

import pytest

from serving import open_files


@pytest.mark.parametrize(
    ("limit", "listeners", "connections"),
    [(1024, 1, 256), (1024, 2, 128), (500, 1, 16), (20_000, 1, 19_232), (10**6, 1, 2**16),
     (resource.RLIM_INFINITY, 2, 2**16)],
)  # fmt: skip
def test_connections_by_the_limit_of_files(monkeypatch, limit, listeners, connections):
    monkeypatch.setattr(resource, "getrlimit", lambda which: (limit, limit))
    assert open_files.grpc_connections(listeners) == connections


@pytest.mark.parametrize(
    ("soft", "hard", "raised"),
    [(1024, 4096, [(4096, 4096)]), (1024, 10**6, [(2**17, 10**6)]), (4096, 4096, []),
     (1024, resource.RLIM_INFINITY, [(2**17, resource.RLIM_INFINITY)])],
)  # fmt: skip
def test_the_limit_is_raised(monkeypatch, soft, hard, raised):
    calls: list = []
    monkeypatch.setattr(resource, "getrlimit", lambda which: (soft, hard))
    monkeypatch.setattr(resource, "setrlimit", lambda which, limits: calls.append(limits))
    open_files.raise_limit()
    assert calls == raised
