"""Many trials delivered at once: few calls and readings, and still one run of each trial."""

from __future__ import annotations

import io
import logging
from typing import Any

import pytest

from ablate.commands.sync import sync_records
from ablate.record.export import Delivery, sync
from ablate.record.server import Server
from ablate.record.tracking import Refused
from ablate.store.workspace import open_workspace
from tests.support.records_by_hand import (
    Workspace,
    make_journal,
    make_study,
    trial_id,
    trial_runs,
    write,
    write_study,
)

NUM = 5


def prepare(workspace: Workspace, num: int) -> list[str]:
    write_study(workspace.store, make_study(trials=num))
    trials = [trial_id("mix", index) for index in range(num)]
    write(workspace.store, *map(make_journal, trials))
    return trials


def delivered(workspace: Workspace, **options: Any) -> Delivery:
    found = sync(workspace.store, workspace.uri, workspace.artifacts, **options)
    return found["mix@laptop"]


class Counted:
    """MLflow's client, and how often it is called."""

    def __init__(self, client: Any) -> None:
        self._client, self.calls = client, list[str]()

    def __getattr__(self, name: str) -> Any:
        self.calls.append(name)
        return getattr(self._client, name)


def test_a_trial_takes_as_few_calls_in_a_large_study_as_in_a_small_one(make_workspace) -> None:
    """And one that the server has takes none: a study's runs are read at once."""
    for num in (NUM, 4 * NUM):
        workspace = make_workspace()
        prepare(workspace, num)
        recorder = workspace.export(make_study(trials=num))
        recorder.open()
        counted = recorder._server.client = Counted(recorder._server.client)
        assert recorder.deliver_all(recorder.backlog()).delivered == num
        assert len(counted.calls) == 6 * num
        again = workspace.export(make_study(trials=num))
        again.open()
        counted = again._server.client = Counted(again._server.client)
        assert (again.backlog(), counted.calls) == ([], [])


def test_a_trial_that_is_refused_holds_up_no_other(workspace, monkeypatch) -> None:
    trials = prepare(workspace, NUM)
    put = Server.put

    def refusing(self: Any, experiment: str, run: Any) -> Any:
        if trials[1] == run.identity[1]:
            raise Refused("no")
        return put(self, experiment, run)

    monkeypatch.setattr(Server, "put", refusing)
    result = delivered(workspace)
    assert (result.delivered, result.refused) == (NUM - 1, {trials[1]: "no"})
    assert set(trial_runs(workspace.uri)) == {*trials} - {trials[1]}


def test_a_delivery_tells_how_far_it_is(workspace) -> None:
    trials = prepare(workspace, NUM)
    told: list[tuple[str, int, int]] = []
    delivered(workspace, on_progress=lambda *what: told.append(what))
    num = len(trials)
    assert told == [("mix@laptop", done, num) for done in range(1, num + 1)]
    told.clear()
    assert delivered(workspace, on_progress=lambda *what: told.append(what)).delivered == 0
    assert told == []


@pytest.mark.parametrize("terminal", [True, False])
def test_the_command_shows_how_far_it_is_on_a_terminal(workspace, monkeypatch, terminal) -> None:
    prepare(workspace, 2)
    logging.getLogger("mlflow").setLevel(logging.INFO)  # as a notebook's `import mlflow` leaves it
    stream = io.StringIO()
    monkeypatch.setattr(stream, "isatty", lambda: terminal)
    monkeypatch.setattr("sys.stderr", stream)
    assert sync_records(open_workspace(str(workspace.folder))) == 0
    shown = "\rmix@laptop: 1 of 2 trials\rmix@laptop: 2 of 2 trials\n"
    assert stream.getvalue() == (shown if terminal else "")
