"""What a study's plan was before its first result, and the arms that ever had one.

    plans/<key>/plan.json     written once; never again after a result
    plans/<key>/arms.json     the digest of each arm that had a result, with its name
    plans/<question>.json     the keys of the question's plans, in the order of their first results

The key is a digest of the question, the corpus, the base arm's config and the first seed: a scale
of another name, or a study's file of another name, has the same plan. The question's key leaves the
base out: a base that was an arm under another plan may have been chosen for its results.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ablate.config import typed
from ablate.store.store import Store, damaged


@dataclass(frozen=True, kw_only=True)
class StatedPlan:
    """A plan as it was stated."""

    study: str  # its name at its scale
    question: str
    base_arm: str
    arms: Mapping[str, str]  # the digest of each arm's config, by name
    metric: str
    margin: float | None
    looks: tuple[int, ...]  # the last one is the planned number of pairs
    unit: str  # what a pair is
    alpha: float
    num_seeds: int
    first_seed: int
    searches: tuple[int, ...]  # the trials of each search of an arm
    corpus_digest: str
    file_digest: str  # of the study's file
    time: str
    results_before: int = 0  # of other arms than the base arm, that were there already
    registered: bool = False  # by hand: not replaced, even if there is no result yet

    @property
    def hash(self) -> str:
        """The SHA-256 of what was stated, which can be dated elsewhere."""
        text = json.dumps(dataclasses.asdict(self), sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()


@dataclass(frozen=True, kw_only=True)
class KeptPlan:
    """How a study compares with its plan, as its record has it."""

    time: str  # when the plan was stated
    hash: str
    looks: tuple[int, ...]  # that were planned
    results_before: int = 0
    left_out: tuple[str, ...] = ()  # arms that had results, and are no longer in the study
    changes: tuple[str, ...] = ()  # since the first result, each in words
    new_margin: bool = False  # it was added or changed since the first result
    other_pairs: int = 0  # of arms with results that are not in the table, as the base was chosen
    as_planned: bool = True  # whether the planned test may decide

    @property
    def is_whole(self) -> bool:
        """Return whether it was stated before the results, and nothing has changed since."""
        return not (self.results_before or self.changes)

    @property
    def tested_elsewhere(self) -> int:
        """How many comparisons count that are not in the table."""
        return self.other_pairs or len(self.left_out)

    def __str__(self) -> str:
        """The line of a table."""
        day, changes = self.time[:10], "; ".join(self.changes)
        if self.results_before:
            many = f"{self.results_before} result" + "s" * (self.results_before > 1)
            more = f"; {changes}" if changes else ""
            return f"Planned on {day}, when {many} of its arms were already there{more}."
        if not self.changes:
            return f"As planned on {day}."
        return f"Changed since the first result: {changes}."


@dataclass(frozen=True)
class PlansOf:
    """The plan of one question in a store."""

    store: Store
    key: str
    question: str  # the key of all plans of this question
    _known: dict[str, str] = field(default_factory=dict, compare=False)

    def read(self) -> StatedPlan | None:
        """Return the plan; None if none was stated."""
        return self._read("plan.json", StatedPlan)

    def write(self, plan: StatedPlan) -> None:
        """State the plan."""
        self.store.write_json(self._path("plan.json"), dataclasses.asdict(plan))

    def arms(self) -> dict[str, str]:
        """Return the names of the arms that ever had a result, by their digests."""
        path = self._path("arms.json")
        known: Any = self.store.read_json(path) or {}
        if not all(isinstance(name, str) for name in known.values()):
            raise damaged(self.store, path, "an arm's name is no text")
        return known

    def before(self) -> list[PlansOf]:
        """Return the plans of the question that had results before this one had any."""
        keys = self._of_question()
        own = keys.index(self.key) if self.key in keys else len(keys)
        return [PlansOf(self.store, key, self.question) for key in keys[:own]]

    def _of_question(self) -> list[str]:
        path = f"plans/{self.question}.json"
        keys: Any = (self.store.read_json(path) or {}).get("plans", [])
        if not (isinstance(keys, list) and all(isinstance(key, str) for key in keys)):
            raise damaged(self.store, path, "a plan's key is no text")
        return keys

    def note(self, arms: Mapping[str, str]) -> None:
        """Note the arms, by digest, that have a result now."""
        if arms.items() <= self._known.items():
            return
        self._known.update(self.arms() | {**arms})
        self.store.write_json(self._path("arms.json"), self._known)
        if self.key not in (keys := self._of_question()):
            self.store.write_json(f"plans/{self.question}.json", {"plans": [*keys, self.key]})

    def _path(self, name: str) -> str:
        return f"plans/{self.key}/{name}"

    def _read(self, name: str, kind: type) -> Any:
        path = self._path(name)
        plain = self.store.read_json(path)
        if plain is None:
            return None
        try:
            return typed.read(kind, plain)
        except ValueError as error:
            raise damaged(self.store, path, str(error)) from error
