"""A real `mlflow server`: stopped while a study is recorded, and given the rest later."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from ablate.record import background
from ablate.record.background import BackgroundExport
from ablate.record.export import sync
from ablate.record.places import ui_command, ui_environment
from tests.support.records_by_hand import (
    Workspace,
    make_journal,
    make_study,
    on_server,
    study_runs,
    trial_id,
    trial_runs,
    write,
    write_study,
)

FIRST, SECOND, THIRD = (trial_id("mix", index) for index in range(3))


class Server:
    """An `mlflow server` over a workspace's database, as `ablate ui` starts it."""

    def __init__(self, workspace: Workspace) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.uri = f"http://127.0.0.1:{self.port}"
        self.workspace = workspace
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        command = ui_command(self.workspace.uri, self.workspace.artifacts, self.port)
        self.process = subprocess.Popen(
            command,
            env={**os.environ, **ui_environment(self.workspace.uri)},
            cwd=self.workspace.folder,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        end = time.monotonic() + 180
        while not self.answers():
            assert time.monotonic() < end, "the server did not start"
            assert self.process.poll() is None, "the server ended"
            time.sleep(0.1)

    def answers(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self.uri}/health", timeout=2) as answer:
                return answer.status == 200
        except OSError:
            return False

    def stop(self) -> None:
        if self.process is not None and self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGTERM)
            try:
                self.process.wait(15)
            except subprocess.TimeoutExpired:
                os.killpg(self.process.pid, signal.SIGKILL)
                self.process.wait()


@pytest.fixture
def server(workspace: Workspace) -> Iterator[Server]:
    server = Server(workspace)
    server.start()
    yield server
    server.stop()


def get(server: Server, run_id: str, name: str) -> bytes:
    url = f"{server.uri}/get-artifact?path={name}&run_uuid={run_id}"
    with urllib.request.urlopen(url, timeout=10) as answer:
        return answer.read()


@pytest.mark.slow
def test_stopped_in_the_middle_and_delivered_later(
    workspace, server, tmp_path, monkeypatch
) -> None:
    monkeypatch.setattr(background, "LIVE_SECONDS", 0.1)
    store, record, troubles = workspace.store, make_study(trials=3), []
    write_study(store, record)
    recorder = BackgroundExport(store, server.uri, record, tmp_path, troubles.append)
    write(store, make_journal(FIRST))
    recorder.notify(FIRST, done=True)
    write(store, make_journal(SECOND, 1, None))
    recorder.notify(SECOND)
    end = time.monotonic() + 30
    while len([run for run in on_server(server.uri) if "ablate.trial" in run["tags"]]) < 2:
        assert time.monotonic() < end
        time.sleep(0.1)
    server.stop()
    write(store, make_journal(SECOND), make_journal(THIRD))
    recorder.notify(SECOND, done=True)
    recorder.notify(THIRD, done=True)
    start = time.monotonic()
    result = recorder.finish("| the table |", {"plot.svg": "<svg/>"})
    assert time.monotonic() - start < 15
    assert result.undelivered
    assert THIRD in result.undelivered
    server.start()
    late = sync(store, server.uri, tmp_path)
    assert late["mix@laptop"].complete
    runs, study = trial_runs(server.uri), study_runs(server.uri)["mix@laptop"]
    assert set(runs) == {FIRST, SECOND, THIRD}
    assert {run["status"] for run in (*runs.values(), study)} == {"FINISHED"}
    for run in runs.values():
        assert sorted(step for step, *_ in run["history"]["valid_ppl"]) == [1, 2, 3]
        assert get(server, run["id"], "config.toml").startswith(b"# trial")
    assert get(server, study["id"], "table.md") == b"| the table |"
    assert get(server, study["id"], "plot.svg") == b"<svg/>"
    assert not sync(store, server.uri, tmp_path)["mix@laptop"].delivered
    _over_the_same_database(workspace, server)


def _over_the_same_database(workspace: Workspace, server: Server) -> None:
    """Runs that came through the server are found in its database, where new ones are added."""
    write(workspace.store, make_journal(trial_id("mix", 3)))
    write_study(workspace.store, make_study(trials=4))
    assert sync(workspace.store, workspace.uri, workspace.artifacts)["mix@laptop"].complete
    runs = trial_runs(workspace.uri)
    assert len(runs) == 4
    assert get(server, runs[trial_id("mix", 3)]["id"], "config.toml").startswith(b"# trial")
    assert len(study_runs(workspace.uri)) == 1
    assert not (Path(workspace.folder) / "mlruns").exists()
