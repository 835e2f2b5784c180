"""How runs should look: pure functions from a study's record and a trial's journal.

Metrics by epoch have the journal's names (`train_nll`, `valid_ppl`, ...) at step = epoch; the final
results are `final_<name>`, so that a trial stopped early has no value where finished ones have one.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import time
from collections.abc import Mapping, Sequence
from typing import Any

from ablate.config.identity import digest
from ablate.record import artifacts
from ablate.record.tracking import (
    ALSO_IN,
    EPOCHS,
    FAILED,
    FINAL,
    FINISHED,
    HOME,
    KILLED,
    MARK,
    NOTE,
    PARENT_RUN,
    ROW,
    RUN_NAME,
    RUNNING,
    STUDY,
    TAG_LENGTH,
    TRIAL,
    MetricValue,
    RunToWrite,
)
from ablate.results.facts import (
    OF_STUDIES,
    STUDY_FACTS,
    STUDY_RUN,
    TRIAL_FACTS,
    StudyFacts,
    TrialFacts,
    tags_of,
)
from ablate.results.labels import Label
from ablate.results.rows import (
    NUM_PARAMETERS,
    StudyStatus,
    epoch_columns,
    status_of,
    tag_key,
    times_of,
    trial_row,
)
from ablate.store.journal import Journal
from ablate.store.numbers import in_utf8, number, without_nan
from ablate.store.outcome import Outcome, Status
from ablate.store.study_record import StudyRecord

PARAM_LENGTH = 6000  # characters: MLflow's limit
OWN_FACTS = [fact for fact in OF_STUDIES if fact.tag != STUDY_RUN]  # which is the run's identity
BY_ARM = "arms"  # the name of a view of MLflow's: trials grouped by arm
CUT = " ... (cut; whole in config.toml)"


# A study's "running" and "interrupted" are equal to a trial's, and so found here too.
STATUSES = {
    Status.COMPLETED: FINISHED,
    Status.PRUNED: KILLED,
    Status.DIVERGED: FAILED,
    Status.FAILED: FAILED,
    Status.INTERRUPTED: KILLED,
    Status.RUNNING: RUNNING,
    StudyStatus.FINISHED: FINISHED,
}


def mark_of(journal: Journal, running: bool) -> str:
    """How much of a journal a run shows: if the mark is equal, there is nothing to deliver.

    The last part, which marks of older versions lack, differs if the trial was run again.
    """
    status, outcome = status_of(journal, running), journal.outcome
    started = [attempt.started for attempt in journal.attempts]
    shown = digest(without_nan([outcome and outcome.to_plain(), started]))[:8]
    return f"{status}:{len(journal.epochs)}:{len(journal.attempts)}:{shown}"


def also_in(record: StudyRecord) -> str:
    """The tag by which a trial of another study is also one of this study's."""
    return f"{ALSO_IN}{tag_key(record.key)}"


def trial_run(
    record: StudyRecord,
    parent_run_id: str,
    journal: Journal,
    label: Label | None,
    running: bool,
    files: Mapping[str, bytes] | None = None,
    home: tuple[StudyRecord, Label] | None = None,
) -> RunToWrite:
    """The run of one trial, as a child of the study's.

    `files`: those of `run.folder`, by name; `home`: the study, with its label, that the trial's row
    is of, if it is not this one.
    """
    trial = journal.trial
    label = label or Label(trial.arm, trial.stage, trial.name)
    status = status_of(journal, running)
    start, end = _times(journal)
    facts = TrialFacts(journal, status, record, label)
    of, name = home or (record, label)
    return RunToWrite(
        identity=(TRIAL, trial.id),
        status=STATUSES[status],
        start=start,
        end=None if status == Status.RUNNING else end,
        home=_tags(_home(parent_run_id, facts)),
        guest=_tags({also_in(record): label.arm}),
        tags=_tags(_facts(facts)) | {MARK: mark_of(journal, running)},
        params=_params(journal),
        metric_values=_metric_values(journal, start),
        artifacts={} if status == Status.RUNNING else artifacts.of_trial(journal, files or {}),
        dataset=None if status == Status.RUNNING else _dataset(journal),
        plain={
            ROW: trial_row(of, journal, name, running=running),
            EPOCHS: epoch_columns(journal),
        },
    )


