"""The rows of `arms`: each arm's results as its table counts them (`ablate.results.cells`).

An arm's trials are those listed in its study's record, started or not. While a study runs, or has
no record yet, the tags of its trials decide: their own study's, and `ablate.also_in.*`.

A study's rows are made again when its run or one of its trials has changed.
"""

from __future__ import annotations

import contextlib
import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ablate.config import metrics
from ablate.config.metrics import ARMS, LARGEST_EXPONENT, PERPLEXITY, Metric, perplexity
from ablate.record.runs import StudyStatus, tag_key
from ablate.results.arm import Measured
from ablate.results.cells import Cells
from ablate.results.facts import NUMBER, TEXT, TRUTH, WHOLE
from ablate.results.result import Result
from ablate.results.spread import mean, spread
from ablate.store import study_record
from ablate.store.outcome import Status
from ablate.store.study_record import ArmRecord, PlannedTrial, StudyRecord

ARM_COLUMNS = {
    **dict.fromkeys(("study_key", "arm", "corpus", "split", "metric"), TEXT),
    "decides": TRUTH,  # the metric decides the study; else it is one of the study's columns
    **dict.fromkeys(("num_parameters", "num", "num_lost", "num_searches"), WHOLE),
    **dict.fromkeys(("mean", "spread", "nll", "nll_spread", "ppl", "ppl_spread"), NUMBER),
    **dict.fromkeys(("bpc", "published"), NUMBER),
    "not_comparable": TEXT,
}
STUDY_FACTS = (
    "study_key",
    "run_id",
    "status",
    "judged_by",
    "level",
    "base_arm",
    "corpus",
    "record",
)
TRIAL_FACTS = (
    *("trial", "study_key", "arm", "stage", "seed_index", "in_cell", "status", "corpus"),
    *("parents", "also_in", "num_parameters"),
)
Row = Mapping[str, Any]
UNENDED = (Status.RUNNING, Status.INTERRUPTED)


@dataclass(frozen=True)
class Study:
    """A recorded study as the mirror has it."""

    key: str
    run_id: str
    corpus: str | None
    record: StudyRecord  # of its trials, those that are listed
    listed: bool  # the record says which trials the study has; else their tags do
    tag: str = ""  # under which other studies' trials are also this one's

    @property
    def metrics(self) -> tuple[Metric, ...]:
        """The metric that decides, then the columns."""
        return (self.record.metric, *self.record.columns)


@dataclass
class Changes:
    """What an update of the mirror has changed."""

    runs: set[str]
    trials: set[str] = field(default_factory=set)
    studies: set[str] = field(default_factory=set)  # their keys
    tags: set[str] = field(default_factory=set)  # of studies that share a trial

    def add(self, rows: Iterable[tuple[str, str, str | None]]) -> None:
        """Add trials: their ids, studies and `also_in`."""
        for trial, study_key, also_in in rows:
            self.trials.add(trial)
            self.studies.add(study_key)
            self.tags.update(json.loads(also_in) if also_in else ())

    def touch(self, study: Row) -> bool:
        """Return whether a study, by its row of `studies`, may have other results now."""
        if study["run_id"] in self.runs or study["study_key"] in self.studies:
            return True
        if tag_key(study["study_key"]) in self.tags:
            return True
        listed = listed_trials(study, plain_record(study))
        return any(trial in self.trials for trial, _ in listed)


def plain_record(row: Row) -> Mapping[str, Any]:
    """A study's record as it was stored; empty if it cannot be read.

    Not the typed record: thousands are looked at, and most studies have not changed.
    """
    with contextlib.suppress(ValueError):
        plain = json.loads(row["record"] or "{}")
        return plain if isinstance(plain, dict) else {}
    return {}


def listed_trials(row: Row, plain: Mapping[str, Any]) -> list[tuple[str, bool]]:
    """The ids of the trials that a study's record lists, and whether each is final; none while
    the study runs, when its trials' tags decide."""
    if row["status"] == StudyStatus.RUNNING:
        return []
    with contextlib.suppress(TypeError, KeyError):
        return [(trial["id"], trial["final"]) for trial in plain.get("trials", ())]
    return []


def study_of(row: Row) -> Study:
    """A study from its row of `studies`."""
    record = _record(row["record"])
    running = row["status"] == StudyStatus.RUNNING
    listed = record is not None and not running
    record = record or _without_record(row)
    if row["judged_by"]:
        record = replace(record, judged_by=metrics.from_plain(json.loads(row["judged_by"])))
    return Study(
        key=row["study_key"],
        run_id=row["run_id"],
        corpus=record.corpus if listed else None,
        record=record,
        listed=listed,
        tag="" if listed else tag_key(row["study_key"]),
    )


def _record(text: str | None) -> StudyRecord | None:
    """The study's record; None if there is none, or if another version wrote one unlike ours."""
    with contextlib.suppress(ValueError, TypeError, KeyError, AttributeError):
        return study_record.from_plain(json.loads(text)) if text else None
    return None


def _without_record(row: Row) -> StudyRecord:
    """Return a study's record from the tags of its run alone."""
    name, _, scale = row["study_key"].partition("@")
    texts = dict.fromkeys(("question", "paper", "file", "command", "corpus_digest"), "")
    return StudyRecord(
        name=name,
        scale=scale,
        tables=(),
        corpus=row["corpus"] or "",
        level=row["level"] or "",
        num_seeds=0,
        base_arm=row["base_arm"] or "",
        arms=(),
        trials=(),
        **texts,
    )


