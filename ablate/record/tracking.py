"""Runs as plain data: what a tracking server is given.

A server is given whole descriptions of runs (`RunToWrite`), perhaps twice or after a crash in the
middle: it creates the run if there is none, adds what is missing, and sets the status last. Nothing
is recorded twice: a metric has one value per step.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ablate.errors import RecordError
from ablate.results.facts import HOME, REASON, STUDY_FACTS, TRIAL

RUNNING, FINISHED, FAILED, KILLED = "RUNNING", "FINISHED", "FAILED", "KILLED"
ALSO_IN = "ablate.also_in."  # prefix of the tag that shares a trial with another study
ARM_RUN = "ablate.arm_run"  # the tag of the run of an arm of a study
MARK = "ablate.mark"  # how much of the journal the run shows
ROW, EPOCHS, STUDY = "ablate.row", "ablate.epochs", "ablate.study"  # JSON, in parts
LABELLED = [fact.name for fact in STUDY_FACTS]  # facts that depend on the study
TAG_LENGTH = 8000  # characters: MLflow's limit
RUN_NAME, PARENT_RUN, NOTE = "mlflow.runName", "mlflow.parentRunId", "mlflow.note.content"
FINAL = "final_"  # in front of metrics that are not of an epoch


class Away(RecordError):
    """The server does not answer or cannot write now: trying again may help."""


class Refused(RecordError):
    """The server rejects the record: trying again will not help."""


@dataclass(frozen=True)
class MetricValue:
    """One value of a metric. A metric has at most one at a step."""

    key: str
    value: float
    timestamp: int  # milliseconds
    step: int


@dataclass(frozen=True, kw_only=True)
class RunToWrite:
    """What a run should look like. `identity` is a tag that is unique on the whole server."""

    identity: tuple[str, str]
    status: str
    start: int  # milliseconds
    end: int | None
    home: Mapping[str, str]  # tags if the run belongs to the study that delivers it; has HOME
    guest: Mapping[str, str] = field(default_factory=dict)  # tags if it belongs to another study
    tags: Mapping[str, str] = field(default_factory=dict)
    params: Mapping[str, str] = field(default_factory=dict)
    metric_values: Sequence[MetricValue] = ()
    artifacts: Mapping[str, bytes] = field(default_factory=dict)
    dataset: tuple[str, str] | None = None  # the name and the digest of what it read
    plain: Mapping[str, Any] = field(default_factory=dict)  # for JSON, by the names of its tags

    @property
    def restarts(self) -> bool:
        """Return whether a later start means that it is done again; a study's run goes on."""
        return self.identity[0] == TRIAL

    def all_tags(self, existing: Mapping[str, str] | None) -> dict[str, str]:
        """The tags to set, given the tags of the existing run (None if there is none yet).

        What only an earlier attempt had, a reason or a longer row, is emptied.
        """
        known = existing or {}
        at_home = known.get(HOME, self.home[HOME]) == self.home[HOME]
        plain = self.plain if at_home else _as_labelled(self.plain, known)
        parts = [in_parts(name, json.dumps(value)) for name, value in plain.items()]
        tags = {**self.tags, **{key: part for tag in parts for key, part in tag.items()}}
        outdated = {key: "" for key in known if key in (REASON, NOTE) or _is_part(key)}
        return {**outdated, **tags, **(self.home if at_home else self.guest)}


def _as_labelled(plain: Mapping[str, Any], tags: Mapping[str, str]) -> dict[str, Any]:
    """A trial's row with the labels of the study that its run belongs to."""
    known = in_one(ROW, tags)
    if not known:
        return {**plain}
    labels = {name: json.loads(known)["facts"].get(name) for name in LABELLED}
    return {**plain, ROW: {**plain[ROW], "facts": {**plain[ROW]["facts"], **labels}}}


def in_parts(name: str, text: str) -> dict[str, str]:
    """The tags that hold a text: `name`, `name.2`, `name.3`, ..."""
    starts = range(0, len(text), TAG_LENGTH)
    return {
        name if not part else f"{name}.{part + 1}": text[start : start + TAG_LENGTH]
        for part, start in enumerate(starts)
    }


def in_one(name: str, tags: Mapping[str, str]) -> str:
    """The text that `in_parts` has cut; empty if there is none."""
    names = itertools.chain([name], (f"{name}.{part}" for part in itertools.count(2)))
    return "".join(itertools.takewhile(bool, (tags.get(key, "") for key in names)))


def _is_part(key: str) -> bool:
    name, _, number = key.rpartition(".")
    return name in (ROW, EPOCHS, STUDY) and number.isdecimal()


def new_values(values: Sequence[MetricValue], last_steps: Mapping[str, int]) -> list[MetricValue]:
    """The values that a run lacks, ordered by step, one for each metric and step."""
    missing = {
        (value.step, value.key): value
        for value in values
        if value.step > last_steps.get(value.key, -1)
    }
    return [missing[key] for key in sorted(missing)]
