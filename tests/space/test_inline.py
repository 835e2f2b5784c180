"""Spaces that a study has in its own file: the same rows, values and errors as in a TOML file."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from ablate import Arm, Scale, Search, Study, table
from ablate.cli import main
from ablate.errors import SpaceError
from ablate.space import space
from ablate.study.plan import make_plan
from tests.support.small_studies import BASE, RATE_AND_WINDOW

ROWS = {
    "Rate": {"field": "optimizer.learning_rate", "range": (1e-3, 10.0), "scale": "log"},
    "Window": {"field": "training.window", "choices": [10, 20]},
}


def study(rows) -> Study:
    return Study(
        question="?",
        name="q",
        runner="stand_in",
        base=BASE,
        base_arm="plain",
        design=table(Arm("plain")),
        scales={"s": Scale(seeds=2, search=Search(space=rows, trials=3, sampler="random"))},
    )


def test_it_is_the_space_that_a_file_would_be(tmp_path, workspace):
    file = tmp_path / "rate.toml"
    file.write_text(RATE_AND_WINDOW)
    read, inline = space.load(file), space.inline(ROWS, Path("q.py"))
    assert inline.rows == read.rows and inline.identity == read.identity
    plans = [make_plan(study(rows), data=workspace.data) for rows in (str(file), ROWS)]
    assert plans[0].searches[0].key == plans[1].searches[0].key


def test_its_rows_are_checked_and_say_where_they_are():
    wrong = {"Rate": {"field": "optimizer.learning_rate", "range": [2, 1]}}
    with pytest.raises(SpaceError, match=r"^q\.py: space: row 'Rate': range = \[2, 1\]"):
        space.inline(wrong, Path("q.py"))
    with pytest.raises(SpaceError, match=r"row 'Rate' = 3 is not allowed. Expected: {\"field\""):
        space.inline({"Rate": 3}, Path("q.py"))
    with pytest.raises(SpaceError, match=r"unknown key 'feild'. Did you mean 'field'"):
        space.inline({"Rate": {"feild": "x", "range": [0, 1]}}, Path("q.py"))


def test_a_plan_names_its_rows(tmp_path, workspace, capsys):
    file = tmp_path / "q.py"
    rows = f"rows = {ROWS!r}\nbase = {BASE!r}\n"
    file.write_text(
        "from ablate import Arm, Scale, Search, Study, table\n" + rows + "study = Study("
        "question='?', runner='stand_in', base=base, base_arm='a', design=table(Arm('a')),"
        "scales={'s': Scale(search=Search(space=rows, trials=9, early_stopping='asha',"
        "min_epochs=2))})"
    )
    assert main(["plan", str(file), "--workspace", str(workspace.folder)]) == 0
    said = capsys.readouterr().out
    assert "9 trials over the study's own space of Rate, Window (tpe" in said
    assert "early stopping: asha, one in 3 continues from epoch 2 on)" in said


def test_a_space_next_to_a_study_is_listed_and_shown(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "rates.toml").write_text(RATE_AND_WINDOW)
    (tmp_path / "other.toml").write_text("[tool]\nx = 1")
    assert tomllib.loads((tmp_path / "other.toml").read_text())
    assert main(["spaces"]) == 0
    said = capsys.readouterr().out
    assert "rates" in said and "other" not in said
    assert main(["spaces", "rates"]) == 0
    assert "training.window" in capsys.readouterr().out