def study_run(
    record: StudyRecord,
    status: StudyStatus,
    start: int,
    results: Mapping[str, bytes],
    table: str,
    counts: Mapping[Status, int],
    metric_values: Sequence[MetricValue] = (),
    marks: Sequence[str] = (),
) -> RunToWrite:
    """The run of a study: its question, command, table, and numbers by finished trials.

    `marks`: of its trials' runs. A reader of the server has to read them again if one has changed.
    """
    tags = _tags(_study_facts(record, status, table, counts))
    plain = in_utf8(without_nan(dataclasses.asdict(record)))
    files = {**results, "study.json": artifacts.json_of(plain)}
    if table:
        files["table.md"] = table.encode()
    shown = _digest({STUDY: "", **tags, MARK: " ".join(marks)}, files, metric_values)
    return RunToWrite(
        identity=(STUDY_RUN, record.key),
        status=STATUSES[status],
        start=start,
        end=None if status == StudyStatus.RUNNING else _now(),
        home={HOME: record.key, RUN_NAME: record.key, STUDY_RUN: record.key},
        tags=tags | {MARK: f"{status}:{shown}"},
        metric_values=metric_values,
        artifacts={} if status == StudyStatus.RUNNING else files,
        plain={STUDY: plain},
    )


def _study_facts(
    record: StudyRecord, status: StudyStatus, table: str, counts: Mapping[Status, int]
) -> dict[str, Any]:
    """The tags of a study. It has no params: MLflow changes none, and seeds may be added."""
    return {
        "ablate.kind": "study",
        **tags_of(OWN_FACTS, StudyFacts(record, status)),
        "num_arms": len(record.arms),
        "num_seeds": record.num_seeds,
        "trials": ", ".join(f"{num} {name}" for name, num in counts.items() if num),
        "mlflow.source.name": record.file,
        "mlflow.source.type": "LOCAL",
        NOTE: note(record, table),
    }


def _digest(
    tags: Mapping[str, str], files: Mapping[str, bytes], values: Sequence[MetricValue]
) -> str:
    """A hash of all that a study's run shows."""
    content = hashlib.sha256(json.dumps(tags, sort_keys=True).encode())
    if values:
        content.update(repr([(v.key, v.step, v.value) for v in values]).encode())
    for name in sorted(files):
        content.update(name.encode() + files[name])
    return content.hexdigest()[:16]


def experiment_tags(record: StudyRecord) -> dict[str, str]:
    """What the UI shows of an experiment; without the kind, the UI would ask the user for one."""
    return {
        "mlflow.experimentKind": "custom_model_development",
        NOTE: in_utf8(note(record, "")),
        HOME: record.key,
        f"mlflow.sharedViewState.{BY_ARM}": json.dumps(view_by_arm(record)),
    }


def view_by_arm(record: StudyRecord) -> dict[str, Any]:
    """What MLflow's page stores of a view that a user shares: the trials that count in tables, by
    arm, with the metrics that the study is judged by and shows. Trials of searches do not count."""
    metrics = (record.metric, *record.columns)
    shown = [f"{FINAL}{metric.key(split)}" for metric in metrics for split in metric.splits]
    return {
        "searchFilter": "tags.`ablate.kind` = 'trial' AND tags.in_cell = 'True'",
        "groupBy": {
            "aggregateFunction": "average",
            "groupByKeys": [{"mode": "tag", "groupByData": "arm"}],
        },
        "selectedColumns": [f"metrics.`{tag_key(name)}`" for name in (*shown, NUM_PARAMETERS)],
        "useGroupedValuesInCharts": True,
    }


def view_page(experiment_id: str) -> str:
    """The end of the URL of a page with charts of trials by arm, after the server's address."""
    return f"#/experiments/{experiment_id}/runs?viewStateShareKey={BY_ARM}"


