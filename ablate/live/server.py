"""Serves the page until it is stopped."""

from __future__ import annotations

import secrets
import socket
from collections.abc import Callable
from typing import Any
from urllib.parse import quote

from ablate.errors import ConfigError, MissingDependency, needs
from ablate.live.gate import PARAMETER, is_loopback
from ablate.store.workspace import Workspace

LOOPBACK = "127.0.0.1"
PORTS = 20  # that are tried in turn, unless one was asked for


def serve(
    workspace: Workspace, host: str, port: int, opened: Callable[[str], None], at_study: str = ""
) -> None:
    """Serve a workspace's page. `opened` is given its address once it can be read."""
    try:
        import uvicorn
    except ModuleNotFoundError as error:
        raise MissingDependency(needs("the page needs", error.name or "uvicorn")) from None
    from ablate.live.app import make_app
    from ablate.live.mlflow import MLflow
    from ablate.live.served import Served

    alone = is_loopback(host)
    token = None if alone else secrets.token_urlsafe(24)
    mlflow = MLflow(workspace, port + 1 if port < 65535 else 5049, offered=alone)
    served = Served(workspace, awaited=at_study)
    app = make_app(served, mlflow, token)
    config = uvicorn.Config(
        app, host=host, port=port, log_level="error", access_log=False, server_header=False,
        timeout_graceful_shutdown=3, lifespan="off", ws="none",
    )  # fmt: skip
    with _listening(host, port) as listening:
        query = f"?{PARAMETER}={token}" if token else ""
        shown = f"[{host}]" if ":" in host else host
        path = f"study/{quote(at_study, safe='@')}" if at_study else ""
        opened(f"http://{shown}:{port}/{path}{query}")
        try:
            _server(config, served).run(sockets=[listening])
        finally:
            mlflow.stop()


def _server(config: Any, served: Any) -> Any:
    """A server that first lets go of the clients that wait for news."""
    import uvicorn

    class Server(uvicorn.Server):
        def handle_exit(self, sig: int, frame: Any) -> None:
            served.is_closing = True
            super().handle_exit(sig, frame)

    return Server(config)


def _listening(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(family)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((host, port))
    except (OSError, OverflowError) as error:
        listening.close()
        raise ConfigError(
            f"port {port} of {host} cannot be used: {getattr(error, 'strerror', None) or error}. "
            "Perhaps another `ablate ui` uses it. Instead: another --port."
        ) from error
    listening.listen(128)
    return listening


def free_port(first: int) -> int:
    """The first port from here on that nothing on this machine uses, with the next one free too."""
    for port in range(first, first + PORTS):
        if _is_free(port) and _is_free(port + 1):  # MLflow's own page takes the next one
            return port
    raise ConfigError(f"ports {first} to {first + PORTS - 1} are all in use. Instead: --port.")


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        return probe.connect_ex((LOOPBACK, port)) != 0
