"""What is read back from a server: a run as plain data, and what tells whether it has changed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from ablate.record.tracking import STUDY_RUN, TRIAL

ALSO_IN = "ablate.also_in."  # begins the tag by which another study shares a trial
FINAL, NUM_PARAMETERS = "final_", "num_parameters"


@dataclass(frozen=True)
class Record:
    """One run: its tags and params as text, its last numbers, and its numbers by step."""

    run_id: str
    start: int | None  # milliseconds
    end: int | None
    tags: Mapping[str, str]
    params: Mapping[str, str]
    numbers: Mapping[str, float]
    steps: Iterable[Mapping[str, Any]] = field(default_factory=tuple)  # {"epoch": 1, name: number}
    study_json: str | None = None  # of a study's run: its record

    @property
    def is_trial(self) -> bool:
        return TRIAL in self.tags

    @property
    def is_study(self) -> bool:
        return STUDY_RUN in self.tags


@dataclass(frozen=True)
class Seen:
    """What of a run tells whether it has changed."""

    start: int
    signature: str


class Source(Protocol):
    """Where records are read. Raises `RecordError` where that fails."""

    def changes(self, known: Mapping[str, Seen]) -> tuple[dict[str, Seen], list[str]]:
        """The runs that are new or changed, as they are now, and those that are gone."""
        ...

    def read(self, run_ids: list[str]) -> Iterator[list[Record]]:
        """The records of these runs, a batch at a time."""
        ...

    def close(self) -> None: ...
