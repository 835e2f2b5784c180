"""The numbers of a study's table as Python users get them: `ablate.run`, `load` and `judge`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from ablate.compare import plots
from ablate.compare.best import Best, best
from ablate.compare.formats import Table
from ablate.compare.material import Material
from ablate.compare.plots import interactive
from ablate.compare.shown import Shown
from ablate.compare.table import numbers
from ablate.compare.table.rows import Summary
from ablate.compare.table.study_table import study_table
from ablate.errors import ConfigError
from ablate.store.journal import Journal


@dataclass(frozen=True, kw_only=True, repr=False)
class StudySummary(Shown, Summary):
    """All that a study's table shows; it prints as this table, and a notebook shows it as HTML.

    summary.arm("doc").cells["test"].mean
    summary.to_frame()
    summary.plot("curves")
    summary.best().settings
    """

    journals: Mapping[str, Journal] = field(default_factory=dict)

    def table(self) -> Table:
        """Return the study's table."""
        return study_table(self)

    def values(self) -> Table:
        """Return a row for each arm and split, every number unrounded."""
        return numbers.arms(self, "")

    def plot(self, name: str = "deltas") -> Any:
        """Return a figure of plotly: deltas, curves, parameters, interactions, budget or search."""
        figure = plots.get(name).described(Material(self, self.journals))
        if figure is None:
            needs = plots.get(name).NEEDS
            raise ConfigError(f"{self.record.key}: nothing to draw as {name}; it needs {needs}.")
        return interactive.drawn(figure)

    def best(self, arm: str | None = None) -> Best:
        """Return the arm that the table marks as best with its settings, or why there is none.

        The settings are what the study lists for the arm, with what its search found. With `arm`,
        those of this arm.
        """
        return best(self, self.journals, arm)


def opened(material: Material) -> StudySummary:
    """Return a study's summary with what its pictures and settings need."""
    own = {each.name: getattr(material.summary, each.name) for each in fields(Summary)}
    return StudySummary(**own, journals=material.journals)
