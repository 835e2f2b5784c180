"""Workspaces with studies in their stores, made by hand."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from ablate.config.identity import Parent, Trial
from ablate.store import study_record
from ablate.store.attempt import Attempt
from ablate.store.epoch import Epoch
from ablate.store.journal import Journal
from ablate.store.outcome import Outcome, Status
from ablate.store.study_record import ArmRecord, PlannedTrial, StudyRecord
from ablate.store.workspace import Workspace, open_workspace

ATTEMPTED = ("computed_by", "sources", "neutral")  # options of a trial that its attempt records


@dataclass
class Recorded:
    """A workspace, and what is in its store."""

    workspace: Workspace
    records: dict[str, StudyRecord] = field(default_factory=dict)

    def trial(self, name: str, config: dict[str, Any], **more: Any) -> Journal:
        """Make a trial that has ended, or not if `status` is None."""
        options: dict[str, Any] = {"seed": 1, "status": "completed", "nats": 4.0, "epochs": 2}
        options |= {"started": "2026-01-02T03:04:05Z", "parents": (), "digest": "d", **more}
        nats, status = options["nats"], options["status"]
        trial = Trial(
            id=name,
            values=config,
            seed=options["seed"],
            corpus_digest=options.get("corpus_digest", "c0"),
            parents=tuple(Parent("start", parent) for parent in options["parents"]),
            arm=options.get("arm", ""),
            **{
                name: options[name] for name in ("reads_test", "runner", "stage") if name in options
            },
        )
        epochs = [
            Epoch(e, {"train_nll": nats + 2 / e, "valid_nll": nats + 1 / e}, seconds=0.5 * e)
            for e in range(1, options["epochs"] + 1)
        ]
        epochs = options.get("curve", epochs)
        concluded = options.get("metrics", {"valid_nll": nats, "test_nll": nats - 0.1})
        metrics = concluded if status == "completed" else {}
        outcome = status and Outcome(
            status=Status(status),
            metrics=metrics,
            num_parameters=options.get("num_parameters", 1000),
            digest=options["digest"],
            reason=options.get("reason"),
        )
        attempt = Attempt(
            started=options["started"],
            host="box",
            ablate_git={"commit": "abc", "dirty": False},
            **{name: options[name] for name in ATTEMPTED if name in options},
        )
        if "task" not in config:
            config = {"corpus.name": "grammar", **config}
        return Journal(trial, config, [attempt], epochs=epochs, outcome=outcome)

    def function(self, name: str, values: dict[str, Any], metrics: dict[str, float], **more: Any):
        """Make a trial of a function of the user's, with no corpus and no parameters."""
        config = {"task": "digits", **{f"digits.{key}": value for key, value in values.items()}}
        curve = [Epoch(1, {"valid_accuracy": 0.5}, seconds=0.5)]
        options = {"corpus_digest": "", "runner": "function", "num_parameters": None, **more}
        return self.trial(name, config, metrics=metrics, **{"curve": curve, **options})

    def study(
        self,
        name: str,
        arms: dict[str, list[Journal]],
        arm_fields: dict[str, dict[str, Any]] | None = None,
        **more: Any,
    ) -> StudyRecord:
        """Store a study of these trials, finished or not."""
        planned = [
            PlannedTrial(
                id=journal.trial.id,
                arm=arm,
                stage=journal.trial.stage,
                seed=journal.trial.seed,
                seed_index=sum(one.trial.stage != "measure" for one in journals[: index + 1]) - 1,
                final=journal.trial.stage != "measure",
                parents=tuple(journal.trial.parent_ids()),
            )
            for arm, journals in arms.items()
            for index, journal in enumerate(journals)
        ]
        fields: dict[str, Any] = {
            "name": name,
            "scale": "laptop",
            "question": "Why?",
            "paper": "",
            "tables": (),
            "file": f"{name}.py",
            "command": f"ablate study {name}.py",
            "corpus": "grammar",
            "corpus_digest": "c0",
            "level": "word",
            "base_arm": next(iter(arms)),
            "num_seeds": max(len(journals) for journals in arms.values()),
            "arms": tuple(
                ArmRecord(
                    **{"name": arm, "num_parameters": 1000, **(arm_fields or {}).get(arm, {})}
                )
                for arm in arms
            ),
        }
        record = StudyRecord(**{**fields, **more, "trials": tuple(planned)})
        for journals in arms.values():
            for journal in journals:
                journal.write(self.workspace.store)
        self.save(record)
        return record

    def save(self, record: StudyRecord) -> None:
        study_record.write(self.workspace.store, record)


@pytest.fixture
def recorded(tmp_path: Path) -> Recorded:
    return Recorded(open_workspace(str(tmp_path / "workspace")))


@pytest.fixture
def rows_of() -> Callable[[Recorded, str], list[tuple]]:
    """Return the rows of a query of a mirror that is up to date."""
    from ablate.compare.across.query import ask
    from ablate.record.mirror.syncing import update_mirror

    return lambda recorded, sql: ask(update_mirror(recorded.workspace), sql).rows
