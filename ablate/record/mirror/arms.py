"""The rows of `arms`: each arm's results as its table counts them (`ablate.results.cells`).

An arm's trials are those listed in its study's record, started or not.

An arm's rows are made again when one of its trials has changed, a whole study's rows when its run
has: reading and counting all trials of 20 studies of 1,000 took longer than all else together.
"""

from __future__ import annotations

import contextlib
import json
import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ablate.config import metrics
from ablate.config.identity import StageName
from ablate.config.metrics import ARMS, LARGEST_EXPONENT, PERPLEXITY, Metric, perplexity
from ablate.results.arm import Measured
from ablate.results.cells import Cells
from ablate.results.facts import NUMBER, REASON, TEXT, TRUTH, WHOLE
from ablate.results.result import Result
from ablate.results.rows import tag_key
from ablate.results.spread import mean, spread
from ablate.store import study_record
from ablate.store.outcome import Status
from ablate.store.study_record import PlannedTrial, StudyRecord

ARM_COLUMNS = {
    **dict.fromkeys(("study_key", "arm", "corpus", "split", "metric"), TEXT),
    "decides": TRUTH,  # the metric decides the study; else it is one of the study's columns
    **dict.fromkeys(("num_parameters", "num", "num_lost", "num_searches"), WHOLE),
    **dict.fromkeys(("mean", "spread", "nll", "nll_spread", "ppl", "ppl_spread"), NUMBER),
    **dict.fromkeys(("bpc", "published"), NUMBER),
    "not_comparable": TEXT,
}
STUDY_FACTS = ("study_key", "run_id", "judged_by", "record")
TRIAL_FACTS = (
    *("trial", "study_key", "arm", "stage", "seed_index", "in_cell", "status", REASON, "corpus"),
    *("parents", "num_parameters"),
)
Row = Mapping[str, Any]
UNENDED = (Status.RUNNING, Status.INTERRUPTED)


@dataclass(frozen=True)
class Study:
    """A recorded study as the mirror has it."""

    key: str
    record: StudyRecord
    arms: Collection[str] | None = None  # the arms to count; None: all

    @property
    def metrics(self) -> tuple[Metric, ...]:
        """The metric that decides, then the columns."""
        return (self.record.metric, *self.record.columns)


@dataclass
class Changes:
    """What an update of the mirror has changed."""

    runs: set[str]
    trials: set[str] = field(default_factory=set)
    records: Mapping[str, StudyRecord] = field(default_factory=dict)  # of studies, read already

    def add(self, rows: Sequence[Row]) -> None:
        """Add trials; of a trial that has changed, its row before and its row now."""
        self.trials.update(row["trial"] for row in rows)
        # The trial that measures a model is counted where the model is, which arms may share.
        measures = (row for row in rows if row["stage"] == StageName.MEASURE)
        self.trials.update(parent for row in measures for parent in parents_of(row))

    def of_study(self, row: Row) -> Study | None:
        """Return a study, by its row of `studies`, with the arms that may have other results."""
        if row["run_id"] in self.runs:
            return self.study(row)
        record = self.records.get(row["study_key"])
        listed = (
            [(planned.id, planned.arm) for planned in record.trials]
            if record
            else [(trial, arm) for trial, arm, _ in listed_trials(plain_record(row))]
        )
        arms = {arm for trial, arm in listed if trial in self.trials}
        study = self.study(row) if arms else None
        if study is None or any(metric.of == ARMS for metric in study.metrics):
            return study  # a difference of two arms changes with either
        return replace(study, arms=arms)

    def study(self, row: Row) -> Study | None:
        """A study from its row of `studies`; None if this version cannot read its record."""
        key = row["study_key"]
        with contextlib.suppress(ValueError, TypeError, KeyError, AttributeError):
            plain = row["record"]
            return Study(key, self.records.get(key) or study_record.from_plain(json.loads(plain)))
        return None


