"""A trial and its id: a hash of what determines its outcome, the ids it builds on included."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ablate.config import Config

TRAINING = "ablate.train.loop:Training"
FORMAT = 1  # of the identity itself: raising it makes every trial a new one


@dataclass(frozen=True)
class Parent:
    """A trial that another one builds on, and as what: "start" (weights), "member" (ensemble)."""

    role: str
    id: str


@dataclass(frozen=True, kw_only=True)
class Trial:
    """One trial of a plan. The first part determines its outcome; the labels do not."""

    id: str
    values: Mapping[str, Any]
    seed: int
    corpus_digest: str
    parents: tuple[Parent, ...] = ()
    threads: int = 1
    device: str = "cpu"
    precision: str = "float32"
    reads_test: bool = True
    runner: str = TRAINING
    modules: tuple[str, ...] = ()  # files that register a study's own techniques
    study: str = ""
    scale: str = ""
    arm: str = ""
    stage: str = "train"  # train, finetune, search, confirm, ensemble, ...
    keep: str = "weights"  # of its checkpoint when it is done: "weights" or "nothing"
    tags: Mapping[str, str] = field(default_factory=dict)

    def to_plain(self) -> dict[str, Any]:
        """The trial as plain data for JSON."""
        return dataclasses.asdict(self)

    @staticmethod
    def from_plain(data: Mapping[str, Any]) -> Trial:
        parents = tuple(Parent(**parent) for parent in data["parents"])
        return Trial(**{**data, "parents": parents, "modules": tuple(data["modules"])})

    def parent_ids(self, role: str | None = None) -> list[str]:
        return [parent.id for parent in self.parents if role in (None, parent.role)]


def make_trial(
    config: Config,
    *,
    values: Mapping[str, Any],
    seed: int,
    corpus_digest: str,
    parents: tuple[Parent, ...] = (),
    threads: int = 1,
    device: str = "cpu",
    precision: str = "float32",
    reads_test: bool = True,
    runner: str = TRAINING,
    **labels: Any,
) -> Trial:
    """A trial with the id that its outcome determines."""
    determining = {
        "format": FORMAT,
        "config": config.identity,
        "seed": seed,
        "corpus": corpus_digest,
        "parents": [[parent.role, parent.id] for parent in parents],
        "threads": threads,
        "device": device,
        "precision": precision,
        "test": reads_test,
        "runner": runner,
    }
    return Trial(
        id=digest(determining),
        values=dict(values),
        seed=seed,
        corpus_digest=corpus_digest,
        parents=parents,
        threads=threads,
        device=device,
        precision=precision,
        reads_test=reads_test,
        runner=runner,
        **labels,
    )


def digest(data: Any) -> str:
    """Sixteen hexadecimal digits of plain data's SHA-256."""
    text = json.dumps(data, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()[:16]
