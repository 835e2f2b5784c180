"""Arms have runs in MLflow, and a study's run has its numbers by finished trials."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ablate.record import quiet
from ablate.record.export import sync
from ablate.record.runs import view_by_arm
from ablate.record.server import Server
from ablate.store import course
from ablate.store.course import ArmPoint, Point
from ablate.store.store import Store
from ablate.store.study_record import ArmRecord, StudyRecord
from tests.support.records_by_hand import (
    arm_runs,
    finish,
    make_journal,
    make_study,
    on_server,
    study_runs,
    trial_id,
    trial_runs,
    write,
    write_study,
)

FIRST, BASE = trial_id("mix", 0), "(15,5,0,0)"
POINTS = (
    Point(1, 1000, 0, (ArmPoint(BASE, 1, 30.0),)),
    Point(3, 3000, 0, (ArmPoint(BASE, 2, 31.0), ArmPoint("b", 1, 29.0, -2.0, -3.0, -1.0))),
    Point(4, 4000, 1, (ArmPoint(BASE, 2, 31.0), ArmPoint("b", 2, 28.0, -3.0, -3.5, -2.5))),
)


def two_arms(**parts: Any) -> StudyRecord:
    record = make_study(trials=1, **parts)
    return replace(record, arms=(*record.arms, ArmRecord(name="b", changes={"x": 2})))


def histories(run: dict[str, Any]) -> dict[str, list[tuple[int, float]]]:
    history = {key: sorted(points) for key, points in run["history"].items()}
    return {key: [(step, value) for step, value, _ in points] for key, points in history.items()}


def test_the_view_by_arm_has_the_trials_that_count_and_their_metrics(workspace):
    tried = trial_id("mix", 9)
    record = make_study(trials=1, searched=(tried,))
    for identity in (FIRST, tried):
        write(workspace.store, make_journal(identity, metrics={"valid_nll": 4.0, "test_nll": 4.1}))
    write_study(workspace.store, record)
    sync(workspace.store, workspace.uri, workspace.artifacts)
    view, client = view_by_arm(record), quiet.load("mlflow.tracking").MlflowClient(workspace.uri)
    ids = [each.experiment_id for each in client.search_experiments()]
    found = client.search_runs(ids, filter_string=view["searchFilter"])
    assert [run.data.tags["ablate.trial"] for run in found] == [FIRST]
    columns = {column.removeprefix("metrics.`").rstrip("`") for column in view["selectedColumns"]}
    assert columns == {"final_valid_nll", "final_test_nll", "num_parameters"}
    assert columns <= found[0].data.metrics.keys()


def test_charts_of_a_study_and_its_arms_once(workspace) -> None:
    record = two_arms()
    write(workspace.store, make_journal(FIRST))
    for points in (POINTS[:2], POINTS, POINTS):  # delivered, delivered with more, and again
        recorder = workspace.export(record)
        recorder.results.begin()
        course.add(workspace.store, record.key, points)
        recorder.open()
        recorder.deliver_course()
        finish(recorder)
    study, arms = study_runs(workspace.uri)["mix@laptop"], arm_runs(workspace.uri)
    base, b = arms[f"mix@laptop/{BASE}"], arms["mix@laptop/b"]
    assert histories(study)["mean/b"] == [(3, 29.0), (4, 28.0)]
    assert histories(study)["interval_low/b"] == [(3, -3.0), (4, -3.5)]
    assert histories(study)["decided"] == [(1, 0.0), (3, 0.0), (4, 1.0)]
    assert histories(base)["mean"] == [(1, 30.0), (3, 31.0), (4, 31.0)]
    assert histories(b)["seeds"] == [(3, 1.0), (4, 2.0)] and b["latest"]["difference"] == -3.0
    assert base["tags"]["mlflow.parentRunId"] == study["id"] == b["tags"]["mlflow.parentRunId"]
    assert base["start"] > b["start"] > study["start"]  # newest first is the table's order
    assert "- `x`: 2" in b["tags"]["mlflow.note.content"] and "arm" not in b["tags"]
    assert {run["status"] for run in on_server(workspace.uri)} == {"FINISHED"}


@pytest.mark.parametrize("kind", ["of another shape", "a pipe"])
def test_a_damaged_course_costs_no_trial_its_record(workspace, kind) -> None:
    write(workspace.store, make_journal(FIRST))
    workspace.store.write_json("studies/mix@laptop/results/course.json", {"points": 1})
    if kind == "a pipe":
        (path,) = Path(workspace.store.uri).glob("studies/*/results/course.json")
        path.unlink()
        os.mkfifo(path)
    recorder = workspace.export(two_arms())
    recorder.open()
    finish(recorder)
    assert set(trial_runs(workspace.uri)) == {FIRST}
    course.add(workspace.store, "mix@laptop", POINTS)
    assert course.read(workspace.store, "mix@laptop") == POINTS, "it is written again"


def test_what_the_searches_found_are_params_of_an_arm(workspace) -> None:
    record = two_arms(searched=(FIRST,))
    (search,) = record.searches
    done = replace(search, chosen=FIRST, rows={"backbone.units": "Units"})
    write(workspace.store, make_journal(FIRST))
    recorder = workspace.export(replace(record, searches=(done,)))
    recorder.open()
    finish(recorder)
    params = {key: run["params"] for key, run in arm_runs(workspace.uri).items()}
    assert params == {f"mix@laptop/{BASE}": {"backbone.units": "[20, 10]"}, "mix@laptop/b": {}}


def test_a_trial_has_its_corpus_as_a_dataset_once(workspace) -> None:
    write(workspace.store, make_journal(FIRST))
    for _ in range(2):
        recorder = workspace.export(two_arms())
        recorder.open()
        finish(recorder)
    client = Server(workspace.uri, workspace.artifacts).client
    run = client.get_run(trial_runs(workspace.uri)[FIRST]["id"])
    (read,) = run.inputs.dataset_inputs
    assert (read.dataset.name, read.dataset.digest) == ("corpus", "c0")
    assert [(tag.key, tag.value) for tag in read.tags] == [("mlflow.data.context", "training")]


def test_a_long_course_is_thinned_and_keeps_its_end(tmp_path) -> None:
    store = Store(str(tmp_path))
    for number in range(1, 500):
        course.add(store, "a", [Point(number, number, 0, (ArmPoint("b", 1, 1.0),))])
    points = course.read(store, "a")
    steps = [point.finished for point in points]
    assert len(steps) <= course.MOST and steps[-1] == 499 and steps == sorted(set(steps))


@pytest.mark.parametrize("name", ['it\'s "b"', "a\nb `c` 100 % 日本"])
def test_an_arm_has_any_name(workspace, name) -> None:
    """MLflow's search can quote none that has both kinds of quotes."""
    record = make_study(trials=1)
    record = replace(record, arms=(*record.arms, ArmRecord(name=name)))
    write(workspace.store, make_journal(FIRST))
    write_study(workspace.store, record)
    for _ in range(2):
        assert sync(workspace.store, workspace.uri, workspace.artifacts)["mix@laptop"].complete
    assert f"mix@laptop/{name}" in arm_runs(workspace.uri)