def plain_record(row: Row) -> Mapping[str, Any]:
    """A study's record as it was stored; empty if it cannot be read.

    Not the typed record: thousands are looked at, and most studies have not changed.
    """
    with contextlib.suppress(ValueError):
        plain = json.loads(row["record"] or "{}")
        return plain if isinstance(plain, dict) else {}
    return {}


def listed_trials(plain: Mapping[str, Any]) -> list[tuple[str, str, bool]]:
    """The id, the arm and "is final" of the trials that a study's record lists."""
    with contextlib.suppress(TypeError, KeyError):
        return [(t["id"], t["arm"], t["final"]) for t in plain.get("trials", ())]
    return []


def metric_of(row: Row) -> Metric:
    """The metric that decides a study, by its row of `studies`."""
    return metrics.from_plain(json.loads(row["judged_by"]))


def columns_of(studies: Iterable[Study], numbers: Iterable[str]) -> list[str]:
    """The mirror's columns that hold the studies' metrics, in lower case."""
    wanted = {column_of(key) for study in studies for key in _keys(study)}
    return [name.lower() for name in numbers if name.lower() in wanted]


def _keys(study: Study) -> Iterator[str]:
    return (metric.key(split) for metric in study.metrics for split in metric.splits)


def column_of(key: str) -> str:
    """The column of a number that trials report, in lower case: SQL ignores case."""
    return tag_key(key).lower()


def arm_rows(study: Study, by_trial: Mapping[str, Row]) -> Iterator[dict[str, Any]]:
    """The rows of a study's arms, from the rows of `trials` by id."""
    record = _counted(study)
    columns = {key: column_of(key) for key in _keys(study)}
    results = {
        trial.id: result_of(columns, by_trial[trial.id])
        for trial in record.trials
        if trial.id in by_trial
    }
    reasons = {arm.name: arm.not_comparable for arm in record.arms}
    for arm in Cells(record, results).arms():
        own = [t.id for t in record.trials_of(arm.name) if t.final and t.id in results]
        sizes = (results[trial].num_parameters for trial in own)
        searches = [s for s in record.searches if s.arm == arm.name and s.seed_index is None]
        facts = {
            "study_key": study.key,
            "arm": arm.name,
            "corpus": next(filter(None, (by_trial[trial]["corpus"] for trial in own)), None),
            "num_parameters": max(filter(None, sizes), default=None),  # that trials report
            "num_searches": len({search.repeat for search in searches}) or None,
            "not_comparable": (record.published_scale and reasons.get(arm.name)) or None,
        }
        for measured in arm.every:
            yield from ({**facts, **row} for row in _measured_rows(measured, record.metric))


def _measured_rows(measured: Measured, decides: Metric) -> Iterator[dict[str, Any]]:
    """A row for each split that has a result, or lacks one."""
    metric = measured.metric
    for split in metric.splits:
        cell, num_lost = measured.cells.get(split), measured.lost.get(split, 0)
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


def result_of(columns: Mapping[str, str], row: Row) -> Result:
    """A trial's result in these metrics, by key: `columns` has the column of each."""
    reported = {key: row.get(column) for key, column in columns.items()}
    size = row["num_parameters"]
    return Result(
        status=None if row["status"] in UNENDED else Status(row["status"]),
        reason=row[REASON],
        metrics={key: value for key, value in reported.items() if value is not None},
        num_parameters=None if size is None else int(size),
    )


def planned_trials(study: Study) -> Sequence[PlannedTrial]:
    """The trials of the arms to count, and what measured their models."""
    trials = study.record.trials
    if study.arms is None:
        return trials
    own = {trial.id for trial in trials if trial.arm in study.arms}
    return [t for t in trials if t.id in own or own.intersection(t.parents)]


def _counted(study: Study) -> StudyRecord:
    """The study's record, of the arms to count."""
    arms = tuple(a for a in study.record.arms if study.arms is None or a.name in study.arms)
    return replace(study.record, trials=tuple(planned_trials(study)), arms=arms)


def parents_of(row: Row) -> tuple[str, ...]:
    parents = (row["parents"] or "").split(", ")
    return tuple(parent.rpartition(":")[2] for parent in parents)
