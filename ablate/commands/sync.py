"""Deliver the records that a tracking server missed."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from ablate.commands import _options
from ablate.engine.run import missing_records
from ablate.errors import RecordError
from ablate.store import study_record
from ablate.store.workspace import Workspace, running_driver

if TYPE_CHECKING:
    from ablate.record.export import Delivery

EXAMPLE = "ablate report sync --mlflow http://host:5000"


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `ablate report sync`."""
    _options.add_locations(parser, "workspace", "store", "mlflow")


def run(options: argparse.Namespace) -> int:
    """Deliver everything that MLflow lacks; return the exit status."""
    return sync_records(_options.workspace(options))


def sync_records(workspace: Workspace) -> int:
    """Deliver missing records, and print one line for each study; then raise the first error."""
    from ablate.record.export import sync

    store = workspace.store
    names = study_record.names(store)
    # Their own drivers deliver the trials that run, and the study's run.
    running = [key for key in names if running_driver(workspace, key)]
    delivered = sync(store, workspace.tracking_uri, workspace.artifacts, running, _progress)
    if not names:
        print(f"No study has been run in {store.uri}: there is nothing to deliver.")
    for key, delivery in delivered.items():
        print(f"{key}: {_state(delivery)}")
    # At the end, so that one study's error keeps no other from being delivered.
    for error in filter(None, (delivery.error for delivery in delivered.values())):
        raise error
    complete = all(delivery.complete for delivery in delivered.values())
    return 0 if complete else RecordError.exit_code


def _progress(key: str, done: int, of: int) -> None:
    _options.show_progress(f"{key}: {done:,} of {of:,} trials", over=done == of)


def _state(delivery: Delivery) -> str:
    if delivery.error:
        return f"not delivered: {delivery.error}"
    missing = missing_records(delivery)
    state = f"missing: {missing}" if missing else "all recorded"
    return f"{delivery.delivered} trials delivered now, {state}"
