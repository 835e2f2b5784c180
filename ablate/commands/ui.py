"""Open a page that shows studies while they run."""

from __future__ import annotations

import argparse
import contextlib
import os
import secrets
import signal
import sys

from ablate.commands import _options
from ablate.errors import ConfigError, RecordError
from ablate.store.workspace import Workspace

EXAMPLE = "ablate ui"
PORT = 5050
TOKEN = "ABLATE_UI_TOKEN"  # in the environment of a page that `ablate study --ui` starts


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `ablate ui`."""
    parser.add_argument(
        "--port", type=_options.count, help=f"port (default: {PORT}, or the next free one)"
    )
    parser.add_argument(
        "--host",
        default="127.0.0.1",
        help="address to serve at (default: 127.0.0.1)",
    )
    parser.add_argument("--no-browser", action="store_true", help="open no browser")
    parser.add_argument("--study", metavar="NAME", help="open the page of this study")
    parser.add_argument(  # as `ablate study --ui` starts it, before there is a store
        "--awaited", metavar="STUDY", help=argparse.SUPPRESS
    )
    parser.add_argument(
        "--mlflow",
        nargs="?",
        const="",
        metavar="URI",
        help="without a value: serve MLflow's own page instead; with one: the MLflow tracking "
        "server of the records",
    )
    _options.add_results(parser)
    _options.add_locations(parser, "workspace", "store", "searches")


def run(options: argparse.Namespace) -> int:
    """Serve the page until Ctrl-C or SIGTERM."""
    only_mlflow, options.mlflow = options.mlflow == "", options.mlflow or None
    workspace = _options.recorded(options)
    if options.mlflow:
        from ablate.record.places import check_uri

        check_uri(options.mlflow)
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # so that children are stopped, too
    if only_mlflow:
        return _serve_mlflow(workspace, options.port or PORT)
    return _serve(workspace, options)


def _serve(workspace: Workspace, options: argparse.Namespace) -> int:
    from ablate.live.ports import free_port
    from ablate.live.server import serve
    from ablate.store import study_record

    folder = workspace.store.folder
    if not options.awaited and folder is not None and not folder.is_dir():
        raise ConfigError(
            f"there is no store at {workspace.store.uri} yet: no study has been run there. "
            "Instead: ablate study FILE, or name another with --workspace, --store or --results."
        )
    study = options.awaited or ""
    if options.study:
        study = study_record.read(workspace.store, options.study).key

    def opened(address: str, once: str) -> None:
        print(f"The page is at {address} (Ctrl-C stops it)", flush=True)
        if not options.no_browser and (options.awaited or has_window()):
            import webbrowser

            webbrowser.open(once)

    with contextlib.suppress(KeyboardInterrupt):
        token = os.environ.pop(TOKEN, "")
        serve(workspace, options.host, options.port or free_port(PORT), opened, study, token)
    return 0


def has_window() -> bool:
    """Return whether a browser would open in a window: one in the terminal would take it over."""
    windows = sys.platform == "darwin" or any(map(os.environ.get, ("DISPLAY", "WAYLAND_DISPLAY")))
    return windows and sys.stdout.isatty()


def _serve_mlflow(workspace: Workspace, port: int) -> int:
    from ablate.live import mlflow
    from ablate.record import attended
    from ablate.record.places import first_error

    token = os.environ.pop(TOKEN, "") or secrets.token_urlsafe(24)
    server = mlflow.start(workspace, port, token)
    print(f"MLflow is starting at {mlflow.page(port, token)} (Ctrl-C stops it)", flush=True)
    try:
        status = server.wait()
    except KeyboardInterrupt:
        attended.stop(server)
        return 0
    log = workspace.folder / mlflow.LOG
    why = first_error(log.read_text())
    raise RecordError(f"the MLflow UI ended with status {status}: {why} (log: {log})")
