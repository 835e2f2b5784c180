"""Runs of an MLflow experiment that ablate did not make, as rows: params, tags and last metrics."""

from __future__ import annotations

from functools import partial
from typing import Any

from ablate.errors import RecordError, unknown
from ablate.record import quiet
from ablate.record.client import PAGE, open_client, read_experiments, read_pages, translate_errors

FINISHED = "FINISHED"


def rows(uri: str, experiment: str) -> list[dict[str, Any]]:
    """A row for each finished run, in the order in which they were started. Of one name, a metric
    hides a param, and a param a tag."""
    client = open_client(uri, quiet.load("mlflow.tracking"))
    with translate_errors(uri), quiet.silent_warnings():
        known = {found.name: found.experiment_id for found in read_experiments(client)}
        if experiment not in known:
            raise RecordError(unknown("experiment", experiment, known, "MLflow"))
        ids = [known[experiment]]
        # The oldest first: the base arm is the one that was logged first.
        read = partial(client.search_runs, ids, max_results=PAGE, order_by=["start_time ASC"])
        runs = read_pages(lambda token: read(page_token=token))
    return [_row(run.info, run.data) for run in runs if run.info.status == FINISHED]


def _row(info: Any, data: Any) -> dict[str, Any]:
    tags = {name: value for name, value in data.tags.items() if not name.startswith("mlflow.")}
    return {"run": info.run_name or info.run_id, **tags, **data.params, **data.metrics}
