"""MLflow's own page, served beside ours on a port of its own once somebody wants it.

It takes seconds and half a gigabyte to start, which a running study would miss.
"""

from __future__ import annotations

import os
import socket
import threading
from typing import Any

from ablate.errors import AblateError
from ablate.live.gate import PARAMETER
from ablate.live.mlflow_app import TOKEN
from ablate.live.ports import free_port
from ablate.record import attended, places
from ablate.store.workspace import Workspace, make_folders

LOG = "mlflow-ui.log"
APP = "ablate"  # `mlflow_app.py`, as pyproject.toml calls it


def start(workspace: Workspace, port: int, token: str) -> Any:
    """Start MLflow's server for whoever has the token; what it says is in its log."""
    command = places.ui_command(workspace.tracking_uri, workspace.artifacts, port, APP)
    places.check_port(port)
    make_folders(workspace)
    variables = {**places.ui_environment(workspace.tracking_uri), TOKEN: token}
    with (workspace.folder / LOG).open("w") as file:  # of this server alone
        return attended.start(command, env={**os.environ, **variables}, stdout=file, stderr=file)


def page(port: int, token: str) -> str:
    """The address of MLflow's page, with the token."""
    return places.ui_page(port, f"{PARAMETER}={token}")


class MLflow:
    """MLflow's server on this machine, or the one that the workspace records to."""

    def __init__(
        self, workspace: Workspace, port: int, token: str, *, offered: bool = True
    ) -> None:
        self._workspace, self._port, self._token = workspace, port, token
        self._process: Any = None
        self._lock = threading.Lock()
        self.trouble = ""
        self.is_offered = offered

    def address(self) -> str | None:
        """Where MLflow's page is; None while it starts, or if it cannot be served."""
        if not self.is_offered:
            self.trouble = "MLflow's page is served on the machine itself only."
            return None
        if places.is_server(self._workspace.tracking_uri):
            return self._workspace.tracking_uri
        with self._lock:
            if self._process is None:
                self._start()
            elif self._process.poll() is not None:
                log = self._workspace.folder / LOG
                self.trouble = f"MLflow ended: {places.first_error(log.read_text())} (log: {log})"
        return page(self._port, self._token) if not self.trouble and self._listens() else None

    def _start(self) -> None:
        try:
            self._port = free_port(self._port)  # since the page began, another may have taken it
            self._process = start(self._workspace, self._port, self._token)
        except AblateError as error:
            self.trouble = str(error)

    def _listens(self) -> bool:
        with socket.socket() as probe:
            probe.settimeout(0.5)
            return probe.connect_ex(("127.0.0.1", self._port)) == 0

    def stop(self) -> None:
        """End MLflow's server, if it was started."""
        if self._process is not None:
            attended.stop(self._process)
