"""A server whose stores nobody can reach: its rows are those of the store that was exported."""

from __future__ import annotations

import shutil
from collections.abc import Collection
from dataclasses import replace
from pathlib import Path

import pytest
from mlflow import MlflowClient

from ablate.compare.across.query import ask
from ablate.errors import RecordError
from ablate.record import quiet
from ablate.record.export import sync
from ablate.record.mirror import server as reader
from ablate.record.mirror.server import ServerSource
from ablate.record.mirror.syncing import Mirror, source_uri, update_mirror
from ablate.results.facts import HOME, TRIAL
from ablate.store.store import Store
from ablate.store.workspace import open_workspace

CONFIG = {"head": "mos", "head.experts": 15, "head.name": "15", "head.tied": True}
TRIALS = "SELECT trial FROM trials ORDER BY trial"


class Server:
    """A database that is read as a server is."""

    def __init__(self, folder: Path, database: Path) -> None:
        folder.mkdir()
        shutil.copy(database, folder / "mlflow.db")
        self.folder, self.uri = folder, f"sqlite:///{folder / 'mlflow.db'}"
        self.client = MlflowClient(self.uri)

    def export(self, store: Store, running: Collection[str] = ()) -> None:
        assert all(d.complete for d in sync(store, self.uri, self.folder, running).values())

    def mirror(self, folder: Path) -> Mirror:
        return update_mirror(open_workspace(str(folder)), lambda _: ServerSource(self.uri))

    def delete(self, trial: str) -> None:
        (run,) = self.client.search_runs([self.experiment], f"tags.`{TRIAL}` = '{trial}'")
        self.client.delete_run(run.info.run_id)

    def bare(self, tags: dict[str, str]) -> None:
        """A run of a trial with these tags alone."""
        self.client.create_run(self.experiment, tags={TRIAL: "t9", HOME: "one@laptop", **tags})

    @property
    def experiment(self) -> str:
        return next(e for e in self.client.search_experiments() if HOME in e.tags).experiment_id


@pytest.fixture
def server(tmp_path: Path, empty_database: Path) -> Server:
    return Server(tmp_path / "server", empty_database)


def test_only_studies_with_news_are_read_again(recorded, server, tmp_path):
    shared = recorded.trial("t1", CONFIG)
    recorded.study("one", {"a": [shared, recorded.trial("t2", CONFIG, seed=2)]})
    recorded.study("two", {"b": [shared]})
    recorded.study("other", {"b": [recorded.trial("t3", CONFIG, seed=3)]})
    store, place = recorded.workspace.store, tmp_path / "asked"
    server.export(store)
    assert [server.mirror(place).read for _ in range(2)] == [6, 0]
    recorded.trial("t2", CONFIG, seed=2, status="failed").write(store)
    server.export(store)
    assert server.mirror(place).read == 3  # the study, and the trials that it ran
    told = ask(server.mirror(place), "SELECT status FROM trials ORDER BY trial").rows
    assert told == [("completed",), ("failed",), ("completed",)]


def test_a_run_that_is_deleted_in_mlflow_is_gone(recorded, server, tmp_path):
    trials = [recorded.trial("t1", CONFIG), recorded.trial("t2", CONFIG, seed=2)]
    recorded.study("one", {"a": trials})
    server.export(recorded.workspace.store)
    server.mirror(tmp_path)
    server.delete("t2")
    for _ in range(2):
        mirror = server.mirror(tmp_path)
        assert ask(mirror, TRIALS).rows == [("t1",)]
        assert mirror.manifest.generation == 2


def test_a_run_of_an_earlier_version_is_counted_and_named(recorded, server, tmp_path):
    recorded.study("one", {"a": [recorded.trial("t1", CONFIG)]})
    server.export(recorded.workspace.store)
    server.bare({"arm": "a"})
    for _ in range(2):
        (*_, note) = server.mirror(tmp_path).notes
        assert note.startswith(
            "1 run was exported by an earlier version; `ablate report sync --mlflow "
        )
    assert ask(server.mirror(tmp_path), TRIALS).rows == [("t1",)]


def test_what_others_wrote_into_the_tags_breaks_nothing(recorded, server, tmp_path):
    recorded.study("one", {"a": [recorded.trial("t1", CONFIG)]})
    server.export(recorded.workspace.store)
    row = (
        '{"facts": {"trial": 1, "seed": "x", "new": 1}, "results": {"a": "b"}, "config": {"c": []}}'
    )
    epochs = '{"epoch": [1], "x": ["a"], "y": [1, 2]}'
    for tags in ({reader.ROW: "{"}, {reader.ROW: row, reader.EPOCHS: epochs}):
        server.bare(tags)
    mirror = server.mirror(tmp_path)
    assert "1 run was" in mirror.notes[-1]
    assert set(ask(mirror, "SELECT trial, seed FROM trials").rows) == {("t1", 1), (None, None)}


def test_a_server_that_does_not_answer_leaves_the_mirror(recorded, server, tmp_path):
    recorded.study("one", {"a": [recorded.trial("t1", CONFIG)]})
    server.export(recorded.workspace.store)
    server.mirror(tmp_path)
    shutil.rmtree(tmp_path / "server")
    mirror = server.mirror(tmp_path)
    assert mirror.read == 0 and mirror.manifest.generation == 1 and "as of" in mirror.notes[0]
    with pytest.raises(RecordError):
        server.mirror(tmp_path / "other")


@pytest.mark.parametrize(
    ("named", "read"),
    [
        (None, "store:"),
        ("sqlite:////there/mlflow.db", "store:"),
        ("http://there:5000", "http://there:5000"),
        ("postgresql://me@there/runs", "postgresql://me@there/runs"),
    ],
)
def test_a_server_that_is_named_is_read(tmp_path, named, read):
    workspace = open_workspace(str(tmp_path))
    assert source_uri(replace(workspace, mlflow_uri=named)).startswith(read)


def test_no_mlflow_is_needed_to_ask_a_store(recorded, monkeypatch):
    recorded.study("one", {"a": [recorded.trial("t1", CONFIG)]})
    monkeypatch.setattr(quiet, "load", lambda name: pytest.fail(name))
    assert update_mirror(recorded.workspace).read == 2
    assert not (recorded.workspace.folder / "mlflow.db").exists()
