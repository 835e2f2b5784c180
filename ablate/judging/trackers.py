"""Reads what trackers and launchers of runs leave behind, a row for each step of each run.

    */result.json                 of Ray Tune: a line for each report, with the trial's config
    */events.out.tfevents.*       of TensorBoard (`event_files.py`)
    a database of trackio         a line for each step, and the run's config
    */.hydra/overrides.yaml       of Hydra: what a job was started with, beside the files of the job

A run's place is in the columns `folder.1`, `folder.2`. A trial of Ray Tune that failed has the
`state` that says so.
"""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ablate.judging import event_files
from ablate.judging.plain import loaded, scalars

RAY_TUNE = "result.json"
OVERRIDES = ".hydra/overrides.yaml"  # a list of `- key=value`
STEPS = "SELECT run_id, run_name, step, metrics FROM metrics ORDER BY id"


def files(folder: Path) -> list[Path]:
    """The logs of runs below a folder: of Ray Tune, which writes both, its own."""
    return sorted(folder.rglob(RAY_TUNE)) or sorted(folder.rglob(f"{event_files.NAMES}*"))


def of_ray_tune(file: Path) -> list[dict[str, Any]]:
    """The reports of a trial."""
    failed = {"state": "failed"} if (file.parent / "error.txt").exists() else {}
    lines = [loaded(line) for line in file.read_text("utf-8").splitlines() if line.strip()]
    return [{**line, **failed} for line in lines]


def of_trackio(file: Path) -> list[dict[str, Any]]:
    """The steps of every run of a project."""
    try:
        with contextlib.closing(
            sqlite3.connect(f"{file.absolute().as_uri()}?mode=ro", uri=True)
        ) as db:
            configs = dict(db.execute("SELECT run_id, config FROM configs"))
            steps = db.execute(STEPS).fetchall()
    except sqlite3.Error as error:
        raise ValueError(f"it is no project of trackio: {error}") from error
    made = {run: scalars(loaded(config), "config.") for run, config in configs.items()}
    return [
        {"run": name, "step": step, **made.get(run, {}), **scalars(loaded(metrics), "")}
        for run, name, step, metrics in steps
    ]


def of_hydra(file: Path) -> Mapping[str, str]:
    """What Hydra started the job with whose folder a file is in; nothing without Hydra."""
    overrides = file.parent / OVERRIDES
    return dict(_overrides(overrides.read_text("utf-8"))) if overrides.is_file() else {}


def _overrides(text: str) -> Iterator[tuple[str, str]]:
    for line in text.splitlines():
        name, given, value = line.removeprefix("- ").strip("'\"").partition("=")
        if given:
            yield name.lstrip("+~"), value
