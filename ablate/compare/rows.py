"""What a table is made of: frozen data between `summary.summarise` and what renders it.

"The table's unit" is perplexity, or bits per character where the corpus is read by characters.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ablate.study_record import StudyRecord

if TYPE_CHECKING:  # what only looks at a summary does not wait for scipy
    from ablate.compare.effects import Effects
    from ablate.compare.statistics import Difference

SPLITS = ("valid", "test")


@dataclass(frozen=True, kw_only=True)
class Counts:
    """What became of an arm's final trials: n of N, and the rest by reason."""

    planned: int
    completed: int = 0
    diverged: int = 0
    failed: int = 0
    pruned: int = 0
    missing: int = 0  # not run yet, or not to the end

    @property
    def whole(self) -> bool:
        return self.completed == self.planned

    @property
    def selected(self) -> bool:
        """Whether the values that are left were selected by how well they went."""
        return self.diverged + self.pruned > 0


@dataclass(frozen=True, kw_only=True)
class Cell:
    """One arm on one split, in the table's unit. `spread`: over seeds; None for one value."""

    mean: float
    spread: float | None
    num: int
    nats: float  # mean over seeds of the mean nats a token
    above_floor: float | None = None  # nats above the best possible
    floor_ratio: float | None = None  # the mean over the floor, both in the table's unit


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """An arm against the base arm. `delta` and `interval`: in the table's unit, at the base."""

    difference: Difference  # in nats
    delta: float
    interval: tuple[float, float] | None
    p_holm: float | None
    verdict: str  # lower, higher, undecided
    reason: str = ""  # why it is undecided, where it is not for the test to say
    more_seeds: int | None = None  # None where decided, where no number would do, or unknown


@dataclass(frozen=True, kw_only=True)
class Cost:
    """Tokens trained on, and the seconds of the epochs."""

    tokens: int = 0
    seconds: float = 0.0


@dataclass(frozen=True, kw_only=True)
class ArmSummary:
    """A row of the table."""

    name: str
    is_base: bool
    num_parameters: int | None
    counts: Counts
    cells: Mapping[str, Cell]  # by split; a split without a value has none
    published: Mapping[str, float]  # by split; only at a scale that may be set beside them
    cost_of_one: Cost  # mean over completed final trials, those each builds on included
    cost_of_all: Cost  # every trial of the arm, its search included
    trials: tuple[str, ...]  # the trials behind the cells
    values: Mapping[int, float]  # seed index -> nats on the split that decides
    against: str | None = None  # the arm it is compared with, if another than the base arm
    comparison: Comparison | None = None
    best: bool = False  # lower than every other arm, and the corrected test says so


@dataclass(frozen=True, kw_only=True)
class EnsembleSummary:
    """An ensemble: one number, below the table; it has no seeds to spread over."""

    arm: str
    trial: str
    num_members: int
    status: str
    cells: Mapping[str, Cell]


@dataclass(frozen=True, kw_only=True)
class Summary:
    """All that a table shows."""

    record: StudyRecord
    unit: str
    split: str  # the one that decides
    alpha: float
    num_comparisons: int
    floor: Mapping[str, float]  # split -> best possible, in the table's unit
    arms: tuple[ArmSummary, ...]
    ensembles: tuple[EnsembleSummary, ...] = ()
    notes: tuple[str, ...] = ()  # what a reader must know about this very table
    effects: Effects | None = None  # of a factorial's factors
    verdicts: Mapping[tuple[str, str], str] = field(default_factory=dict)  # (arm, split): published

    @property
    def whole(self) -> bool:
        return all(arm.counts.whole for arm in self.arms)

    def arm(self, name: str) -> ArmSummary:
        return next(arm for arm in self.arms if arm.name == name)
