"""How many files and connections the process may have open: a connection costs a client nothing, and all need one."""

from __future__ import annotations

import contextlib
import resource

from serving.http_exchange import RestLimits

MOST = 2**16  # connections of gRPC, where the system would allow more
OTHERS = 256  # for models, logs and the like
LEAST = 16


def raise_limit() -> None:
    """Takes as many as the system allows without asking: by default a process starts with far less."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    wanted = 2 * MOST if hard == resource.RLIM_INFINITY else min(hard, 2 * MOST)
    with contextlib.suppress(ValueError, OSError):
        if resource.getrlimit(resource.RLIMIT_NOFILE)[0] < wanted:
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def grpc_connections(listeners: int = 1) -> int:
    """Connections that gRPC may accept on each of its ports, so that REST and files are left some."""
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    if limit == resource.RLIM_INFINITY:
        return MOST
    return max(LEAST, min(MOST, (limit - RestLimits.max_connections - OTHERS) // max(1, listeners)))
