"""What is read back from a server: a run as plain data, and how to tell that it has changed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from ablate.record.tracking import STUDY_RUN, TRIAL

ALSO_IN = "ablate.also_in."  # prefix of the tag that shares a trial with another study
FINAL, NUM_PARAMETERS = "final_", "num_parameters"


@dataclass(frozen=True)
class Record:
    """One run: its tags and params as text, its last metrics, and its metrics by step."""

    run_id: str
    start: int | None  # milliseconds
    end: int | None
    tags: Mapping[str, str]
    params: Mapping[str, str]
    numbers: Mapping[str, float]
    steps: Iterable[Mapping[str, Any]] = field(default_factory=tuple)  # {"epoch": 1, name: number}
    study_json: str | None = None  # the study's record, if this is a study's run

    @property
    def is_trial(self) -> bool:
        return TRIAL in self.tags

    @property
    def is_study(self) -> bool:
        return STUDY_RUN in self.tags


@dataclass(frozen=True)
class Seen:
    """What is compared to tell whether a run has changed."""

    start: int
    signature: str


class Source(Protocol):
    """A database or server to read records from. Raises `RecordError` on failure."""

    def changes(self, known: Mapping[str, Seen]) -> tuple[dict[str, Seen], list[str]]:
        """Return the runs that are new or changed, in their current state, and the deleted ones."""
        ...

    def read(self, run_ids: list[str]) -> Iterator[list[Record]]:
        """Yield the records of these runs in batches."""
        ...

    def close(self) -> None: ...
