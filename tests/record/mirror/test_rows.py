"""The proof: what `ablate query` says of MLflow's records is what a store's typed rows say.

Left out: `run_id`, which is MLflow's own. Where a text looks like a number, a query of MLflow's
records guesses one; the typed row has the text.
"""

from __future__ import annotations

import math
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

from ablate.compare.across.query import ask
from ablate.record.export import sync
from ablate.record.mirror.syncing import update_mirror
from ablate.results.labels import labels_of
from ablate.results.rows import StudyStatus, epoch_columns, study_row, trial_row
from ablate.store import journal as journals
from ablate.store import study_record
from ablate.store.store import Store
from ablate.store.workspace import Workspace, open_workspace
from tests.results.test_agree import stored_studies, write
from tests.support import places

PUBLISHED = ("doc_layer_mix@third", "doc_layer_mix@third_search", "irlm_caches@counts", "iog@short")
Rows = list[dict[str, Any]]


@pytest.fixture
def workspace(tmp_path: Path, empty_database: Path) -> Workspace:
    return fresh(tmp_path / "workspace", empty_database)


def fresh(folder: Path, database: Path) -> Workspace:
    folder.mkdir(exist_ok=True)
    shutil.copy(database, folder / "mlflow.db")
    return open_workspace(str(folder))


def queried(workspace: Workspace, sql: str) -> Rows:
    table = ask(update_mirror(workspace), sql)
    return [dict(zip(table.headings, row, strict=True)) for row in table.rows]


def typed(store: Store) -> Iterator[tuple[dict[str, Any], Rows]]:
    """Of each trial its row and its epochs, from the first study that lists it."""
    seen: set[str] = set()
    for key in study_record.names(store):
        record = study_record.read(store, key)
        labels = labels_of(record)
        for trial_id, journal in journals.read_all(store, record.trial_ids()).items():
            if trial_id not in seen:
                seen.add(trial_id)
                parts = trial_row(record, journal, labels.get(trial_id))
                row = {name: value for part in parts.values() for name, value in part.items()}
                columns = epoch_columns(journal)
                steps = zip(*columns.values(), strict=True)
                yield row, [dict(zip(columns, step, strict=True)) for step in steps]


def same(store: Store, workspace: Workspace, lost: str = "") -> int:
    """Compare all rows; `lost`: a trial that is in MLflow's database alone."""
    sync(store, workspace.tracking_uri, workspace.artifacts)
    sql = "* EXCLUDE (run_id, started, ended), epoch_ms(started) AS started_ms"
    shown = queried(workspace, f"SELECT {sql}, epoch_ms(ended) AS ended_ms FROM trials")
    epochs = queried(workspace, "SELECT * FROM epochs")
    rows = {row["trial"]: (row, steps) for row, steps in typed(store)}
    assert {row["trial"] for row in shown} - {lost} == {*rows}
    for row in (row for row in shown if row["trial"] != lost):
        mine, steps = rows[row["trial"]]
        assert agree(row, mine), row["trial"]
        own = sorted((e for e in epochs if e["trial"] == row["trial"]), key=lambda e: e["epoch"])
        assert len(own) == len(steps)
        for shown_step, step in zip(own, steps, strict=True):
            told = {**shown_step}
            labels = {name: told.pop(name) for name in ("trial", "study", "scale", "arm", "seed")}
            assert told.pop("status") == mine["status"] and agree(labels, mine, part=True)
            assert agree(told, step)
    studies = queried(workspace, "SELECT * EXCLUDE (run_id, status, metric) FROM studies")
    for row in studies:
        record = study_record.read(store, row["study_key"])
        facts = study_row(record, StudyStatus.FINISHED)
        assert agree(
            row, {n: v for n, v in facts.items() if n not in ("status", "record", "judged_by")}
        )
    return len(rows)


def agree(shown: dict[str, Any], mine: dict[str, Any], *, part: bool = False) -> bool:
    names = {*shown} if part else {*shown, *(n for n, value in mine.items() if value is not None)}
    other = {n: (shown[n], mine.get(n)) for n in names if not equal(shown[n], mine.get(n))}
    assert not other
    return True


def equal(shown: Any, mine: Any) -> bool:
    """Numbers and truth values as such; in a column of text, all are text."""
    if isinstance(shown, str) and not isinstance(mine, str):
        return shown == str(mine)
    if isinstance(shown, float):
        mine = None if mine is None else float(mine)
        return mine is not None and (shown == mine or (math.isnan(shown) and math.isnan(mine)))
    return shown == mine and (shown is None or isinstance(mine, bool) == isinstance(shown, bool))


@pytest.mark.slow
def test_of_published_results(workspace, tmp_path):
    store = Store(str(tmp_path / "results"))
    for key in PUBLISHED:
        copied = places.ROOT / "results" / "studies" / key
        shutil.copytree(copied, tmp_path / "results" / "studies" / key)
        for trial in study_record.read(store, key).trial_ids():
            known = places.ROOT / "results" / "trials" / trial
            if known.exists():
                there = tmp_path / "results" / "trials" / trial
                shutil.copytree(known, there, dirs_exist_ok=True)
    assert same(store, workspace) > 20


def test_of_a_workspace_of_0_1_0(workspace, tmp_path):
    shutil.unpack_archive(places.GOLDEN / "workspace_0.1.0.tar.xz", tmp_path, filter="data")
    store = Store(str(tmp_path / "workspace" / "store"))
    assert same(store, workspace, lost="e2321995814f60bb") == 14


@pytest.mark.slow
@settings(max_examples=4, suppress_health_check=[HealthCheck.too_slow])
@given(studies=stored_studies())
def test_of_random_journals(empty_database, studies):
    with tempfile.TemporaryDirectory() as folder:
        workspace = fresh(Path(folder), empty_database)
        write(workspace.store, studies)
        if any(known for _, known in studies):
            same(workspace.store, workspace)


def test_a_text_that_looks_like_a_number_is_a_text(recorded):
    config = {"head.name": "15", "head.on": "True", "head.none": "None", "head.units": 15}
    trial = recorded.trial("t1", config)
    recorded.study("one", {"a": [trial]})
    (shown,) = queried(recorded.workspace, "SELECT * FROM trials")
    ((mine, _),) = typed(recorded.workspace.store)
    assert {name: mine[name] for name in config} == config
    assert shown["head.name"] == 15 and shown["head.on"] is True and "head.none" not in shown
