"""Which of the user's files a trial ran: those of its techniques, and of its task.

Their `version` is part of a trial's id; the text of their files is not. So their digests are
recorded with every attempt, and reusing a trial reports if its files have changed since.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import NamedTuple

from ablate.config.identity import Trial
from ablate.store.journal import Journal


def sources(trial: Trial) -> dict[str, str]:
    """The user's files that such a trial runs: name -> digest."""
    config = trial.config
    # What is sent by value has digests in the trial's id.
    own = sorted({(t.module, t.file) for t in config.techniques if t.is_users and not t.values})
    files = (*(file for _, file in own), "" if config.kind.values else config.kind.file)
    return {Path(file).name: _digest(file) for file in files if Path(file).is_file()}


class Edited(NamedTuple):
    """A file that a trial ran with, and that differs from what would run now."""

    file: str
    now: str  # the file that registers the same now: the same one if it was edited

    def note(self, num_trials: int) -> str:
        """Return the sentence that names trials from before an edit, which are reused."""
        some = f"{num_trials} of this study's trials"
        if self.file != self.now:
            return (
                f"{self.file} made {some}, which are reused: {self.now} registers a task or "
                f"technique of the same name. To train them again, rename it in {self.now}, or "
                "raise its version there."
            )
        return (
            f"{self.file} was edited after it made {some}, which are reused. To train them again, "
            "raise the version in its @register or @task."
        )


def edited_since(journal: Journal) -> set[Edited]:
    """The files that a trial, or a part of it, ran with and that have changed since."""
    made = [attempt.sources for attempt in journal.attempts if attempt.sources is not None]
    if not made:
        return set()
    now = sources(journal.trial)
    return {
        # A file of another name registers the technique now: which of the new ones, cannot be told.
        Edited(name, name if name in now else min(now.keys() - files.keys(), default=name))
        for files in made
        for name, text in files.items()
        if text not in now.values()  # a file that was only renamed is the same
    }


def reused(edited: Mapping[Edited, Collection[str]]) -> list[str]:
    """A note for each edited file on the trials from before the edit, which are reused."""
    return [each.note(len(trials)) for each, trials in sorted(edited.items())]


@functools.cache
def _digest(file: str) -> str:
    """Read once per process, like the module, so that later edits of the file do not count."""
    return hashlib.sha256(Path(file).read_bytes()).hexdigest()[:16]
