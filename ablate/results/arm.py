"""An arm's results: frozen data from which tables and the mirror's rows are made.

"The table's unit" is what people read of the metric that decides: perplexity, accuracy in %.
Losses are on that metric's scale, and lower is better for any metric: nats, accuracy below 0.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ablate.config.metrics import Metric
from ablate.store.outcome import TEXT
from ablate.store.replication import MIN_PAIRS


@dataclass(frozen=True, kw_only=True)
class Counts:
    """How many of an arm's final trials completed, and the rest by reason."""

    planned: int
    completed: int = 0
    diverged: int = 0
    failed: int = 0
    raised: int = 0  # of those that failed: by their own code
    pruned: int = 0
    missing: int = 0  # not run yet, or not finished
    at_floor: int = 0  # of those that completed: a value of 0 on a scale of logarithms

    @property
    def whole(self) -> bool:
        """Return whether every planned result is there."""
        return self.completed == self.planned

    @property
    def selected(self) -> bool:
        """Return whether the values that are left were selected by how good they are."""
        return self.diverged + self.pruned + self.raised + self.at_floor > 0


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
class Measured:
    """An arm's results in one metric; each mapping is by split (or `metric.of`)."""

    metric: Metric
    losses: Mapping[str, Mapping[int, float]]  # split -> seed index -> loss
    cells: Mapping[str, Cell]  # a split without a value has none
    lost: Mapping[str, int]  # split -> results that are missing: to run, failed, not a number
    published: Mapping[str, float]  # only at a scale that is comparable with them


@dataclass(frozen=True, kw_only=True)
class ArmResult:
    """Everything that a study's trials say about an arm."""

    name: str
    is_base: bool
    num_parameters: int | None
    counts: Counts
    measured: Measured  # of the metric that decides
    tokens: int  # trained on: mean over completed final trials, with all that each builds on
    seconds: float  # of the epochs of every trial of the arm, its search included
    trials: tuple[str, ...]  # the trials behind the cells
    values: Mapping[int, float]  # losses on the split that decides
    unmeasured: int = 0  # models of these trials that are planned to be measured, and are not yet
    against: str | None = None  # the arm it is compared with, if not the base arm
    together: bool = False  # all its seeds together give one result
    fates: Mapping[int, str] = field(default_factory=dict)  # seed index -> what became of it
    stopped_at: int | None = None  # the pairs at which a look decided it, if it trains no more
    others: tuple[Measured, ...] = ()  # of the study's columns
    # Seed index -> the deviations of its blocks; empty if they are unknown.
    by_block: Mapping[int, tuple[float, ...]] = field(default_factory=dict)
    blocks_of: str = ""  # item, cluster, or TEXT
    # Of a seed, with all that it builds on: means over completed final trials.
    operations: float | None = None  # of training, estimated; None: not known of every trial
    seconds_a_seed: float = 0.0  # of epochs

    @property
    def whole(self) -> bool:
        """Return whether every planned result is there, and every model measured."""
        return self.counts.whole and not self.unmeasured

    @property
    def is_alone(self) -> bool:
        """Return whether items of one training are all that repeats the result, and stand for it.
        A text does not: a study is about its arms, and not about one training of each."""
        return self.counts.planned == 1 and self.blocks_of not in ("", TEXT)

    @property
    def is_tested(self) -> bool:
        """Return whether the arm will have enough results for a test. An arm with one result for
        all seeds has them if several searches tuned it."""
        return not self.is_base and (not self.together or self.counts.planned >= MIN_PAIRS)

    @property
    def every(self) -> tuple[Measured, ...]:
        """What decides, then the columns."""
        return (self.measured, *self.others)

    @property
    def cells(self) -> Mapping[str, Cell]:
        """The cells of the metric that decides, by split."""
        return self.measured.cells

    @property
    def losses(self) -> Mapping[str, Mapping[int, float]]:
        """The losses in the metric that decides, by split and seed."""
        return self.measured.losses

    @property
    def published(self) -> Mapping[str, float]:
        """The published numbers of the metric that decides, by split."""
        return self.measured.published


@dataclass(frozen=True, kw_only=True)
class EnsembleResult:
    """An ensemble: one number, below the table; it has no seeds to spread over."""

    arm: str
    trial: str
    num_members: int
    status: str
    cells: Mapping[str, Cell]
