"""A real `mlflow server`: mirrored by HTTP as its database is by SQL, no clock believed."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import signal
import socket
import sqlite3
import subprocess
import time
import urllib.request
from collections.abc import Iterator

import pytest

from ablate.compare.across.query import ask
from ablate.record import listing
from ablate.record.mirror.syncing import update_mirror
from ablate.record.places import ui_command, ui_environment
from ablate.record.server_source import ServerSource
from ablate.record.tracking import TRIAL

CONFIG = {"head": "mos", "head.experts": 15}
SHOWN = (
    "SELECT * FROM trials ORDER BY trial",
    "SELECT * FROM epochs ORDER BY trial, epoch",
    "SELECT * FROM arms ORDER BY ALL",
    "SELECT * FROM studies ORDER BY ALL",
)


@pytest.fixture
def server(recorded) -> Iterator[str]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    workspace = recorded.workspace
    process = subprocess.Popen(
        ui_command(workspace.tracking_uri, workspace.artifacts, port),
        env={**os.environ, **ui_environment(workspace.tracking_uri)},
        cwd=workspace.folder,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        _wait(f"http://127.0.0.1:{port}/health", process)
        yield f"http://127.0.0.1:{port}"
    finally:
        os.killpg(process.pid, signal.SIGTERM)
        process.wait(30)


def _wait(page: str, process: subprocess.Popen[bytes]) -> None:
    end = time.monotonic() + 90
    while True:
        assert time.monotonic() < end and process.poll() is None, "the server did not start"
        with contextlib.suppress(OSError), urllib.request.urlopen(page, timeout=2) as answer:
            if answer.status == 200:
                return
        time.sleep(0.1)


@pytest.mark.slow
def test_by_http_as_by_sql(recorded, server):
    there = dataclasses.replace(recorded.workspace, mlflow_uri=server)

    def same(read: int) -> None:
        by_http, by_sql = update_mirror(there), update_mirror(recorded.workspace)
        assert by_http.read == by_sql.read == read
        for sql in SHOWN:
            assert ask(by_http, sql) == ask(by_sql, sql)

    shared = recorded.trial("t1", CONFIG)
    running = recorded.trial("t2", CONFIG, seed=2, status=None, epochs=1)
    recorded.study("one", {"a": [shared, running]})
    same(3)
    same(0)
    late = recorded.trial("t0", CONFIG, seed=3, started="1999-01-02T03:04:05Z")
    early = recorded.trial("t9", CONFIG, seed=4, started="2099-01-02T03:04:05Z")
    recorded.study("two", {"b": [late, early, shared]})
    same(4)  # the study, its two, and the one it shares
    ended = recorded.trial("t2", CONFIG, seed=2, epochs=4)
    recorded.study("one", {"a": [shared, ended]})
    same(2)
    with contextlib.closing(sqlite3.connect(recorded.workspace.folder / "mlflow.db")) as db, db:
        where = "run_uuid IN (SELECT run_uuid FROM tags WHERE value = 't0')"
        db.execute(f"UPDATE runs SET lifecycle_stage = 'deleted' WHERE {where}")
    same(0)
    assert ask(update_mirror(there), "SELECT count(*) FROM trials").rows == [(3,)]


def test_a_run_without_a_result_that_changes_is_read_wherever_it_is(recorded, monkeypatch):
    """It is on no page that is read, has the same start, and only another digest."""
    monkeypatch.setattr(listing, "FIRST_PAGE", 1)
    uri = recorded.workspace.tracking_uri
    days = [f"2026-01-{day:02}T00:00:00Z" for day in range(1, 25)]
    done = [recorded.trial(f"t{n}", CONFIG, seed=n, started=day) for n, day in enumerate(days)]
    known, read = {}, []
    for digest in ("first", "second"):
        again = {"started": "2026-01-11T12:00:00Z", "status": "failed", "digest": digest}
        recorded.study("one", {"a": [*done, recorded.trial("failed", CONFIG, **again)]})
        source = ServerSource(uri)
        known, _ = source.changes(known)
        records = [record for batch in source.read(list(known)) for record in batch]
        read.append({record.tags[TRIAL] for record in records if record.is_trial})
    assert len(read[0]) == 25 and read[1] == {"failed"}


def test_a_run_that_was_read_while_it_was_delivered_is_read_again(recorded, monkeypatch):
    """Its mark is there before all its numbers, its status last; it is on no page that is read."""
    monkeypatch.setattr(listing, "FIRST_PAGE", 1)
    uri = recorded.workspace.tracking_uri
    days = [f"2026-01-{day:02}T00:00:00Z" for day in range(1, 25)]
    done = [recorded.trial(f"t{n}", CONFIG, seed=n, started=day) for n, day in enumerate(days)]
    recorded.study("one", {"a": done})
    half = "run_uuid IN (SELECT run_uuid FROM tags WHERE value = 't10')"
    known, read = {}, []
    for status, end in (("RUNNING", "NULL"), ("FINISHED", "1800000000000")):
        with contextlib.closing(sqlite3.connect(recorded.workspace.folder / "mlflow.db")) as db, db:
            db.execute(f"UPDATE runs SET status = '{status}', end_time = {end} WHERE {half}")
        source = ServerSource(uri)
        known, _ = source.changes(known)
        records = [record for batch in source.read(list(known)) for record in batch]
        read.append({record.tags[TRIAL] for record in records if record.is_trial})
    assert len(read[0]) == 24 and read[1] == {"t10"}
