"""What is recorded, from Python: studies, queries, comparisons, reports. Trains nothing.

from ablate import load, query
load("doc_layer_mix").to_frame()
query("SELECT arm, ppl FROM arms").to_frame("polars")
"""

from __future__ import annotations

import warnings
from pathlib import Path

from ablate.compare.across import asked
from ablate.compare.page import FILE, page
from ablate.compare.plots.static import save
from ablate.compare.shown import Answer
from ablate.compare.study_summary import StudySummary, open_begun, open_study
from ablate.errors import ConfigError
from ablate.store.workspace import Workspace, open_workspace


def load(study: str, *, workspace: str | None = None, store: str | None = None) -> StudySummary:
    """Load the numbers of a recorded study's table.

    Args:
        study: Its name, or `name@scale`.
        workspace: The folder in which the study was run, if not `.ablate`.
        store: The folder or URI of its trials, if they are not in the workspace.
    """
    return open_study(open_workspace(workspace, store=store).store, study)


def query(
    sql: str,
    *,
    workspace: str | None = None,
    store: str | None = None,
    mlflow: str | None = None,
    results: str | None = None,
) -> Answer:
    """Query all records in SQL, as `ablate query` does.

    Args:
        sql: A SELECT over trials, epochs, arms, studies, published.
        workspace: The folder of the records, if not `.ablate`.
        store: The folder or URI of the trials, if they are not in the workspace. Without `mlflow`,
            a folder is read itself.
        mlflow: The URI of the MLflow server that has the records, if it is not in the workspace.
        results: A folder that `ablate report publish` wrote, to be read instead.
    """
    return _warned(asked.query(_opened(workspace, store, mlflow, results), sql))


def compare(
    *names: str,
    differ: str | tuple[str, ...] | None = None,
    split: str | None = None,
    searches: bool = False,
    workspace: str | None = None,
    store: str | None = None,
    mlflow: str | None = None,
    results: str | None = None,
) -> Answer:
    """Set studies next to papers, or show what one change does over all records.

    Args:
        names: Studies and papers, for one table.
        differ: Compare all pairs of trials that differ only in these slots or fields, instead.
        split: `"valid"` or `"test"`, to compare only this one.
        searches: With `differ`: also pair trials of searches.
        workspace: The folder of the records, if not `.ablate`.
        store: The folder or URI of the trials, if they are not in the workspace. Without `mlflow`,
            a folder is read itself.
        mlflow: The URI of the MLflow server that has the records, if it is not in the workspace.
        results: A folder that `ablate report publish` wrote, to be read instead.
    """
    if (differ is None) == (not names):
        raise ConfigError(
            "compare: give either studies and papers, or differ= with the slots that may differ."
        )
    opened = _opened(workspace, store, mlflow, results)
    if differ is None:
        return _warned(asked.side_by_side(opened, names, split))
    slots = (differ,) if isinstance(differ, str) else differ
    return _warned(asked.exchange(opened, slots, split or "valid", searches))


def report(
    study: str, *, static: bool = False, workspace: str | None = None, store: str | None = None
) -> Path:
    """Write a study's page as one HTML file, and return where it is.

    Args:
        study: Its name, or `name@scale`.
        static: Write still pictures and no script: a smaller file.
        workspace: The folder in which the study was run, if not `.ablate`.
        store: The folder or URI of its trials, if they are not in the workspace.
    """
    return write_report(open_workspace(workspace, store=store), study, static=static)


def write_report(workspace: Workspace, study: str, *, static: bool = False) -> Path:
    """Write a study's page to its folder in the workspace, and return where it is."""
    judged = open_begun(workspace.store, study)
    file = workspace.study_folder(judged.record.key) / FILE
    save(file, page(judged, workspace.store, to_use=not static).encode())
    return file


def _opened(
    workspace: str | None, store: str | None, mlflow: str | None, results: str | None
) -> Workspace:
    opened = open_workspace(workspace, store=store, mlflow=mlflow)
    return asked.asked_of(opened, results, None if mlflow else store)


def _warned(answer: Answer) -> Answer:
    """The answer, after a warning for each note on the records that were read."""
    for note in answer.notes:
        warnings.warn(note, stacklevel=3)
    return answer
