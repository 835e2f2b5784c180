"""A planned study, as data: its trials, its searches, and what follows a search."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ablate.config.config import Choice, Config
from ablate.config.data_source import DataConfig
from ablate.config.identity import Parent, Trial, digest
from ablate.config.registry import SAMPLER
from ablate.config.resolve import choice
from ablate.space.space import Space
from ablate.store.study_record import PlannedTrial, StudyRecord
from ablate.study.study import Study
from ablate.study.words import Inherit, Scale, Search, Values

REDUCTION = 3  # early stopping lets one in this many trials continue at each of its steps


@dataclass(frozen=True, kw_only=True)
class PlannedSearch:
    """One search of one arm: its starting values, the fixed ones among them, the sampler's seed."""

    arm: str
    repeat: int
    values: Values  # the arm's values, before the search
    fixed: Values  # those set by the arm or the scale: never searched, whatever the space contains
    space: Space
    words: Search
    seed: int
    parents: tuple[Parent, ...] = ()  # the finished model, in a search of how to evaluate it
    model: Mapping[str, int] = field(default_factory=dict)  # that model's seed and seed_index
    stage: str = "search"
    column: str = ""  # the column of the space, if it has columns
    inherits: Inherit | None = None
    left: Values = field(default_factory=dict)  # fixed because they tell the arms apart
    waits: bool = False  # until the search that it inherits from has a winner

    @property
    def sampler(self) -> Choice:
        """The technique that suggests values, with its options."""
        return choice(SAMPLER, self.words.sampler, self.words.options, f"search of {self.arm}")

    @property
    def key(self) -> str:
        """A name for the sampler's records that is the same for every equal search."""
        words, sampler = self.words, self.sampler.identity(by_window=False)
        how = [words.sampler, words.early_stopping, words.synchronous, words.batch, self.seed]
        # Hashed only if used, so that a search from before such a word keeps its key.
        how += [parent.id for parent in self.parents]
        how += [dict(words.rows)] if words.rows else []
        how += [list(self.inherits.over)] if self.inherits else []
        how += [dict(self.left)] if self.left else []
        stopping = {"early_stopping": (REDUCTION, words.min_epochs)}
        how += [stopping] if words.min_epochs > 1 else []
        how += [{"listed_first": True}] if words.listed_first else []
        # Names alone are what version 0.1.0 hashed.
        how += [] if sampler == {"name": words.sampler, "version": 1} else [{SAMPLER: sampler}]
        hashed = digest([dict(self.values), self.space.identity, dict(words.changes), *how])
        return f"{self.arm}/{self.repeat}/{hashed}"


@dataclass(frozen=True)
class Chains:
    """Trials for every seed of an arm, their roles in the study, and the searches that follow."""

    trials: tuple[Trial, ...]
    planned: tuple[PlannedTrial, ...]
    searches: tuple[PlannedSearch, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Plan:
    """A study at a scale, resolved: its trials as they are known before any of them runs."""

    study: Study
    scale_name: str
    scale: Scale
    record: StudyRecord
    configs: Mapping[str, Config]  # by arm, before any search
    trials: tuple[Trial, ...] = ()  # parents before their children
    searches: tuple[PlannedSearch, ...] = ()
    repeats: int = 1  # winners of another scale's searches that each listed arm takes over
    # What an arm reads, if it reads other tokens than the base arm.
    digests: Mapping[str, str] = field(default_factory=dict)

    def digest_of(self, arm: str) -> str:
        """Return the digest of what an arm's trials read."""
        return self.digests.get(arm, self.record.corpus_digest)

    @property
    def texts(self) -> dict[str, DataConfig | None]:
        """The sections on what trials read, by digest, the base arm's first."""
        arms = {self.study.base_arm: self.record.corpus_digest, **self.digests}
        return {digest: self.configs[arm].data for arm, digest in arms.items()}
