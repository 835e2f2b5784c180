"""Runs as plain data: what a tracking server is given.

A server is given whole descriptions of runs (`RunToWrite`), perhaps twice or after a crash in the
middle: it creates the run if there is none, adds what is missing, and sets the status last. Nothing
is recorded twice: a metric has one value per step.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ablate.errors import RecordError
from ablate.results.facts import HOME, REASON, TRIAL

RUNNING, FINISHED, FAILED, KILLED = "RUNNING", "FINISHED", "FAILED", "KILLED"
ALSO_IN = "ablate.also_in."  # prefix of the tag that shares a trial with another study
ARM_RUN = "ablate.arm_run"  # the tag of the run of an arm of a study
MARK = "ablate.mark"  # how much of the journal the run shows
RUN_NAME, PARENT_RUN, NOTE = "mlflow.runName", "mlflow.parentRunId", "mlflow.note.content"
FINAL, NUM_PARAMETERS = "final_", "num_parameters"  # metrics that are not of an epoch
LARGEST = 1.7976931348623157e308  # what MLflow stores for infinity


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


@dataclass(frozen=True)
class Dataset:
    """The data that a run read: MLflow shows it as the run's dataset."""

    name: str
    digest: str

    @property
    def source(self) -> str:
        """Where it is from, as MLflow stores it."""
        return json.dumps({"uri": self.name})


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
    dataset: Dataset | None = None

    @property
    def restarts(self) -> bool:
        """Return whether a later start means that it is done again; a study's run goes on."""
        return self.identity[0] == TRIAL

    def all_tags(self, existing: Mapping[str, str] | None) -> dict[str, str]:
        """The tags to set, given the tags of the existing run (None if there is none yet).

        A reason that an earlier attempt failed for is emptied.
        """
        at_home = existing is None or existing.get(HOME, self.home[HOME]) == self.home[HOME]
        outdated = {key: "" for key in (REASON, NOTE) if (existing or {}).get(key)}
        return {**outdated, **self.tags, **(self.home if at_home else self.guest)}


@dataclass(frozen=True)
class RunLocation:
    """Where a run is stored."""

    run_id: str
    experiment_id: str
    home: str  # the study it belongs to
    created: bool


@dataclass(frozen=True)
class Recorded:
    """What a server has of a trial or an arm: its run's id and status, and at least the tags that
    say how much the run shows, and to which studies it belongs."""

    run_id: str
    status: str
    tags: dict[str, str]


def new_values(values: Sequence[MetricValue], last_steps: Mapping[str, int]) -> list[MetricValue]:
    """The values that a run lacks, ordered by step, one for each metric and step."""
    missing = {
        (value.step, value.key): value
        for value in values
        if value.step > last_steps.get(value.key, -1)
    }
    return [missing[key] for key in sorted(missing)]
