"""One start of a trial: where, with which code, from which epoch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from ablate.config import typed

Git = Mapping[str, Any]  # {"commit": ..., "dirty": ...}


@dataclass(frozen=True, kw_only=True)
class Kept:
    """What the epochs of a loop share, and nothing saves."""

    where: str  # the loop's file and line
    names: tuple[str, ...]  # of variables


@dataclass(frozen=True, kw_only=True)
class Attempt:
    """An attempt as its journal has it. A part that is None was not recorded, or does not apply."""

    started: str | None = None  # UTC
    epochs_before: int = 0  # that the trial had finished
    from_epoch: int = 0  # from which it resumes; 0: from the beginning
    pid: int | None = None
    host: str | None = None
    platform: str | None = None
    python: str | None = None
    cores: int | None = None
    hardware: str | None = None
    processor: str | None = None  # its name, family, model and instruction sets
    kernels: str | None = None  # the digest of the sources of ablate's kernels
    versions: Mapping[str, Any] | None = None  # package -> version
    git: Git | None = None  # of the study's folder; None also outside of a checkout
    ablate_git: Git | None = None
    computed_by: tuple[str, ...] | None = None  # "kernels: g++ 12.2", "torch: WHY"
    processes: int | None = None  # that trained it together; None: one
    not_compiled: str | None = None  # why training was eager although it should be compiled
    sources: Mapping[str, Any] | None = None  # older records' `closure`: the user's file -> digest
    # What its numbers come from besides its id, by kind: `ablate/trial/provenance/closure.py`.
    closure: Mapping[str, Mapping[str, Any]] | None = None
    neutral: tuple[str, ...] | None = None  # settings that cannot change a result
    operations: float | None = None  # estimated, per training token, without the optimizer
    without_effect: tuple[str, ...] | None = None  # settings with nothing to act on
    kept_outside: Kept | None = None
    output: tuple[str, ...] | None = None  # the last lines that a task printed
    discarded: str | None = None  # why a checkpoint was not used
    lost_digest: str | None = None  # of lost weights, for which the trial runs again; "": unknown
    others: Mapping[str, Any] = field(default_factory=dict)  # what another version recorded

    @property
    def code(self) -> Mapping[str, Any]:
        """The user's files that it ran, with their digests."""
        return (self.closure or {}).get("code") or self.sources or {}

    @property
    def inputs(self) -> list[str]:
        """What else the user's code read: packages, files, variables and values, as texts."""
        parts = ((part, sorted(own.items())) for part, own in (self.closure or {}).items())
        return [
            f"{'$' if part == 'variables' else ''}{name} {digest or 'without a digest'}"
            for part, items in parts
            for name, digest in items
            if part != "code"
        ]

    def to_plain(self) -> dict[str, Any]:
        """The attempt for JSON. Of a known machine, what is not under git says so."""
        parts = {name: getattr(self, name) for name in NAMES}
        plain = {n: [*part] if isinstance(part, tuple) else part for n, part in parts.items()}
        if (kept := self.kept_outside) is not None:
            plain["kept_outside"] = {"where": kept.where, "names": [*kept.names]}
        known = ("git", "ablate_git") if self.versions is not None else ()
        return {n: v for n, v in plain.items() if v is not None or n in known} | {**self.others}

    @staticmethod
    def from_plain(plain: Mapping[str, Any]) -> Attempt:
        """Read an attempt; facts of another version are kept in `others`."""
        known = {name: plain[name] for name in NAMES if name in plain}
        others = {name: value for name, value in plain.items() if name not in NAMES}
        return typed.read(Attempt, {**known, "others": others})


NAMES = tuple(part.name for part in fields(Attempt) if part.name != "others")
