"""Open the MLflow UI on the records."""

from __future__ import annotations

import argparse
import os
import signal

from ablate.commands import _options
from ablate.errors import RecordError
from ablate.store.workspace import make_folders

EXAMPLE = "ablate ui --port 5050"


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `ablate ui`."""
    parser.add_argument(
        "--port", type=_options.count, default=5050, help="local port (default: 5050)"
    )
    _options.add_locations(parser, "workspace", "mlflow")


def run(options: argparse.Namespace) -> int:
    """Serve the records until Ctrl-C or SIGTERM."""
    from ablate.record import attended
    from ablate.record.places import check_port, first_error, ui_command, ui_environment, ui_page

    workspace, port = _options.workspace(options), options.port
    command = ui_command(workspace.tracking_uri, workspace.artifacts, port)
    check_port(port)
    make_folders(workspace)
    log = workspace.folder / "mlflow-ui.log"
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # so that the server is stopped, too
    with log.open("w") as file:  # of this server alone: its first error is looked for below
        environment = {**os.environ, **ui_environment(workspace.tracking_uri)}
        server = attended.start(command, env=environment, stdout=file, stderr=file)
        print(f"MLflow is starting at {ui_page(port)} (Ctrl-C stops it)", flush=True)
        try:
            status = server.wait()
        except KeyboardInterrupt:
            attended.stop(server)
            return 0
    why = first_error(log.read_text())
    raise RecordError(f"the MLflow UI ended with status {status}: {why} (log: {log})")
