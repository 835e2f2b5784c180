"""A server whose stores nobody can reach: its rows are those of the store that was exported."""

from __future__ import annotations

import shutil
import tempfile
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings

from ablate import cli
from ablate.compare.across.query import ask
from ablate.errors import RecordError
from ablate.record import quiet
from ablate.record.mirror import server as reader
from ablate.record.mirror import syncing
from ablate.record.mirror.server import ServerSource
from ablate.record.mirror.syncing import Mirror, source_uri, update_mirror
from ablate.results.facts import HOME, TRIAL
from ablate.store import study_record
from ablate.store.store import Store
from ablate.store.workspace import open_workspace
from tests.record.mirror.exported import Server
from tests.results.test_agree import stored_studies, write
from tests.support import places

PUBLISHED = ("doc_layer_mix@third", "doc_layer_mix@third_search", "irlm_caches@counts", "iog@short")
CONFIG = {"head": "mos", "head.experts": 15, "head.name": "15", "head.tied": True}
VIEWS = (
    "SELECT * EXCLUDE (run_id) FROM trials ORDER BY trial",
    "SELECT * FROM epochs ORDER BY trial, epoch",
    "SELECT * FROM arms ORDER BY ALL",
    "SELECT * EXCLUDE (run_id, status) FROM studies ORDER BY study_key",
)


@pytest.fixture(scope="session")
def tables(tmp_path_factory) -> Path:
    """MLflow's tables, made once: it takes seconds."""
    path = tmp_path_factory.mktemp("mlflow") / "mlflow.db"
    with quiet.silent_warnings():
        Server(f"sqlite:///{path}").client.search_experiments()
    return path


def server_in(folder: Path, tables: Path) -> Server:
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copy(tables, folder / "mlflow.db")
    return Server(f"sqlite:///{folder / 'mlflow.db'}")


@pytest.fixture
def server(tmp_path: Path, tables: Path) -> Server:
    return server_in(tmp_path / "server", tables)


def mirror_of(server: Server, folder: Path) -> Mirror:
    return update_mirror(open_workspace(str(folder)), lambda _: ServerSource(server.uri))


def same(server: Server, store: Store, folder: Path) -> int:
    """What is read of a server and of a store are equal rows; return the number of trials."""
    stored = update_mirror(open_workspace(str(folder / "stored"), store=store.uri))
    exported = mirror_of(server, folder / "exported")
    for sql in VIEWS:
        told, read = ask(stored, sql), ask(exported, sql)
        assert {c.heading for c in told.columns} == {c.heading for c in read.columns}
        names = ", ".join(f'"{name}"' for name in sorted(c.heading for c in told.columns))
        told, read = (ask(m, f"SELECT {names} FROM ({sql})") for m in (stored, exported))
        assert sorted(map(str, told.rows)) == sorted(map(str, read.rows))  # NaN is not itself
    return len(ask(stored, "SELECT trial FROM trials").rows)


@pytest.mark.slow
def test_of_published_results(server, tmp_path):
    results, copied = places.ROOT / "results", tmp_path / "results"
    for key in PUBLISHED:
        shutil.copytree(results / "studies" / key, copied / "studies" / key)
        for trial in study_record.read(Store(str(results)), key).trial_ids():
            if (results / "trials" / trial).exists():
                there = copied / "trials" / trial
                shutil.copytree(results / "trials" / trial, there, dirs_exist_ok=True)
    store = Store(str(copied))
    server.export(store)
    assert same(server, store, tmp_path) > 20


@pytest.mark.slow
def test_of_a_workspace_of_0_1_0(server, tmp_path):
    shutil.unpack_archive(places.GOLDEN / "workspace_0.1.0.tar.xz", tmp_path, filter="data")
    store = Store(str(tmp_path / "workspace" / "store"))
    server.export(store, piece=500)
    assert same(server, store, tmp_path) == 14


@pytest.mark.slow
@settings(max_examples=4, suppress_health_check=[HealthCheck.too_slow])
@given(studies=stored_studies())
def test_of_random_journals(tables, studies):
    with tempfile.TemporaryDirectory() as folder:
        store, server = Store(f"{folder}/store"), server_in(Path(folder) / "server", tables)
        write(store, studies)
        server.export(store)
        same(server, store, Path(folder))


