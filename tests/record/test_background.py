"""The thread beside the training: live curves, and servers that refuse or do not answer."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator

import pytest

from ablate.errors import StoreError
from ablate.record import background as module
from ablate.record.background import BackgroundExport
from tests.support.records_by_hand import (
    Workspace,
    make_journal,
    make_study,
    study_runs,
    trial_id,
    trial_runs,
    write,
)

FIRST, SECOND = trial_id("mix", 0), trial_id("mix", 1)


def wait_for(what, seconds: float = 20) -> None:
    end = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < end, "did not come"
        time.sleep(0.02)


@pytest.fixture
def closed_port() -> int:
    """A port without a server."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@pytest.fixture
def silent_port() -> Iterator[int]:
    """A port whose server takes connections and never answers."""
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen(50)
        yield server.getsockname()[1]


def background(
    workspace: Workspace, troubles: list[str], uri: str | None = None
) -> BackgroundExport:
    arguments = (make_study(), workspace.artifacts, troubles.append)
    return BackgroundExport(workspace.store, uri or workspace.uri, *arguments)


@pytest.mark.slow
def test_live_curves_and_the_end(workspace, monkeypatch) -> None:
    monkeypatch.setattr(module, "LIVE_SECONDS", 0.1)
    troubles: list[str] = []
    write(workspace.store, make_journal(FIRST, 1, None))
    recorder = background(workspace, troubles)
    recorder.notify(FIRST)
    wait_for(lambda: _steps(workspace) == [1])
    write(workspace.store, make_journal(FIRST, 2, None))
    recorder.notify(FIRST)
    wait_for(lambda: _steps(workspace) == [1, 2])
    assert trial_runs(workspace.uri)[FIRST]["status"] == "RUNNING"
    write(workspace.store, make_journal(FIRST, 3))
    recorder.notify(FIRST, done=True)
    wait_for(lambda: trial_runs(workspace.uri)[FIRST]["status"] == "FINISHED")
    write(workspace.store, make_journal(SECOND, 3, "pruned"))
    assert recorder.finish("| table |", {}).complete
    assert trial_runs(workspace.uri)[SECOND]["status"] == "KILLED"
    assert study_runs(workspace.uri)["mix@laptop"]["status"] == "FINISHED"
    assert troubles == []


def _steps(workspace: Workspace) -> list[int]:
    run = trial_runs(workspace.uri).get(FIRST)
    return [] if run is None else sorted(step for step, *_ in run["history"].get("valid_ppl", ()))


def test_a_server_that_refuses(workspace, closed_port) -> None:
    troubles: list[str] = []
    uri = f"http://127.0.0.1:{closed_port}"
    write(workspace.store, make_journal(FIRST), make_journal(SECOND, 1, None))
    start = time.monotonic()
    recorder = background(workspace, troubles, uri=uri)
    recorder.notify(FIRST, done=True)
    wait_for(lambda: troubles)
    result = recorder.finish("| table |", {"a.txt": "a"})
    assert time.monotonic() - start < 10
    assert sorted(result.undelivered) == [FIRST, SECOND]
    assert result.reason
    assert uri in result.reason
    assert len(troubles) == 1
    assert "ablate report sync" in troubles[0]


def test_a_server_that_does_not_answer(workspace, silent_port, monkeypatch) -> None:
    monkeypatch.setattr(module, "STALL_SECONDS", 1.0)
    uri = f"http://someone:secret@127.0.0.1:{silent_port}"
    write(workspace.store, make_journal(FIRST))
    recorder = background(workspace, [], uri=uri)
    start = time.monotonic()
    recorder.notify(FIRST, done=True)
    assert time.monotonic() - start < 0.1
    result = recorder.finish("", {})
    assert time.monotonic() - start < 3
    assert result.undelivered == [FIRST]
    assert result.reason
    assert "secret" not in result.reason


def test_a_study_that_ends_waits_only_so_long(workspace, monkeypatch) -> None:
    monkeypatch.setattr(module, "CLOSE_SECONDS", 0.0)
    write(workspace.store, make_journal(FIRST))
    recorder = background(workspace, [])
    result = recorder.finish("", {})
    assert result.reason and "takes longer than 0 s." in result.reason
    recorder._thread.join()


def test_results_that_cannot_be_saved_leave_nothing_running(workspace, monkeypatch) -> None:
    write(workspace.store, make_journal(FIRST), make_journal(SECOND, 1, None))
    recorder = background(workspace, [])

    def full(*_: object) -> None:
        raise StoreError("No space left on device")

    monkeypatch.setattr(recorder._export.results, "save", full)
    with pytest.raises(StoreError):
        recorder.finish("", {})
    assert not recorder._thread.is_alive()
    runs = [*trial_runs(workspace.uri).values(), *study_runs(workspace.uri).values()]
    assert {run["status"] for run in runs} == {"FINISHED", "KILLED"}


def test_trouble_is_reported_once_and_the_records_come_after_it(workspace, monkeypatch) -> None:
    """A database that cannot be written for a while: the records come when it can."""
    from ablate.record import export
    from ablate.record.tracking import Away

    monkeypatch.setattr(module, "BACKOFF_SECONDS", (0.02,))
    whole, away = export.Server, [True]

    def sometimes(*arguments):
        if away[0]:
            raise Away("the disk is full.")
        return whole(*arguments)

    monkeypatch.setattr(export, "Server", sometimes)
    troubles: list[str] = []
    write(workspace.store, make_journal(FIRST))
    recorder = background(workspace, troubles)
    wait_for(lambda: troubles)
    time.sleep(0.1)
    away[0] = False
    wait_for(lambda: FIRST in trial_runs(workspace.uri))
    assert recorder.finish("", {}).complete
    assert len(troubles) == 1
