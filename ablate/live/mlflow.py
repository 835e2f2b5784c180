"""MLflow's own page, served beside ours on a port of its own once somebody wants it.

It takes seconds and half a gigabyte to start, which a running study would miss.
"""

from __future__ import annotations

import os
import socket
import threading
from typing import Any

from ablate.errors import AblateError
from ablate.live.ports import free_port
from ablate.record import attended, places
from ablate.store.workspace import Workspace, make_folders

LOG = "mlflow-ui.log"


class MLflow:
    """MLflow's server on this machine, or the one that the workspace records to."""

    def __init__(self, workspace: Workspace, port: int, offered: bool = True) -> None:
        self._workspace, self._port = workspace, port
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
        return places.ui_page(self._port) if not self.trouble and self._listens() else None

    def _start(self) -> None:
        workspace = self._workspace
        try:
            make_folders(workspace)
            self._port = free_port(self._port)  # since the page began, another may have taken it
            command = places.ui_command(workspace.tracking_uri, workspace.artifacts, self._port)
        except AblateError as error:
            self.trouble = str(error)
            return
        environment = {**os.environ, **places.ui_environment(workspace.tracking_uri)}
        with (workspace.folder / LOG).open("w") as file:
            self._process = attended.start(command, env=environment, stdout=file, stderr=file)

    def _listens(self) -> bool:
        with socket.socket() as probe:
            probe.settimeout(0.5)
            return probe.connect_ex(("127.0.0.1", self._port)) == 0

    def stop(self) -> None:
        """End MLflow's server, if it was started."""
        if self._process is not None:
            attended.stop(self._process)
