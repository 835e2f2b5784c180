"""What a table is made of: frozen data between `summary.summarise` and what shows it.

"The table's unit" is what people read of the metric that decides: perplexity, accuracy in %.
Losses are on its scale, and lower is better whichever it is: nats, accuracy below 0.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ablate.compare.statistics.paired import HIGHER, LOWER, MIN_PAIRS, Difference
from ablate.compare.statistics.replication import Replication
from ablate.config.metrics import Metric
from ablate.store.study_record import StudyRecord


@dataclass(frozen=True, kw_only=True)
class Counts:
    """How many of an arm's final trials completed, and the rest by reason."""

    planned: int
    completed: int = 0
    diverged: int = 0
    failed: int = 0
    pruned: int = 0
    missing: int = 0  # not run yet, or not finished

    @property
    def whole(self) -> bool:
        return self.completed == self.planned

    @property
    def selected(self) -> bool:
        """Return whether the values that are left were selected by how good they are."""
        return self.diverged + self.pruned > 0


@dataclass(frozen=True, kw_only=True)
class Cell:
    """One arm on one split, in the table's unit. `spread`: over seeds; None for one value."""

    mean: float
    spread: float | None
    num: int
    loss: float  # mean over seeds
    above_floor: float | None = None  # loss above the best possible
    floor_ratio: float | None = None  # the mean over the floor, both in the table's unit


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """A difference and its verdict. `delta` and `interval`: in the table's unit."""

    difference: Difference  # of losses: below 0 is better
    delta: float
    interval: tuple[float, float] | None
    is_cut: bool  # the interval, at the end of what the metric can be
    p_holm: float | None
    verdict: str  # lower, higher, undecided; or no verdict, if the table cannot give one
    reason: str = ""  # why it is undecided, if not because of the test
    more: int | None = None  # pairs; None where decided, where no number would do, or unknown
    directed: bool = True  # one direction is better

    @property
    def decided(self) -> bool:
        return self.verdict in (LOWER, HIGHER)

    @property
    def helps(self) -> bool | None:
        """Return whether it is decided to be better, or worse; None if neither is."""
        return self.difference.mean < 0 if self.decided and self.directed else None


@dataclass(frozen=True, kw_only=True)
class Measured:
    """What an arm's trials give of one metric; each mapping is by split (or `metric.of`)."""

    metric: Metric
    losses: Mapping[str, Mapping[int, float]]  # split -> seed index -> loss
    cells: Mapping[str, Cell]  # a split without a value has none
    published: Mapping[str, float]  # only at a scale that is comparable with them


@dataclass(frozen=True, kw_only=True)
class ArmSummary:
    """A row of the table."""

    name: str
    is_base: bool
    num_parameters: int | None
    counts: Counts
    measured: Measured  # of the metric that decides
    tokens: int  # trained on: mean over completed final trials, those each builds on included
    seconds: float  # of the epochs of every trial of the arm, its search included
    trials: tuple[str, ...]  # the trials behind the cells
    values: Mapping[int, float]  # losses on the split that decides
    unmeasured: int = 0  # of these trials' models, that are planned to be measured
    against: str | None = None  # the arm it is compared with, if not the base arm
    together: bool = False  # all its seeds together give one result
    comparison: Comparison | None = None
    best: bool = False  # better than every other arm, and the corrected test says so
    others: tuple[Measured, ...] = ()  # of the study's columns

    @property
    def whole(self) -> bool:
        return self.counts.whole and not self.unmeasured

    @property
    def is_tested(self) -> bool:
        """Return whether it will have as many results as a test needs, as one of several
        searches of an ensemble may."""
        return not self.is_base and (not self.together or self.counts.planned >= MIN_PAIRS)

    @property
    def every(self) -> tuple[Measured, ...]:
        """What decides, then the columns."""
        return (self.measured, *self.others)

    @property
    def cells(self) -> Mapping[str, Cell]:
        return self.measured.cells

    @property
    def losses(self) -> Mapping[str, Mapping[int, float]]:
        return self.measured.losses

    @property
    def published(self) -> Mapping[str, float]:
        return self.measured.published


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
    replication: Replication
    metric: Metric
    split: str  # the one that decides
    alpha: float
    floor: Mapping[str, float]  # split -> best possible, in the table's unit
    arms: tuple[ArmSummary, ...]
    seconds: float  # of the epochs of every trial; one that arms share counts once
    ensembles: tuple[EnsembleSummary, ...] = ()
    notes: tuple[str, ...] = ()  # what a reader must know about this very table
    effects: Effects | None = None  # of a factorial's factors
    # (arm, metric, split) -> the verdict on the published number.
    verdicts: Mapping[tuple[str, str, str], str] = field(default_factory=dict)

    @property
    def unit(self) -> str:
        """What the table shows: `perplexity`."""
        return self.metric.shown

    @property
    def whole(self) -> bool:
        return all(arm.whole for arm in self.arms)

    @property
    def num_comparisons(self) -> int:
        """How many arms are compared, or will be when they have results."""
        tested = sum(arm.is_tested for arm in self.arms)
        return tested if any(arm.is_base for arm in self.arms) else 0

    @property
    def elsewhere(self) -> dict[str, str]:
        """The arms that are compared with another arm than the base arm, and with which."""
        return {
            arm.name: arm.against
            for arm in self.arms
            if arm.comparison and arm.against not in (None, self.record.base_arm)
        }

    def arm(self, name: str) -> ArmSummary:
        return next(arm for arm in self.arms if arm.name == name)


@dataclass(frozen=True, kw_only=True)
class Effect(Comparison):
    """One contrast. `delta` and `interval` are taken at the mean over the design."""

    name: str
    kind: str  # main, interaction, simple
    aliases: tuple[str, ...]  # other names of the same number

    @property
    def names(self) -> str:
        return " = ".join([self.name, *self.aliases])


@dataclass(frozen=True, kw_only=True)
class Effects:
    """The results of a factorial beyond its arms."""

    effects: tuple[Effect, ...] = ()  # main effects, then interactions: one family
    simple: tuple[Effect, ...] = ()  # within the interactions that are decided: another
    readings: tuple[str, ...] = ()  # those in words
    notes: tuple[str, ...] = ()

    @property
    def every(self) -> tuple[Effect, ...]:
        return (*self.effects, *self.simple)
