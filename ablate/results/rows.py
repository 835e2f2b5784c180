"""The typed rows of SQL: of a trial, of its epochs, and of a study.

A row is plain data for JSON, made from a study's record, a trial's journal and the trial's label;
nothing is guessed from text. NaN and infinities are text, as in journals. What has no value is not
in a row, or None.
"""

from __future__ import annotations

import calendar
import json
import re
import time
from collections.abc import Container, Iterable, Mapping
from dataclasses import asdict
from enum import StrEnum
from functools import lru_cache
from itertools import compress
from math import ceil, isfinite
from typing import Any, NamedTuple

from ablate.config.tasks import runner_name
from ablate.results.facts import (
    FACTS,
    NUMBER,
    OF_STUDIES,
    TEXT,
    WHOLE,
    Fact,
    StudyFacts,
    TrialFacts,
)
from ablate.results.labels import Label
from ablate.store.attempt import Attempt
from ablate.store.journal import Journal
from ablate.store.numbers import in_utf8, number, without_nan
from ablate.store.outcome import Status
from ablate.store.study_record import StudyRecord

NUM_PARAMETERS = "num_parameters"  # a result of every trial that has a model
TRIAL_COLUMNS: dict[str, str] = {
    **{fact.name: fact.kind for fact in FACTS},
    "run_id": TEXT,
    **dict.fromkeys(("generation", "started_ms", "ended_ms"), WHOLE),
}
RESULTS = {  # numbers that queries may name before any trial has them
    **{f"{split}_{unit}": NUMBER for split in ("valid", "test") for unit in ("nll", "ppl")},
    NUM_PARAMETERS: NUMBER,
}
LABELS = ("trial", "study", "scale", "arm", "seed", "status")  # of the trial, in `epochs`
TIMES = ("started", "ended")  # columns of `trials`
EPOCH_COLUMNS: dict[str, str] = {"run_id": TEXT, "generation": WHOLE, "epoch": WHOLE}
EPOCH_METRICS = dict.fromkeys(("train_nll", "valid_nll", "tokens", "seconds"), NUMBER)
STUDY_COLUMNS: dict[str, str] = {
    **{fact.name: fact.kind for fact in OF_STUDIES},
    **dict.fromkeys(("record", "run_id"), TEXT),
}
Row = dict[str, Any]


class Recorded(NamedTuple):
    """The rows of one run of a source: of a trial in its parts and by epoch, or of a study."""

    run_id: str
    trial: Mapping[str, Row] | None = None  # as `trial_row`
    epochs: Mapping[str, list[Any]] = {}  # as `epoch_columns`
    study: Row | None = None  # as `study_row`


class StudyStatus(StrEnum):
    """Where a study stands."""

    RUNNING = "running"
    INTERRUPTED = "interrupted"
    FINISHED = "finished"


def status_of(journal: Journal, running: bool) -> Status:
    """Return a trial's status; a trial without an outcome is `running` or was interrupted."""
    return journal.status or (Status.RUNNING if running else Status.INTERRUPTED)


def trial_row(
    record: StudyRecord, journal: Journal, label: Label | None, *, running: bool = False
) -> dict[str, Row]:
    """A trial in three parts: its `facts`, the `results` that it concluded, and its `config`, each
    under the names of their columns in `trials`. `running`: whether its study has a driver."""
    trial = journal.trial
    status = status_of(journal, running)
    start, end = times_of(journal)
    known = label or Label(trial.arm, trial.stage, trial.name)
    facts = _facts(FACTS, TrialFacts(journal, status, record, known))
    facts["runner"] = facts["runner"] and runner_name(facts["runner"])  # once an import path
    times = {"started_ms": start, "ended_ms": None if status == Status.RUNNING else end}
    config = journal.config or trial.values
    size = journal.outcome and journal.outcome.num_parameters
    results = {**journal.metrics, NUM_PARAMETERS: size}
    return {
        "facts": {**facts, **times},
        "results": _numbers(results, {*TRIAL_COLUMNS, *TIMES, *map(tag_key, config)}),
        "config": {
            config_column(tag_key(name)): _plain(value)
            for name, value in config.items()
            if value is not None
        },
    }


