"""What is said to a tracking server, whichever kind it is: "make this run look so".

A server is given whole wishes (`Run`), which it may get twice or after a crash in the middle: it
makes the run if it is not there, adds what is missing, and ends with the status. What was said
before is never said twice: a metric's point belongs to its step, once.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from ablate.errors import RecordError

RUNNING, FINISHED, FAILED, KILLED = "RUNNING", "FINISHED", "FAILED", "KILLED"
TRIAL, STUDY_RUN, HOME = "ablate.trial", "ablate.study_run", "ablate.study_key"
MARK = "ablate.mark"  # what of the journal the run shows
RUN_NAME, PARENT_RUN, NOTE = "mlflow.runName", "mlflow.parentRunId", "mlflow.note.content"


class Away(RecordError):
    """The server does not answer, or cannot write now: later it may."""


class Refused(RecordError):
    """The server answers, and does not take this: trying again will not help."""


@dataclass(frozen=True)
class Point:
    """One value of a metric. A metric has at most one at a step."""

    key: str
    value: float
    timestamp: int  # milliseconds
    step: int


@dataclass(frozen=True, kw_only=True)
class Run:
    """How a run should look. `identity` is the tag by which it is found, on the whole server."""

    identity: tuple[str, str]
    status: str
    start: int  # milliseconds
    end: int | None
    home: Mapping[
        str, str
    ]  # tags where the run lives with the study that wishes it, HOME among them
    guest: Mapping[str, str] = field(default_factory=dict)  # tags where it lives with another
    tags: Mapping[str, str] = field(default_factory=dict)
    params: Mapping[str, str] = field(default_factory=dict)
    points: Sequence[Point] = ()
    artifacts: Mapping[str, bytes] = field(default_factory=dict)

    def all_tags(self, found: Mapping[str, str] | None) -> dict[str, str]:
        """The tags to have, given those of the run that is there (None: there is none yet)."""
        at_home = found is None or found.get(HOME, self.home[HOME]) == self.home[HOME]
        return {**self.tags, **(self.home if at_home else self.guest)}


@dataclass(frozen=True)
class Placed:
    """Where a run is."""

    run_id: str
    experiment_id: str
    home: str  # the study it lives with
    created: bool


class Tracking(Protocol):
    """A place for records. Raises `Away` or `Refused`, and nothing else of its own."""

    def open_experiment(self, name: str, tags: Mapping[str, str]) -> str:
        """The id of the experiment of that name; it is made where there is none."""
        ...

    def put(self, experiment_id: str, run: Run) -> Placed:
        """Make the run look so."""
        ...

    def running(self, experiment_id: str) -> Collection[str]:
        """The trials of an experiment whose runs are said to be running."""
        ...

    def settle(self) -> None:
        """Clear up what calls without an answer may have left."""
        ...


def new_points(points: Sequence[Point], last_steps: Mapping[str, int]) -> list[Point]:
    """The points that a run lacks, in the order of their steps, one for each metric and step."""
    lacking = {
        (point.step, point.key): point
        for point in points
        if point.step > last_steps.get(point.key, -1)
    }
    return [lacking[place] for place in sorted(lacking)]
