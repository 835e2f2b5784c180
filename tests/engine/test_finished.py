"""A study with nothing left to do is recognised without a plan, and only if nothing has changed."""

from __future__ import annotations

import shutil
import sqlite3
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from ablate.data.published import SPLITS
from ablate.engine import finished
from ablate.engine import run as engine_run
from ablate.engine.run import Ended, RunOptions, run_study
from ablate.study.designs import table
from ablate.study.study import Study
from ablate.study.words import Arm, Scale, Search
from tests.support.small_studies import BASE


@pytest.fixture
def study(tmp_path) -> Study:
    file = tmp_path / "asked.py"
    file.write_text("# the study\n")
    return Study(
        name="asked",
        question="?",
        file=str(file),
        base=BASE,
        base_arm="a",
        design=table(Arm("a"), Arm("b", {"optimizer.learning_rate": 0.5})),
        scales={"s": Scale(seeds=2)},
        runner="stand_in",
    )


@pytest.fixture
def run(workspace, monkeypatch):
    """Run a study; also return whether a plan was made for it."""
    plans: list[str] = []
    make_plan = engine_run.make_plan

    def counted(study, *rest, **named):
        plans.append(study.name)
        return make_plan(study, *rest, **named)

    monkeypatch.setattr(engine_run, "make_plan", counted)

    def once(study: Study, command: str = "ablate study asked.py") -> tuple[Ended, bool]:
        plans.clear()
        ended = run_study(study, "s", workspace, RunOptions(local=True, quiet=True), command)
        return ended, bool(plans)

    return once


def test_a_second_run_makes_no_plan_and_says_what_a_whole_one_says(run, study, workspace) -> None:
    run(study)
    _without("finished.json")(workspace, study)  # as an older version leaves it
    (whole, planned), (again, planned_again) = run(study), run(study)
    assert (planned, planned_again) == (True, False)
    assert (again.summary, again.record) == (whole.summary, whole.record)
    ends = [(one.page, one.interrupted, one.closed, one.unrecorded) for one in (whole, again)]
    assert ends[0] == ends[1]


def _delete_mlflow(workspace, study) -> None:
    for path in workspace.folder.glob("mlflow.db*"):
        path.unlink()


def _without_a_run(workspace, study) -> None:
    with sqlite3.connect(workspace.folder / "mlflow.db") as database:
        run_id = database.execute("SELECT run_uuid FROM tags WHERE key = 'ablate.trial'").fetchone()
        for name in ("tags", "latest_metrics", "metrics", "params", "inputs", "runs"):
            column = "destination_id" if name == "inputs" else "run_uuid"
            database.execute(f"DELETE FROM {name} WHERE {column} = ?", run_id)


def _without(pattern: str):
    def delete(workspace, study) -> None:
        next(workspace.folder.rglob(pattern)).unlink()

    return delete


def _write(pattern: str, text: str):
    def write(workspace, study) -> None:
        next(workspace.folder.glob(pattern)).write_text(text)

    return write


CHANGES = {
    "the report is gone": _without("report.html"),
    "the table was written over": _write("studies/*/table.txt", "better"),
    "the database is gone": _delete_mlflow,
    "the database lacks a run": _without_a_run,
    "a folder of MLflow is gone": lambda workspace, _: shutil.rmtree(workspace.artifacts),
    "the study's record is gone": _without("study.json"),
    "a trial is gone": lambda workspace, _: shutil.rmtree(
        next(workspace.store.folder.glob("trials/*"))
    ),
    "the note is damaged": _write("store/studies/*/finished.json", "{"),
    "the study's file was edited": lambda _, study: Path(study.file).write_text("# more\n"),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_whatever_has_changed_is_seen_to_by_a_whole_run(run, study, workspace, change) -> None:
    first, _ = run(study)
    change(workspace, study)
    again, planned = run(study)
    assert planned and again.summary.arms == first.summary.arms
    _, planned = run(study)
    assert not planned, "it is whole again, and noted again"


@pytest.mark.parametrize("named", ["folder:{}", "{}"])
def test_an_edited_text_is_seen_to_by_a_whole_run(run, study, workspace, tmp_path, named) -> None:
    """The text lies in a folder of the user's, and trials of another text are other trials."""
    folder = tmp_path / "text"
    folder.mkdir()
    for split in SPLITS:
        (folder / f"{split}.txt").write_text("a b c d e f\n" * 200)
    reads = replace(study, scales={"s": Scale(seeds=2, corpus=named.format(folder))})
    first, _ = run(reads)
    assert not run(reads)[1]
    (folder / "train.txt").write_text("f e d c b a\n" * 200)
    again, planned = run(reads)
    assert planned and again.record.corpus_digest != first.record.corpus_digest
    assert not run(reads)[1]


def test_a_study_that_names_a_large_folder_has_no_note(
    study, workspace, tmp_path, monkeypatch
) -> None:
    (tmp_path / "text").mkdir()
    (tmp_path / "text" / "train.txt").write_text("a")
    reads = replace(study, scales={"s": Scale(seeds=2, corpus=str(tmp_path / "text"))})
    assert finished.made_from(reads, "s", workspace, "") is not None
    monkeypatch.setattr(finished, "MOST_FILES", 0)
    assert finished.made_from(reads, "s", workspace, "") is None


def test_a_damaged_journal_is_an_error_as_before(run, study, workspace) -> None:
    run(study)
    next(workspace.store.folder.glob("trials/*/journal.json")).write_text("{")
    with pytest.raises(engine_run.StoreError, match="damaged"):
        run(study)


def test_another_study_or_command_or_version_is_another_run(run, study, monkeypatch) -> None:
    run(study)
    more = replace(study, design=table(*study.design.arms, Arm("c", {"training.window": 10})))
    assert run(more)[1] and run(study)[1]
    assert run(study, "ablate study asked.py --workers 2")[1]
    assert not run(study, "ablate study asked.py --workers 2")[1]
    monkeypatch.setattr(finished, "CODE", (".py",))  # other files of this package
    assert run(study, "ablate study asked.py --workers 2")[1]


def test_what_cannot_be_compared_has_no_note(study, workspace) -> None:
    asked = finished.made_from(study, "s", workspace, "")
    assert asked is not None

    def of(changed: Study, place=workspace) -> str | None:
        return finished.made_from(changed, "s", place, "")

    assert of(replace(study, file="")) is None
    assert of(study, replace(workspace, mlflow_uri="http://127.0.0.1:1")) is None
    search = Search(space="x", trials=2)
    assert of(replace(study, scales={"s": Scale(seeds=2, search=search)})) is None
    assert of(replace(study, base={**BASE, "corpus.name": object()})) is None


def test_what_a_function_encloses_is_compared(study, workspace) -> None:
    def scaled(by: int) -> Study:
        return replace(study, scales={"s": Scale(seeds=2, adapt=lambda values: {"x": by})})

    one, same, two = (finished.made_from(scaled(by), "s", workspace, "") for by in (1, 1, 2))
    assert one == same != two


def test_nothing_heavy_is_loaded_to_recognise_it() -> None:
    code = "import sys, ablate.engine.finished, ablate.engine.run; print(*sys.modules)"
    loaded = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, check=True, text=True
    )
    assert not {"torch", "mlflow", "ray", "matplotlib", "optuna"} & set(loaded.stdout.split())