def epoch_columns(journal: Journal) -> dict[str, list[Any]]:
    """A trial's epochs, column by column; None where an epoch has no number."""
    taken = {*LABELS, *EPOCH_COLUMNS}
    steps = {epoch.number: epoch.to_plain() for epoch in journal.epochs}
    names = dict.fromkeys(name for plain in steps.values() for name in plain if name != "epoch")
    values = {name: _column([plain.get(name) for plain in steps.values()]) for name in names}
    columns = {result_column(tag_key(name), taken): some for name, some in values.items()}
    columns = {name: some for name, some in columns.items() if some.count(None) < len(some)}
    if any(None not in some for some in columns.values()):  # as a rule: then no epoch is empty
        return {"epoch": [*steps], **columns}
    known = [any(each is not None for each in step) for step in zip(*columns.values(), strict=True)]
    columns = {"epoch": [*steps], **columns}
    return {name: [*compress(some, known)] for name, some in columns.items()}


def study_row(record: StudyRecord, status: StudyStatus) -> Row:
    """A study's facts, and its record as JSON."""
    plain = json.dumps(in_utf8(without_nan(asdict(record))), sort_keys=True)
    return {**_facts(OF_STUDIES, StudyFacts(record, status)), "record": plain}


def times_of(journal: Journal) -> tuple[int | None, int | None]:
    """When a trial started, or started over, and when it ended, in milliseconds."""
    if not journal.attempts:
        return None, None
    # After an attempt whose weights were lost, the trial started over: earlier ones do not count.
    lost = [n for n, a in enumerate(journal.attempts[:-1], 1) if a.lost_digest is not None]
    first, last = journal.attempts[lost[-1] if lost else 0], journal.attempts[-1]
    seconds = [0.0, *(epoch.seconds or 0.0 for epoch in journal.epochs)]
    before = seconds[last.from_epoch] if last.from_epoch < len(seconds) else 0.0
    resumed, worked = _milliseconds(last), ceil(1000 * (seconds[-1] - before))
    start = _milliseconds(first)
    evaluated = ceil(1000 * ((journal.outcome and journal.outcome.seconds) or 0.0))
    return start, max(resumed + max(0, worked), start + evaluated)


@lru_cache(maxsize=10_000)  # every trial of a study has the same names
def tag_key(text: str) -> str:
    """A name that MLflow accepts as (part of) the key of a tag, a param or a metric."""
    text = re.sub(r"\[(\d+)\]", r".\1", text).replace("@", ".")
    return re.sub(r"[^\w\-./ ]", "_", text)


def result_column(name: str, taken: Container[str]) -> str:
    """The column of a number that a trial reports: its name, unless this is taken or empty."""
    return name if name and name.lower() not in taken else f"result.{name}"


@lru_cache(maxsize=10_000)
def config_column(name: str) -> str:
    """The column of a config field: its name, unless this is empty or a column of every trial."""
    reserved = not name or name in TRIAL_COLUMNS or name in RESULTS
    return f"config.{name}" if reserved else name


def _facts(facts: Iterable[Fact[Any]], subject: Any) -> Row:
    return {fact.name: _fact(fact.kind, fact.of(subject)) for fact in facts}


def _fact(kind: str, value: Any) -> Any:
    if value in (None, ""):
        return None
    return in_utf8(str(value)) if kind == TEXT else without_nan(value)


def _numbers(values: Mapping[str, Any], taken: Container[str]) -> Row:
    """The values that are numbers, under the names of their columns."""
    numbers = {name: _number(value) for name, value in values.items()}
    return {result_column(tag_key(n), taken): v for n, v in numbers.items() if v is not None}


def _column(values: list[Any]) -> list[Any]:
    """The values as numbers; nearly always they are, which is told without a call for each."""
    if {*map(type, values)} == {float} and all(map(isfinite, values)):
        return values
    return [_number(value) for value in values]


def _number(value: Any) -> Any:
    """A number, or the text of one that is not finite; None for anything else."""
    if type(value) is float and isfinite(value):
        return value
    return None if number(value) is None else without_nan(value)


def _plain(value: Any) -> Any:
    """A setting's value; a list or a mapping as JSON."""
    if type(value) in (int, bool):  # as many are
        return value
    value = in_utf8(without_nan(value))
    return json.dumps(value) if isinstance(value, list | dict) else value


def _milliseconds(attempt: Attempt) -> int:
    """When an attempt started."""
    return 1000 * _seconds(attempt.started or "")


@lru_cache(maxsize=10_000)  # most trials have one attempt, which is their first and their last
def _seconds(time_of_day: str) -> int:
    return calendar.timegm(time.strptime(time_of_day, "%Y-%m-%dT%H:%M:%SZ"))
