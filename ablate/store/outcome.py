"""How a trial ended, and the statuses that a trial can have."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from enum import StrEnum
from typing import Any

from ablate.config import typed
from ablate.redaction import redacted

TEXT = "text"  # of which runs of tokens have deviations


class Status(StrEnum):
    """A trial's status. Only the first four are outcomes."""

    COMPLETED = "completed"
    DIVERGED = "diverged"
    PRUNED = "pruned"  # stopped early by its search
    FAILED = "failed"
    RUNNING = "running"  # started, no outcome yet, and a driver runs its study
    INTERRUPTED = "interrupted"  # the same, but no driver runs its study
    LEFT = "left"  # to be run or resumed


# How the reason of a failure begins that the trial's own code did not cause. Journals of earlier
# versions and MLflow have no more than this text; every exception of a trial's code begins with
# its type, or with a place in a file.
NOT_ITS_OWN = re.compile(
    r"out of memory|\d+ workers died without|the worker process\b|its journal is missing"
    r"|process \d+ of \d+ |the trial \S+ that it builds on"
    r"|[^\n]*: the command was killed by SIG(KILL|TERM|INT|HUP)\b"
    r"|[^\n]*: the command ended with status \d+: (\S*OutOfMemoryError|MemoryError)\b"
)


def is_its_own(reason: str | None) -> bool:
    """Return whether a trial failed by its own code. Then it may have failed because of what its
    result would have been; out of memory, a killed process and a lost machine say nothing of that.
    """
    return NOT_ITS_OWN.match(reason or "") is None


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """How a trial ended. A part that is None is not in the journal's JSON."""

    status: Status
    metrics: Mapping[str, Any] = field(default_factory=dict)
    num_parameters: int | None = None
    digest: str | None = None  # of every bit of the weights
    reason: str | None = None  # why there is no result
    frames: str | None = None  # a traceback; only the user's own files if they are in it
    error: str | None = None  # the text of an out-of-memory error
    signatures: Mapping[str, str] | None = None  # of what computed a metric, by its name
    orphan_of: str | None = None  # the parent that did not complete
    seconds: float | None = None  # that an evaluation took, in all its attempts; epochs have theirs
    # By how much the loss of each item, cluster of items, or run of tokens of the test split is
    # above the trial's: their mean is 0.
    deviations: tuple[float, ...] | None = None
    deviations_of: str | None = None  # item, cluster, or TEXT

    def __post_init__(self) -> None:
        for part in ("reason", "frames", "error"):
            text = getattr(self, part)
            object.__setattr__(self, part, text and _encodable(redacted(text)))

    @property
    def cause(self) -> str:
        """Return what trials that failed for one reason have in common."""
        return self.frames or (self.reason or "").partition("\n")[0]

    def to_plain(self) -> dict[str, Any]:
        """Return the outcome as plain data, without its empty parts."""
        parts = {part.name: getattr(self, part.name) for part in fields(self)}
        return {name: value for name, value in parts.items() if value is not None}

    @staticmethod
    def from_plain(plain: Mapping[str, Any]) -> Outcome:
        """The outcome in a journal's JSON; unknown keys are ignored."""
        names = {part.name for part in fields(Outcome)}
        known = {name: value for name, value in plain.items() if name in names}
        return typed.read(Outcome, known)


def _encodable(text: str) -> str:
    """The text with `\\udcff` for what no file can hold, such as a byte of a strange file name."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")
