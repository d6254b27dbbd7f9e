"""Ports that nobody listens on."""

import contextlib
import socket


def free_ports(count):
    with contextlib.ExitStack() as open_ones:
        sockets = [open_ones.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(count)]
        return [s.getsockname()[1] for s in sockets]
