"""Serves the page until it is stopped."""

from __future__ import annotations

import secrets
import socket
import threading
import time
from collections.abc import Callable
from typing import Any
from urllib.parse import quote

from ablate.errors import ConfigError, MissingDependency, needs
from ablate.live.gate import PARAMETER, is_loopback
from ablate.store.workspace import Workspace

LOOPBACK = "127.0.0.1"
ASKING_SECONDS = 3.0  # since the last question, after which no page is open
LEAVE_SECONDS = 2.5  # in which each open page asks once more after `served.LAST_SECONDS`


def serve(
    workspace: Workspace,
    host: str,
    port: int,
    opened: Callable[[str, str], None],
    at_study: str = "",
    token: str = "",
) -> None:
    """Serve a workspace's page. `opened` is given its address, and one that works once.

    The latter is for a browser, whose arguments all users of the machine can read.
    """
    try:
        import uvicorn
    except ModuleNotFoundError as error:
        raise MissingDependency(needs("the page needs", error.name or "uvicorn")) from None
    from ablate.live.app import make_app
    from ablate.live.mlflow import MLflow
    from ablate.live.served import Served

    token, once = token or secrets.token_urlsafe(24), secrets.token_urlsafe(24)
    mlflow = MLflow(workspace, port + 1, token, offered=is_loopback(host))
    served = Served(workspace, awaited=at_study)
    app = make_app(served, mlflow, token, once)
    config = uvicorn.Config(
        app, host=host, port=port, log_level="error", access_log=False, server_header=False,
        timeout_graceful_shutdown=3, lifespan="off", ws="none",
    )  # fmt: skip
    with _listening(host, port) as listening:
        opened(address(host, port, at_study, token), address(host, port, at_study, once))
        try:
            _server(config, served).run(sockets=[listening])
        finally:
            mlflow.stop()


def address(host: str, port: int, study: str, token: str) -> str:
    """The address of the page of a study, or of all of them, with a token."""
    shown = f"[{host}]" if ":" in host else host
    path = f"study/{quote(study, safe='@')}" if study else ""
    return f"http://{shown}:{port}/{path}?{PARAMETER}={token}"


def _server(config: Any, served: Any) -> Any:
    """A server that stays until the pages which are open have read what came last."""
    import uvicorn

    class Server(uvicorn.Server):
        def handle_exit(self, sig: int, frame: Any) -> None:
            now = time.monotonic()
            is_asked_again, served.closes = served.closes is not None, now
            if is_asked_again or now - served.asked > ASKING_SECONDS:
                super().handle_exit(sig, frame)
            else:
                leave = threading.Timer(LEAVE_SECONDS, super().handle_exit, (sig, frame))
                leave.daemon = True
                leave.start()

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
