"""Ports of this machine that nothing uses."""

from __future__ import annotations

import socket

from ablate.errors import ConfigError

PORTS = 20  # that are tried in turn


def free_port(first: int) -> int:
    """The first port from here on that nothing on this machine uses."""
    for port in range(first, first + PORTS):
        if port < 65536 and _is_free(port):
            return port
    raise ConfigError(f"ports {first} to {first + PORTS - 1} are all in use. Instead: --port.")


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        return probe.connect_ex(("127.0.0.1", port)) != 0
