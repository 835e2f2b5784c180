"""The differences between what made a recorded trial and what would make the trial today.

A trial's id says that its settings, its data and its seed are the same. Compared here is the rest:
defaults, code, packages, files, variables and values. Older records have digests of files of code
alone, or nothing, and are compared by what they have.
"""

from __future__ import annotations

import hashlib
import platform
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from ablate.config.identity import Trial
from ablate.store.attempt import Attempt
from ablate.store.journal import Journal
from ablate.trial.provenance import closure as closures
from ablate.trial.provenance.closure import CODE, FILES, PACKAGES, VALUES, VARIABLES, Closure
from ablate.trial.provenance.opened import digest_of

Digests = Mapping[str, Any]


class Change(NamedTuple):
    """Something that a trial came from, and what has become of it."""

    name: str
    what: str

    def __str__(self) -> str:
        return f"{self.name} {self.what}"


class Changes:
    """Compares trials with today's code, of which what trials share is looked at once."""

    def __init__(self) -> None:
        self._today: dict[tuple[Any, ...], tuple[Closure, list[Path]]] = {}

    def since(self, trial: Trial, journal: Journal) -> list[Change]:
        """What has changed since a trial of this id was run, or was cut and can be resumed."""
        found = {*_settings(trial, journal)}
        for attempt in _that_count(journal.attempts):
            found.update(self._of(attempt, trial))
        return sorted(found)

    def _of(self, attempt: Attempt, trial: Trial) -> Iterator[Change]:
        if attempt.closure is None:
            yield from _sources(attempt.sources or {}, trial)
            return
        then, (today, folders) = attempt.closure, self._of_today(trial)
        yield from _code(then.get(CODE, {}), today.get(CODE, {}), folders)
        yield from _files(then.get(FILES, {}), folders)
        yield from _values(then.get(VALUES, {}), today.get(VALUES, {}))
        if attempt.host == platform.node():  # other hosts have packages and variables of their own
            yield from _packages(then.get(PACKAGES, {}), today.get(PACKAGES, {}))
            yield from _variables(then.get(VARIABLES, {}), today.get(VARIABLES, {}))

    def _of_today(self, trial: Trial) -> tuple[Closure, list[Path]]:
        """What such a trial would come from, and the folders of its files."""
        config = trial.config
        key = (config.kind.name, *((one.slot, one.name) for one in config.techniques))
        if key not in self._today:
            self._today[key] = closures.closure(trial), closures.folders(trial)
        return self._today[key]


def _that_count(attempts: Sequence[Attempt]) -> Sequence[Attempt]:
    """The attempts whose work is in the result: since the last that began at the beginning."""
    starts = [at for at, attempt in enumerate(attempts) if not attempt.from_epoch]
    return attempts[starts[-1] if starts else 0 :]


def _settings(trial: Trial, journal: Journal) -> Iterator[Change]:
    """The settings that differ though the ids agree: a default was changed."""
    for name, now in trial.config.deciding.items():
        if name in journal.config and journal.config[name] != now:
            yield Change(name, f"was {journal.config[name]!r}, and is {now!r}")


def _sources(then: Digests, trial: Trial) -> Iterator[Change]:
    """The files of an older record, which has digests of their bytes."""
    files = closures.entries(trial)
    today = {hashlib.sha256(file.read_bytes()).hexdigest()[:16] for file in files}
    names = {file.name for file in files}
    for name, digest in then.items():
        if digest not in today:
            yield Change(name, "was edited" if name in names else "does not register it now")


def _code(then: Digests, today: Digests, folders: Sequence[Path]) -> Iterator[Change]:
    """Files of code by what they say: one that was only renamed is the same."""
    changed = False
    for name, digest in then.items():
        now = today.get(name) or _digest_in(folders, name)
        if digest not in today.values() and digest != now:
            changed = True
            yield Change(name, "was edited" if now else "is not part of it now")
    for name in today if not changed else ():
        if today[name] not in then.values():
            yield Change(name, "is part of it now")


def _files(then: Digests, folders: Sequence[Path]) -> Iterator[Change]:
    for name, digest in then.items():
        if (now := _digest_in(folders, name)) != digest:
            yield Change(name, "was edited" if now else "is gone")


def _digest_in(folders: Sequence[Path], name: str) -> str | None:
    """The digest of a file beside the study, if it is there."""
    there = (folder / name for folder in folders if (folder / name).exists())
    file = next(there, None)
    return None if file is None else digest_of(file)


def _values(then: Digests, today: Digests) -> Iterator[Change]:
    for name, digest in then.items():
        if digest is None:
            yield Change(name, "cannot be compared: its value has no digest")
        elif name in today and today[name] != digest:
            yield Change(name, "has another value")


def _packages(then: Digests, today: Digests) -> Iterator[Change]:
    for name, version in then.items():
        if name in today and today[name] != version:
            yield Change(name, f"was {version}, and is {today[name]}")


def _variables(then: Digests, today: Digests) -> Iterator[Change]:
    for name, digest in then.items():
        if name in today and today[name] != digest:
            yield Change(f"${name}", "has another value")
