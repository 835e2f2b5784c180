"""The commands that `ablate status` names work where they are read."""

from __future__ import annotations

import shlex

from ablate.cli import main
from ablate.store import study_record
from ablate.store.workspace import open_workspace
from tests.support.records_by_hand import make_journal, make_study, trial_id


def test_what_it_names_repeats_where_the_records_are(tmp_path, capsys):
    store, folder = tmp_path / "a store", tmp_path / "workspace"
    places = ["--workspace", str(folder), "--store", str(store)]
    opened = open_workspace(str(folder), store=str(store))
    study_record.write(opened.store, make_study(trials=1))
    make_journal(trial_id("mix", 0), status="failed", reason="out of memory").write(opened.store)
    assert main(["status", *places]) == 0
    named = shlex.split(capsys.readouterr().out.splitlines()[-1])
    assert named[:3] == ["ablate", "status", "mix@laptop"] and named[3:] == places
    assert main(named[1:]) == 0
    (line,) = (n for n in capsys.readouterr().out.splitlines() if n.startswith("All that"))
    assert main(shlex.split(line.partition(": ")[2])[1:]) == 0
    assert "has printed nothing" in capsys.readouterr().out


def test_it_repeats_no_secret(tmp_path, capsys):
    database = "postgresql://ablate:hunter2secret@127.0.0.1/searches"
    assert main(["status", "--workspace", str(tmp_path), "--searches", database]) == 0
    shown = capsys.readouterr().out
    assert "127.0.0.1/searches" in shown and "hunter2secret" not in shown