def note(record: StudyRecord, table: str) -> str:
    """The study in Markdown, within the length of a tag."""
    source = ", ".join(text for text in (record.paper, *record.tables) if text)
    corpus = f", corpus `{record.corpus}`" if record.corpus else ""
    data = "; ".join(filter(None, (source, f"scale `{record.scale}`{corpus}")))
    head = f"**{record.question}**\n\n    {record.command}\n\n{data}\n"
    whole = f"{head}\n{table}\n" if table else head
    if len(whole) <= TAG_LENGTH:
        return whole
    end = "\n\n(cut; whole in the artifact table.md)\n"
    return whole[: TAG_LENGTH - len(end)].rpartition("\n")[0] + end


def _home(parent: str, facts: TrialFacts) -> dict[str, Any]:
    """The tags with which a study labels a trial."""
    own = {PARENT_RUN: parent, RUN_NAME: facts.label.name}
    return {**own, **tags_of(STUDY_FACTS, facts), **facts.journal.trial.tags}


def _facts(facts: TrialFacts) -> dict[str, Any]:
    """The tags of a trial that do not depend on the study."""
    outcome = facts.journal.outcome
    return {
        "ablate.kind": "trial",
        **tags_of(TRIAL_FACTS, facts),
        **_signatures(outcome),
        "mlflow.source.git.commit": facts.git.get("commit"),
        NOTE: _failure(outcome),
    }


def _signatures(outcome: Outcome | None) -> dict[str, str]:
    """What computed a metric, as that library describes itself."""
    known = (outcome and outcome.signatures) or {}
    return {f"signature.{name}": text for name, text in known.items()}


def _failure(outcome: Outcome | None) -> str:
    return f"**{outcome.status}**: {outcome.reason}" if outcome and outcome.reason else ""


def _dataset(journal: Journal) -> tuple[str, str] | None:
    """The trial's corpus; None of a task without one."""
    config, known = journal.config or journal.trial.values, journal.trial.corpus_digest
    if not known:
        return None
    return in_utf8(str(config.get("corpus.name") or "corpus"))[:500], known[:36]


def _tags(facts: Mapping[str, Any]) -> dict[str, str]:
    """Tags as text, without the empty ones."""
    shown = {
        key: str(value)[:TAG_LENGTH] for key, value in facts.items() if value not in (None, "")
    }
    return in_utf8(shown)


def _params(journal: Journal) -> dict[str, str]:
    config = journal.config or journal.trial.values
    return {tag_key(key): param(value, CUT) for key, value in config.items()}


def param(value: Any, cut: str = "") -> str:
    """A setting as the text of a param; one that is too long ends with `cut`."""
    text = in_utf8(json.dumps(value) if isinstance(value, list | tuple | dict) else str(value))
    return text if len(text) <= PARAM_LENGTH else text[: PARAM_LENGTH - len(cut)] + cut


def _metric_values(journal: Journal, start: int) -> list[MetricValue]:
    """Every metric of every epoch, then the final ones.

    Their times come from the journal too, so that a value delivered twice is the same value.
    """
    metric_values, step, at = [], 0, start

    def add(values: Mapping[str, Any]) -> None:
        numbers = {tag_key(key): number(value) for key, value in values.items()}
        metric_values.extend(
            MetricValue(k, value, at, step) for k, value in numbers.items() if value is not None
        )

    for epoch in journal.epochs:
        step = epoch.number
        at = start + (step if epoch.seconds is None else round(1000 * epoch.seconds))
        add({key: value for key, value in epoch.to_plain().items() if key != "epoch"})
    add({f"{FINAL}{key}": value for key, value in journal.metrics.items()})
    add({NUM_PARAMETERS: journal.outcome and journal.outcome.num_parameters})
    return metric_values


def _times(journal: Journal) -> tuple[int, int]:
    start, end = times_of(journal)
    return _now() if start is None else start, _now() if end is None else end


def _now() -> int:
    return round(1000 * time.time())
