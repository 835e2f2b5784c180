"""Published results: they are a store, and have nothing of the machine."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import pytest

from ablate import cli
from ablate.compare.across.query import ask
from ablate.compare.publishing import without_locations, without_machine
from ablate.engine.reading import query
from ablate.record.mirror.syncing import update_mirror
from ablate.store import journal as journals
from ablate.store import study_record
from ablate.store.store import Store


@pytest.fixture
def two(recorded):
    """Two studies that share a trial, one of them not finished; a trial diverged."""
    shared = recorded.trial("t0", {"head": "mos", "head.experts": [15, 5]}, arm="doc")
    fresh = recorded.trial("t1", {"head": "softmax"}, seed=2, nats=math.inf)
    lost = recorded.trial("t2", {"head": "mos"}, status="diverged", num_parameters=None)
    half = recorded.trial("t3", {"head": "mos"}, seed=3, status=None)
    recorded.study("one", {"doc": [shared, fresh], "base": [lost]}, paper="takase2018doc")
    command = "ablate study other.py --workspace '/home/me/a b' --scale small --local"
    recorded.study("other", {"again": [shared], "base": [half]}, command=command)
    return recorded


def test_a_store_is_read_again_where_it_has_changed(two):
    stored = two.workspace
    first, second = update_mirror(stored), update_mirror(stored)
    assert (first.read, second.read) == (6, 0)
    two.trial("t3", {"head": "mos"}, seed=3).write(two.workspace.store)
    assert update_mirror(stored).read == 2  # the trial, and its study, which is whole now
    (counted,) = ask(
        update_mirror(stored), "SELECT count(*) FROM trials WHERE status = 'completed'"
    ).rows
    assert counted == (3,)


def test_publishing_and_comparing(two, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    at = ["--workspace", str(two.workspace.folder)]
    assert cli.main(["publish", "one", "other", *at]) == 0
    assert "ablate table compare takase2018doc --results results" in capsys.readouterr().out
    readme = (tmp_path / "results" / "README.md").read_text()
    assert (
        "### one@laptop" in readme and "- `ablate study other.py --scale small --local`" in readme
    )
    assert "3 of 3 trials, 3s of training in all" in readme
    assert "1 of 2 trials, 1s of training in all" in readme and "/home/me" not in readme
    assert not list((tmp_path / "results").rglob("*.safetensors"))

    own = ["--workspace", str(tmp_path / "own"), "--results", "results", "--format", "csv"]
    assert cli.main(["compare", "takase2018doc", *own]) == 0
    table = capsys.readouterr().out
    assert "one@laptop,doc" in table and "takase2018doc, Table 6" in table and "other" not in table
    assert cli.main(["query", "SELECT count(*) AS n FROM trials", *own]) == 0
    assert capsys.readouterr().out.split() == ["n", "3"]  # without the one that has not ended
    assert cli.main(["table", "one", "--store", "results"]) == 0
    assert "one@laptop" in capsys.readouterr().out


def test_publishing_again_says_the_same(two, tmp_path, monkeypatch):
    """A published folder can be published: nothing is lost on the way."""
    monkeypatch.chdir(tmp_path)
    at = ["--workspace", str(two.workspace.folder)]
    assert cli.main(["publish", "one", "--to", "first", *at]) == 0
    assert cli.main(["publish", "one", "--to", "second", "--store", "first"]) == 0
    first, second = (
        {str(file.relative_to(folder)): file.read_bytes() for file in folder.rglob("*.json")}
        for folder in (tmp_path / "first", tmp_path / "second")
    )
    assert first.keys() == second.keys() and len(first) == 5
    for name, data in first.items():
        if not name.startswith("tables"):  # which has the time when it was made
            assert data == second[name], name


def test_what_stays_behind(two):
    store = two.workspace.store
    journal = two.trial("t9", {"head": "mos"})
    journal.note(pid=17, others={"tracking_uri": "sqlite:////home/me/mlflow.db"})
    journal.deaths.append({"epochs": 1, "seen": "", "why": "10.0.0.7 died"})
    without_machine(journal).write(store)
    text = json.dumps(store.read_json(journals.key("t9")))
    assert not any(word in text for word in ("box", "pid", "/home", "10.0.0.7"))
    assert journal.attempts[0].host == "box"  # the journal itself is as it was


def test_the_folders_of_files_stay_behind(two):
    journal = two.trial("t9", {"head": "mos"}, status="failed")
    journal.trial = replace(journal.trial, modules=("/home/me/own.py", "studies/other.py"))
    why = "FileNotFoundError: '/home/me/data/a.txt', ~/b/c.txt, s3://me/x/y and 3/4/5 of it"
    journal.outcome = replace(journal.outcome, reason=why, error="in /tmp/x y")
    published = without_machine(journal)
    assert published.trial.id == "t9" and published.trial.modules == ("own.py", "other.py")
    assert published.outcome.reason == (
        "FileNotFoundError: 'a.txt', c.txt, s3://me/x/y and 3/4/5 of it"
    )
    assert published.outcome.error == "in x y"
    assert without_machine(published) == published


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("ablate study a.py --store s3://me/x --scale b", "ablate study a.py --scale b"),
        ("ablate study 'a b.py' --mlflow http://me:5000", "ablate study 'a b.py'"),
        ("ablate study /home/me/a.py --store=s3://me/x --seeds=3", "ablate study a.py --seeds=3"),
        ("", ""),
    ],
)
def test_a_command_without_its_locations(command, expected):
    assert without_locations(command) == expected


def test_a_query_of_a_store_reads_the_store(two, tmp_path, capsys):
    """Its trials are in no database of the workspace, which said "(0 rows)"."""
    sql = "SELECT count(*) AS n FROM trials"
    own = ["--workspace", str(tmp_path / "own"), "--format", "csv"]
    store = str(two.workspace.store.folder)
    assert cli.main(["query", sql, "--store", store, *own]) == 0
    of_store = capsys.readouterr().out.split()
    assert cli.main(["query", sql, "--results", store, *own]) == 0
    assert of_store == capsys.readouterr().out.split() != ["n", "0"]
    asked = query(sql, workspace=str(tmp_path / "own"), store=store)
    assert [str(row[0]) for row in asked.table().rows] == of_store[1:]
    assert cli.main(["query", sql, "--store", str(tmp_path / "none"), *own]) == 2
    assert f"--store {tmp_path / 'none'} holds no study" in capsys.readouterr().err


def test_a_damaged_file_is_named(two, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert cli.main(["publish", "one", "--workspace", str(two.workspace.folder)]) == 0
    path = tmp_path / "results" / "trials" / "t1" / "journal.json"
    path.write_text(path.read_text().replace('"seed": 2', '"seed": 3'))
    assert cli.main(["compare", "takase2018doc", "--results", "results"]) != 0
    assert "t1/journal.json" in capsys.readouterr().err
    assert study_record.names(Store(str(tmp_path / "results"))) == ["one@laptop"]


def test_names_that_no_database_takes_are_shown(recorded, capsys):
    """An empty one ended every query, as a lone surrogate did."""
    config, metrics = {"": 1, "head": "mos\udcff"}, {"": 1.5, "valid_nll": 4.0}
    named = recorded.trial("t0", config, arm="a\ud800b", metrics=metrics)
    named.epochs[0] = replace(named.epochs[0], metrics={**named.epochs[0].metrics, "": 2.5})
    recorded.study("one", {"a": [named]}, question="Why \udfff?")
    options = ["--results", str(recorded.workspace.store.folder)]
    options += ["--workspace", str(recorded.workspace.folder / "other"), "--format", "csv"]
    for sql, expected in {
        'SELECT "result.", "config.", head FROM trials': "1.5,1,mos?",
        'SELECT "result." FROM epochs ORDER BY epoch LIMIT 1': "2.5",
        "SELECT question FROM studies": "Why ??",
        "SELECT count(*) FROM arms": "1",
    }.items():
        assert cli.main(["query", sql, *options]) == 0, capsys.readouterr().err
        assert capsys.readouterr().out.splitlines()[1] == expected


def test_a_number_too_large_to_compute_with_is_a_lost_result(recorded):
    usual = recorded.trial("t0", {"head": "mos"})
    large = recorded.trial("t1", {"head": "mos"}, seed=2, nats=1e308)
    recorded.study("one", {"doc": [usual, large]})
    sql = "SELECT num, num_lost, nll FROM arms WHERE arm = 'doc' AND split = 'valid'"
    assert ask(update_mirror(recorded.workspace), sql).rows == [(1, 1, 4.0)]
