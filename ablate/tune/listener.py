"""The events of a running study, for its screen and its records."""

from __future__ import annotations

from ablate.config.identity import Trial
from ablate.store.epoch import Epoch
from ablate.store.journal import Journal
from ablate.store.study_record import StudyRecord


class Listener:
    """Is notified of events, which by default it ignores; decides nothing."""

    def started(self, trial: Trial) -> None:
        """A trial is about to run."""

    def progress(self, trial_id: str, epoch: Epoch | None, reached: float | None = None) -> None:
        """A slice of a trial has ended: with an epoch or without, after `reached` epochs."""

    def finished(self, trial_id: str, journal: Journal) -> None:
        """A trial has its outcome, from this run or from an earlier one."""

    def retried(self, trial_id: str, why: str) -> None:
        """Another worker resumes a trial whose worker died."""

    def note(self, text: str) -> None:
        """The user should read this text."""

    def planned(self, record: StudyRecord) -> None:
        """The plan is known, or has grown."""
