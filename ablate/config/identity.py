"""A trial and its id: a hash of all that determines its outcome, including its parents' ids."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from typing import Any

from ablate.config import typed
from ablate.config.config import Config
from ablate.config.resolve import resolve
from ablate.config.tasks import TRAINING, name_in_id, runner_name

FORMAT = 1  # version of the identity itself: raising it gives every trial a new id


class StageName(StrEnum):
    """The stages that are the same in every study; others have the names that a study gives."""

    TRAIN = "train"
    SEARCH = "search"
    ENSEMBLE = "ensemble"
    MEASURE = "measure"


class Role(StrEnum):
    """The role of a trial in one that builds on it."""

    START = "start"  # its weights are where training starts
    MEMBER = "member"  # it is evaluated, alone or with others
    BASE = "base"  # a gate is trained over it


class Keep(StrEnum):
    """The part of a trial's checkpoint that is stored when it is done."""

    WEIGHTS = "weights"
    NOTHING = "nothing"


@dataclass(frozen=True)
class Parent:
    """A trial that another one builds on, and its `Role` there."""

    role: str
    id: str


OFF = "off"
SAMPLED = "sampled"  # the tag of a search's trial that says which values it tries


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
    compile: str = OFF  # how torch compiles training: recorded like kernels, and in no id
    modules: tuple[str, ...] = ()  # files that register custom techniques of the study
    study: str = ""
    scale: str = ""
    arm: str = ""
    stage: str = StageName.TRAIN
    keep: str = Keep.WEIGHTS  # what remains of its checkpoint at the end
    tags: Mapping[str, str] = field(default_factory=dict)

    @cached_property
    def config(self) -> Config:
        """Its values, resolved once; the files that it names in `modules` are loaded before."""
        return resolve(self.values)

    @property
    def name(self) -> str:
        """The trial's name for people: arm and seed, or a search's settings."""
        if SAMPLED in self.tags:
            return f"{self.arm} {self.stage} ({self.tags[SAMPLED]})"
        return trial_name(self.arm, self.stage, self.seed) if self.arm else self.id

    def to_plain(self) -> dict[str, Any]:
        """Return the trial as plain data for JSON, as older versions wrote it if it can be."""
        plain = dataclasses.asdict(self)
        return plain if self.compile != OFF else {n: v for n, v in plain.items() if n != "compile"}

    @staticmethod
    def from_plain(data: Mapping[str, Any]) -> Trial:
        """The trial in plain data; a runner may have the name that older versions gave it."""
        trial = typed.read(Trial, data)
        runner = runner_name(trial.runner)
        return trial if runner == trial.runner else dataclasses.replace(trial, runner=runner)

    def parent_ids(self, role: str | None = None) -> list[str]:
        """Return the ids of the trials that this one builds on, of a role or of all."""
        return [parent.id for parent in self.parents if role in (None, parent.role)]


def trial_name(arm: str, stage: str, seed: int) -> str:
    """Return the name of a trial as people read it: `doc finetune seed 2`."""
    return f"{arm}{'' if stage == StageName.TRAIN else f' {stage}'} seed {seed}"


def make_trial(
    config: Config, *, values: Mapping[str, Any], runner: str | None = None, **fields: Any
) -> Trial:
    """Create a trial, with the id that follows from what determines its outcome.

    `config` is `values`, resolved; `fields` are other fields of `Trial`. Without a
    `runner`, that of the kind of task is taken.
    """
    runner = runner or config.kind.runner
    draft = Trial(id="", values=dict(values), runner=runner, **fields)
    trial = dataclasses.replace(draft, id=digest(_determining(draft, config)))
    vars(trial)["config"] = config
    return trial


def is_as_planned(trial: Trial) -> bool:
    """Return whether what determines the outcome, such as the contents of files, is unchanged."""
    return digest(_determining(trial, trial.config)) == trial.id


def _determining(trial: Trial, config: Config) -> dict[str, Any]:
    """Everything that determines the trial's outcome, as ids hash it."""
    return {
        "format": FORMAT,
        "config": config.identity,
        "seed": trial.seed,
        "corpus": trial.corpus_digest,
        "parents": [[parent.role, parent.id] for parent in trial.parents],
        "threads": trial.threads,
        "device": trial.device,
        "precision": trial.precision,
        "test": trial.reads_test,
        "runner": name_in_id(trial.runner),
    }


def digest(data: Any) -> str:
    """Return the first 16 hexadecimal digits of the SHA-256 of plain data."""
    text = json.dumps(data, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()[:16]