def test_only_studies_with_news_are_read_again(recorded, server, tmp_path):
    shared = recorded.trial("t1", CONFIG)
    recorded.study("one", {"a": [shared, recorded.trial("t2", CONFIG, seed=2)]})
    recorded.study("two", {"b": [shared]})
    store, place = recorded.workspace.store, tmp_path / "asked"
    server.export(store)
    assert [mirror_of(server, place).read for _ in range(2)] == [4, 0]
    recorded.trial("t2", CONFIG, seed=2, status="failed").write(store)
    server.export(store)
    assert mirror_of(server, place).read == 3  # the study, and the trials that it ran
    assert same(server, store, tmp_path) == 2


def test_a_study_that_runs_is_read_each_time(recorded, server, tmp_path):
    recorded.study("one", {"a": [recorded.trial("t1", CONFIG, status=None)]})
    server.export(recorded.workspace.store, status="running")
    assert [mirror_of(server, tmp_path).read for _ in range(2)] == [2, 2]


def test_a_run_that_is_deleted_in_mlflow_is_gone(recorded, server, tmp_path):
    trials = [recorded.trial("t1", CONFIG), recorded.trial("t2", CONFIG, seed=2)]
    recorded.study("one", {"a": trials})
    server.export(recorded.workspace.store)
    mirror_of(server, tmp_path)
    server.delete("t2")
    for _ in range(2):
        mirror = mirror_of(server, tmp_path)
        assert ask(mirror, "SELECT trial FROM trials").rows == [("t1",)]
        assert mirror.manifest.generation == 2


def test_a_run_of_an_earlier_version_is_counted_and_named(recorded, server, tmp_path):
    recorded.study("one", {"a": [recorded.trial("t1", CONFIG)]})
    server.export(recorded.workspace.store)
    server.bare("one@laptop", {TRIAL: "t9", HOME: "one@laptop", "arm": "a"})
    for _ in range(2):
        (*_, note) = mirror_of(server, tmp_path).notes
        assert note.startswith("1 run was exported by an earlier version; `ablate sync --mlflow ")
    assert ask(mirror_of(server, tmp_path), "SELECT trial FROM trials").rows == [("t1",)]


def test_what_others_wrote_into_the_tags_breaks_nothing(recorded, server, tmp_path):
    recorded.study("one", {"a": [recorded.trial("t1", CONFIG)]})
    server.export(recorded.workspace.store)
    row = (
        '{"facts": {"trial": 1, "seed": "x", "new": 1}, "results": {"a": "b"}, "config": {"c": []}}'
    )
    epochs = '{"epoch": [1], "x": ["a"], "y": [1, 2]}'
    for tags in ({reader.ROW: "{"}, {reader.ROW: row, reader.EPOCHS: epochs}):
        server.bare("one@laptop", {TRIAL: "t9", HOME: "one@laptop", **tags})
    mirror = mirror_of(server, tmp_path)
    assert "1 run was" in mirror.notes[-1]
    assert set(ask(mirror, "SELECT trial, seed FROM trials").rows) == {("t1", 1), (None, None)}


def test_a_server_that_does_not_answer_leaves_the_mirror(recorded, server, tmp_path):
    recorded.study("one", {"a": [recorded.trial("t1", CONFIG)]})
    server.export(recorded.workspace.store)
    mirror_of(server, tmp_path)
    shutil.rmtree(tmp_path / "server")
    mirror = mirror_of(server, tmp_path)
    assert mirror.read == 0 and mirror.manifest.generation == 1 and "as of" in mirror.notes[0]
    with pytest.raises(RecordError):
        mirror_of(server, tmp_path / "other")


def test_trials_that_cannot_be_read_give_no_verdict(
    recorded, server, tmp_path, monkeypatch, capsys
):
    """A server has their numbers, and this store has no journals."""
    paper = {"paper": "takase2018doc", "tables": ("Table 3",), "corpus": "ptb"}
    mos = {"MoS": {"published": {"valid": 56.54, "test": 54.44}}}
    arms = {"MoS": [recorded.trial("t0", {"head": "mos", "corpus.name": "ptb"})]}
    recorded.study("doc", arms, mos, published_scale=True, **paper)
    server.export(recorded.workspace.store)
    monkeypatch.setattr(syncing, "open_source", lambda _: ServerSource(server.uri))
    assert cli.main(["compare", "doc", "--workspace", str(tmp_path / "own")]) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert "no verdict: its trials are not in this store" in text


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
