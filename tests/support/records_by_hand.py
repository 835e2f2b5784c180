"""Studies and journals made by hand, and what a server has of them."""

from __future__ import annotations

import contextlib
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ablate.config.identity import Parent, Trial
from ablate.record import quiet
from ablate.record.export import Export
from ablate.record.server import Server
from ablate.store import study_record
from ablate.store.attempt import Attempt
from ablate.store.epoch import Epoch
from ablate.store.journal import Journal
from ablate.store.outcome import Outcome, Status
from ablate.store.store import Store
from ablate.store.study_record import ArmRecord, PlannedTrial, SearchRecord, StudyRecord


@dataclass
class Workspace:
    """A store and a tracking database."""

    folder: Path
    store: Store
    uri: str
    artifacts: Path
    empty_database: Path

    def reset(self) -> None:
        """Restore the initial state; MLflow would need a second to open another database."""
        store = quiet.load("mlflow.tracking").MlflowClient(self.uri)._tracking_client.store
        store.engine.dispose()
        shutil.copyfile(self.empty_database, self.folder / "mlflow.db")
        shutil.rmtree(self.folder / "store")
        shutil.rmtree(self.artifacts)

    def export(self, record: StudyRecord) -> Export:
        server = Server(self.uri, self.artifacts)
        return Export(self.store, self.uri, record, self.artifacts, server)


def finish(recorder: Export, table: str = "", files: dict[str, bytes | str] | None = None) -> Any:
    """End a study, as `BackgroundExport` does."""
    recorder.results.save(table, files or {})
    return recorder.close()


def pause(recorder: Export) -> Any:
    recorder.results.pause()
    return recorder.close()


def make_study(name: str = "mix", trials: int = 2, searched: tuple[str, ...] = ()) -> StudyRecord:
    planned = tuple(
        PlannedTrial(
            id=trial_id(name, index),
            arm="(15,5,0,0)",
            stage="train",
            seed=index + 1,
            seed_index=index,
            final=True,
        )
        for index in range(trials)
    )
    searches = (
        SearchRecord(arm="(15,5,0,0)", repeat=1, num_trials=len(searched), trials=searched),
    )
    return StudyRecord(
        name=name,
        scale="laptop",
        question="From which layers?",
        paper="takase2018",
        tables=("Table 3",),
        file=f"studies/{name}.py",
        command=f"ablate study studies/{name}.py",
        corpus="grammar",
        corpus_digest="c0",
        level="word",
        num_seeds=trials,
        base_arm="(15,5,0,0)",
        arms=(ArmRecord(name="(15,5,0,0)", num_parameters=1000),),
        trials=planned,
        searches=searches if searched else (),
    )


def trial_id(study: str, index: int) -> str:
    return f"{study}{index:012d}"


ATTEMPT = Attempt(
    started="2026-01-02T03:04:05Z",
    host="box",
    hardware="a processor",
    versions={"torch": "2.13.0"},
    computed_by=("torch: ABLATE_NATIVE=off", "kernels: g++ 12.2"),
    git={"commit": "abc", "dirty": True},
)


def make_journal(
    identity: str,
    epochs: int = 3,
    status: str | None = "completed",
    study: str = "mix",
    seconds: float = 0.5,
    **outcome: Any,
) -> Journal:
    trial = Trial(
        id=identity,
        values={"backbone": "lstm"},
        seed=7,
        corpus_digest="c0",
        parents=(Parent("start", "p1"),),
        study=study,
        scale="laptop",
        arm="(15,5,0,0)",
    )
    curve = [
        Epoch(
            number,
            {
                "train_nll": 5.0 - number / 10,
                "valid_ppl": 100.0 / number,
                "event": "averaging" if number == 2 else None,
            },
            seconds=seconds * number,
        )
        for number in range(1, epochs + 1)
    ]
    result = {"valid_ppl": 30.0, "test_ppl": 31.0} if status == "completed" else {}
    config = {"backbone": "lstm", "backbone.units": [20, 10], "training.clip": None}
    parts = {"metrics": result, "num_parameters": 1000, **outcome}
    ended = None if status is None else Outcome(status=Status(status), **parts)
    return Journal(trial, config, [ATTEMPT], epochs=curve, outcome=ended)


def write(store: Store, *result: Journal) -> None:
    for journal in result:
        journal.write(store)


def write_study(store: Store, record: StudyRecord) -> None:
    study_record.write(store, record)


def on_server(uri: str) -> list[dict[str, Any]]:
    """Everything on a server: all runs, deleted ones too."""
    client = quiet.load("mlflow.tracking").MlflowClient(uri)
    experiments = {result.experiment_id: result.name for result in client.search_experiments()}
    runs = client.search_runs(list(experiments), run_view_type=3, max_results=1000)
    read = _database_points if uri.startswith("sqlite") else _server_points
    points = read(client, uri, runs)
    return [
        _plain(run, experiments[run.info.experiment_id], points[run.info.run_id]) for run in runs
    ]


Points = dict[str, list[tuple[int, float, int]]]


def _database_points(client: Any, uri: str, runs: Any) -> dict[str, Points]:
    """All points at once: MLflow's client reads one metric of one run in a call."""
    import math
    import sqlite3

    result: dict[str, Points] = {run.info.run_id: {} for run in runs}
    query = "SELECT run_uuid, key, step, value, timestamp, is_nan FROM metrics"
    with contextlib.closing(sqlite3.connect(uri.removeprefix("sqlite:///"))) as db:
        for run_id, key, step, value, timestamp, is_nan in db.execute(query):
            point = (step, math.nan if is_nan else value, timestamp)
            result.setdefault(run_id, {}).setdefault(key, []).append(point)
    return result


def _server_points(client: Any, uri: str, runs: Any) -> dict[str, Points]:
    result: dict[str, Points] = {}
    for run in runs:
        histories = {k: client.get_metric_history(run.info.run_id, k) for k in run.data.metrics}
        result[run.info.run_id] = {
            key: [(point.step, point.value, point.timestamp) for point in history]
            for key, history in histories.items()
        }
    return result


def _plain(run: Any, experiment: str, points: Points) -> dict[str, Any]:
    return {
        "id": run.info.run_id,
        "name": run.info.run_name,
        "experiment": experiment,
        "status": run.info.status,
        "stage": run.info.lifecycle_stage,
        "start": run.info.start_time,
        "end": run.info.end_time,
        "artifact_uri": run.info.artifact_uri,
        "tags": dict(run.data.tags),
        "params": dict(run.data.params),
        "latest": dict(run.data.metrics),
        "history": points,
    }


def trial_runs(uri: str) -> dict[str, dict[str, Any]]:
    """The run of each trial, of which there is exactly one."""
    result = [run for run in on_server(uri) if "ablate.trial" in run["tags"]]
    by_id = {run["tags"]["ablate.trial"]: run for run in result}
    assert len(by_id) == len(result), "a trial has two runs"
    return by_id


def arm_runs(uri: str) -> dict[str, dict[str, Any]]:
    """The runs of arms, by `study@scale/arm`."""
    result = [run for run in on_server(uri) if "ablate.arm_run" in run["tags"]]
    by_key = {run["tags"]["ablate.arm_run"]: run for run in result}
    assert len(by_key) == len(result), "an arm has several runs"
    return by_key


def study_runs(uri: str) -> dict[str, dict[str, Any]]:
    result = [run for run in on_server(uri) if "ablate.study_run" in run["tags"]]
    by_key = {run["tags"]["ablate.study_run"]: run for run in result}
    assert len(by_key) == len(result), "a study has two runs"
    return by_key
