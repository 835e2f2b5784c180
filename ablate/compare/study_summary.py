"""A study as opened from the store, and as Python users get it from `run`, `load` and `judge`."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from ablate.compare import plots
from ablate.compare.best import Best, best
from ablate.compare.formats import Table
from ablate.compare.judged import Judged
from ablate.compare.plots import interactive
from ablate.compare.shown import Shown
from ablate.compare.table import numbers
from ablate.compare.table.full_table import full_table
from ablate.compare.table.study_table import study_table
from ablate.errors import ConfigError, TrialError
from ablate.results.copied import copied_from
from ablate.store import journal, study_record
from ablate.store.store import Store
from ablate.store.study_record import StudyRecord


@dataclass(frozen=True, eq=False, repr=False)
class StudySummary(Shown, Judged):
    """All that a study's table shows; it prints as this table, and a notebook shows it as HTML.

    summary.arm("doc").cells["test"].mean
    summary.to_frame()
    summary.plot("curves")
    summary.best().settings
    """

    def table(self) -> Table:
        """Return the study's table."""
        return study_table(self)

    def full_table(self) -> Table:
        """Return every column, every test of the paper's numbers, and how numbers were made."""
        return full_table(self)

    def values(self) -> Table:
        """Return a row for each arm and split, every number unrounded."""
        return numbers.arms(self, "")

    def plot(self, name: str = "deltas") -> Any:
        """Return a figure of plotly: deltas, curves, parameters, interactions, budget or search."""
        figure = plots.get(name).described(self)
        if figure is None:
            needs = plots.get(name).NEEDS
            raise ConfigError(f"{self.record.key}: nothing to draw as {name}; it needs {needs}.")
        return interactive.drawn(figure)

    def best(self, arm: str | None = None) -> Best:
        """Return the arm that the table marks as best with its settings, or why there is none.

        The settings are what the study lists for the arm, with what its search found. With `arm`,
        those of this arm.
        """
        return best(self, arm)


def open_study(store: Store, name: str) -> StudySummary:
    """The results so far of a study, by its name or `name@scale`."""
    return _opened(store, study_record.read(store, name))


def open_parts(store: Store, name: str) -> list[StudySummary]:
    """The results so far on each corpus or rung of a scale of several; none for any other name."""
    return [_opened(store, record) for record in study_record.parts_of(store, name)]


def _opened(store: Store, record: StudyRecord) -> StudySummary:
    known = journal.read_all(store, record.trial_ids())
    return StudySummary(record, known, copied=copied_from(store, record, known))


def open_drawn(store: Store, name: str) -> StudySummary:
    """The same as `open_begun`; for a whole ladder, its largest rung so far, with all others."""
    every = [one for one in open_parts(store, name) if one.record.rungs and one.journals]
    return replace(every[-1], rungs=every) if every else open_begun(store, name)


def open_begun(store: Store, name: str) -> StudySummary:
    """The same as `open_study`; an error if no trial has been run yet."""
    study = open_study(store, name)
    if not study.journals:
        raise TrialError(f"{study.record.key}: no trial has been run yet.")
    return study
