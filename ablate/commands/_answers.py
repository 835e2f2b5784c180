"""What commands answer with `--format json`, as frozen data; their texts are made of the same.

`_schema.py` makes the schemas of docs/schemas from these classes. A field may be added to an
answer; none is renamed or taken away without a line in the changelog.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, kw_only=True)
class Counts:
    """How many trials are in each state."""

    completed: int
    running: int
    pruned: int
    diverged: int
    failed: int
    left: int
    in_all: int


@dataclass(frozen=True, kw_only=True)
class ArmStatus:
    """The trials of one arm."""

    arm: str
    counts: Counts


@dataclass(frozen=True, kw_only=True)
class Trouble:
    """A trial that failed, diverged, or had to be started again."""

    trial: str
    name: str
    status: str | None
    attempts: int
    reason: str | None


@dataclass(frozen=True, kw_only=True)
class StudyStatus:
    """The progress of one study. `troubles`: null where no study was named."""

    study: str
    question: str
    driver: str | None
    resume: str
    imported: str
    looks: str
    counts: Counts
    arms: tuple[ArmStatus, ...]
    troubles: tuple[Trouble, ...] | None


@dataclass(frozen=True, kw_only=True)
class Status:
    """`ablate status`."""

    studies: tuple[StudyStatus, ...]


@dataclass(frozen=True, kw_only=True)
class ArmPlan:
    """What a study trains of one arm. `trials`: stage -> their number."""

    arm: str
    parameters: int | None
    trials: Mapping[str, int]
    done: int
    planned: int


@dataclass(frozen=True, kw_only=True)
class Plan:
    """`ablate plan`. `seconds_left`: null where no trial tells how long one takes."""

    study: str
    question: str
    corpus: str
    base_arm: str
    first_seed: int
    num_seeds: int
    threads: int
    arms: tuple[ArmPlan, ...]
    trials: int
    done: int
    left: int
    left_is_at_most: bool  # a search or a look may leave some out
    training_tokens_left: float | None
    seconds_left: float | None
    workers: int
    notes: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class SpaceRow:
    """A row of a search space. `by_corpus`: corpus -> values, where they differ."""

    name: str
    field: str | None
    values: str | None
    by_corpus: Mapping[str, str]
    same_as: str | None
    condition: str
    description: str
    note: str
    source: str
    printed: bool


@dataclass(frozen=True, kw_only=True)
class OneSpace:
    """A search space. `rows`: null in the list of all spaces."""

    name: str
    origin: str
    tables: tuple[str, ...]
    open: bool
    broken: str
    num_rows: int
    rows: tuple[SpaceRow, ...] | None


@dataclass(frozen=True, kw_only=True)
class Spaces:
    """`ablate show spaces`."""

    spaces: tuple[OneSpace, ...]


@dataclass(frozen=True, kw_only=True)
class FieldOf:
    """A field that studies set."""

    name: str
    default: Any
    required: bool
    allowed: str
    doc: str


@dataclass(frozen=True, kw_only=True)
class OneTechnique:
    """A technique. In the list of all slots, only `slot` and `name` are known: the rest is null."""

    slot: str
    name: str
    doc: str | None = None
    source: str | None = None
    formula: str | None = None
    departures: tuple[str, ...] | None = None
    metrics: tuple[str, ...] | None = None
    fields: tuple[FieldOf, ...] | None = None


@dataclass(frozen=True, kw_only=True)
class OneSection:
    """A section of settings that are of no technique."""

    section: str
    tasks: tuple[str, ...]
    fields: tuple[FieldOf, ...]


@dataclass(frozen=True, kw_only=True)
class Components:
    """`ablate show components`."""

    techniques: tuple[OneTechnique, ...]
    sections: tuple[OneSection, ...]


@dataclass(frozen=True, kw_only=True)
class TableRow:
    """A row of `ablate table` and of `judge`: an arm, a metric and a split; for its schema alone.

    Differences are on the metric's scale: in nats (`delta_nats`), or `delta_scaled`.
    """

    study: str
    arm: str
    split: str
    unit: str
    mean: float | None
    spread: float | None
    seeds: int
    planned: int
    searches: int | None
    against: str | None
    pairs: int | None
    paired_by: str | None
    interval_of: str | None
    table_coverage: float | None
    p: float | None
    p_sign_flip: float | None
    p_holm: float | None
    num_better: int | None
    better_low: float | None
    better_high: float | None
    verdict: str | None
    reason: str | None
    within: str | None
    more: int | None
    best: bool
    published: float | None
    published_verdict: str | None
    num_parameters: int | None
    tokens: float | None
    operations: float | None
    seconds_a_seed: float | None
    holes: int
    table: str
    nats: float | None = None
    delta_nats: float | None = None
    low_nats: float | None = None
    high_nats: float | None = None
    table_low_nats: float | None = None
    table_high_nats: float | None = None
    detectable_nats: float | None = None
    scaled: float | None = None
    delta_scaled: float | None = None
    low_scaled: float | None = None
    high_scaled: float | None = None
    table_low_scaled: float | None = None
    table_high_scaled: float | None = None
    detectable_scaled: float | None = None


@dataclass(frozen=True, kw_only=True)
class Next:
    """What to run of an arm next. `more`: further seeds; null where none would help."""

    arm: str
    more: int | None
    why: str


@dataclass(frozen=True, kw_only=True)
class Judgement:
    """`ablate judge`."""

    study: str
    imported: str
    base_arm: str
    metric: str
    better: str
    looks: str
    comparisons: int  # corrected together, with those that a ledger knows
    answer: str  # what is decided, and what would decide the rest
    arms: tuple[Mapping[str, Any], ...] = field(metadata={"rows": TableRow})
    next: tuple[Next, ...]
    notes: tuple[str, ...]