def columns_of(studies: Iterable[Study], numbers: Iterable[str]) -> list[str]:
    """Those of the mirror's columns that hold the studies' metrics."""
    wanted = {_column(key) for study in studies for key in _keys(study)}
    return [name for name in numbers if name.lower() in wanted]


def _keys(study: Study) -> Iterator[str]:
    return (metric.key(split) for metric in study.metrics for split in metric.splits)


def _column(key: str) -> str:
    """The column of a number that trials report, in lower case: SQL ignores case."""
    return tag_key(key).lower()


def arm_rows(study: Study, rows: Sequence[Row]) -> Iterator[dict[str, Any]]:
    """The rows of a study's arms, from the rows of `trials` that may be theirs."""
    record = study.record if study.listed else _as_tagged(study, rows)
    by_trial = {row["trial"]: row for row in rows}
    ids = {planned.id for planned in record.trials} & by_trial.keys()
    columns = {key: _column(key) for key in _keys(study)}
    results = {trial: _result(columns, by_trial[trial]) for trial in ids}
    reasons = {arm.name: arm.not_comparable for arm in record.arms}
    everywhere = max((c for trial in ids if (c := by_trial[trial]["corpus"])), default=study.corpus)
    for arm in Cells(record, results).arms():
        own = [t.id for t in record.trials if t.arm == arm.name and t.final and t.id in ids]
        corpora = (by_trial[trial]["corpus"] for trial in own)
        sizes = (results[trial].num_parameters for trial in own)
        searches = [s for s in record.searches if s.arm == arm.name and s.seed_index is None]
        facts = {
            "study_key": study.key,
            "arm": arm.name,
            "corpus": next(filter(None, corpora), everywhere) or None,
            "num_parameters": max(filter(None, sizes), default=None),  # that trials report
            "num_searches": len({search.repeat for search in searches}) or None,
            "not_comparable": (record.published_scale and reasons.get(arm.name)) or None,
        }
        for measured in arm.every:
            yield from ({**facts, **row} for row in _measured_rows(measured, record.metric))


def _measured_rows(measured: Measured, decides: Metric) -> Iterator[dict[str, Any]]:
    """A row for each split that has a result, or lacks one."""
    metric = measured.metric
    for split in () if metric.of == ARMS else metric.splits:
        cell, num_lost = measured.cells.get(split), measured.lost[split]
        if cell is not None or num_lost:
            yield {
                "split": split,
                "metric": metric.name,
                "decides": metric == decides,
                "num": 0 if cell is None else cell.num,
                "num_lost": num_lost,
                "mean": cell and cell.mean,
                "spread": cell and cell.spread,
                **_of_nats(metric, [*measured.losses.get(split, {}).values()]),
                "published": measured.published.get(split),
            }


def _of_nats(metric: Metric, losses: Sequence[float]) -> dict[str, float | None]:
    """What only language models have: nats, perplexities and bits."""
    if metric.name != PERPLEXITY.name or not metric.reports_scaled or not losses:
        return {}
    perplexities = [perplexity(loss, LARGEST_EXPONENT) for loss in losses]
    return {
        "nll": mean(losses),
        "nll_spread": spread(losses),
        "ppl": mean(perplexities),
        "ppl_spread": spread(perplexities),
        "bpc": mean(losses) / math.log(2),
    }


def _result(columns: Mapping[str, str], row: Row) -> Result:
    """`columns`: the key of each of the study's metrics, and its column in lower case."""
    reported = {name.lower(): value for name, value in row.items() if value is not None}
    size = row["num_parameters"]
    return Result(
        status=None if row["status"] in UNENDED else Status(row["status"]),
        metrics={key: reported[column] for key, column in columns.items() if column in reported},
        num_parameters=None if size is None else int(size),
    )


def planned_trials(study: Study, rows: Sequence[Row]) -> Sequence[PlannedTrial]:
    """The trials of a study: those listed, or those whose tags say that they are (also) its own."""
    return study.record.trials if study.listed else [*_own(study, rows), *_shared(study, rows)]


def _as_tagged(study: Study, rows: Sequence[Row]) -> StudyRecord:
    """The study's record with the trials that are its own by their tags."""
    trials = planned_trials(study, rows)
    known = {arm.name: arm for arm in study.record.arms}
    names = dict.fromkeys(trial.arm for trial in trials)
    arms = tuple(known.get(name) or ArmRecord(name=name) for name in names)
    return replace(study.record, trials=tuple(trials), arms=arms)


def _own(study: Study, rows: Sequence[Row]) -> Iterator[PlannedTrial]:
    for number, row in enumerate(rows, 1):
        if row["study_key"] == study.key and row["arm"] is not None:
            index = -number if row["seed_index"] is None else row["seed_index"]
            yield _planned(row, row["arm"], index)


def _shared(study: Study, rows: Sequence[Row]) -> Iterator[PlannedTrial]:
    for number, row in enumerate(rows, 1):
        arm = json.loads(row["also_in"]).get(study.tag) if row["also_in"] else None
        if arm is not None:
            yield _planned(row, arm, -number)  # unlike any seed's: no other result is of this one


def _planned(row: Row, arm: str, seed_index: int) -> PlannedTrial:
    parents = (row["parents"] or "").split(", ")
    return PlannedTrial(
        id=row["trial"],
        arm=arm,
        stage=row["stage"] or "",
        seed=0,
        seed_index=seed_index,
        final=bool(row["in_cell"]),
        parents=tuple(parent.rpartition(":")[2] for parent in parents),
    )
