"""`ablate status` and `ablate table`: what the store says of studies; no study file, no torch."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING

from ablate import journal as journals
from ablate import study_record
from ablate.errors import ConfigError, TrialError
from ablate.journal import Journal
from ablate.layout import Grid
from ablate.study_record import StudyRecord
from ablate.workspace import Workspace, running_driver

if TYPE_CHECKING:
    from ablate.compare.rows import Summary

STATES = ("completed", "running", "pruned", "diverged", "failed", "left")


def show_status(workspace: Workspace, name: str | None) -> str:
    """Every study, a line each; or one, by arm, with what went wrong."""
    store = workspace.store
    if name is not None:
        return _one(workspace, study_record.read(store, name))
    keys = study_record.names(store)
    if not keys:
        return f"No study has been run in {workspace.folder}. `ablate study FILE` starts one."
    rows = []
    for key in keys:
        record = study_record.read(store, key)
        counts = _count(workspace, record, journals.read_all(store, record.trial_ids()))
        rows.append([key, *(str(counts[state]) for state in STATES)])
    return "\n".join(Grid(["study", *STATES], rows).lines(100, "-"))


def show_table(workspace: Workspace, name: str, form: str, effects: bool = False) -> str:
    """A study's table as far as it is."""
    from ablate.compare.other_scales import frozen_beside_tuned
    from ablate.compare.summary import summarise
    from ablate.compare.table import markdown, plain_text

    record = study_record.read(workspace.store, name)
    found = journals.read_all(workspace.store, record.trial_ids())
    if not found:
        raise TrialError(f"{record.key}: no trial has been run yet.")
    summary = summarise(record, found)
    if effects:
        _check_effects(summary, form)
    more = frozen_beside_tuned(summary, workspace.store)
    if form == "text":
        return plain_text(summary, more=more)
    from ablate.compare import export, provenance, spreadsheet

    contents = export.contents(summary, found)
    key = export.table_hash(contents)
    provenance.keep(workspace.store, key, contents)
    if form == "markdown":
        return f"{markdown(summary, more=more)}\n- {export.footnote(key)}"
    return spreadsheet.effects(summary, key) if effects else export.WRITERS[form](summary, key)


def _check_effects(summary: Summary, form: str) -> None:
    """A file of effects alone is for what cannot hold two tables."""
    if form != "csv":
        raise ConfigError(
            f"--effects goes with --format csv; {form} has the effects below the table of arms."
        )
    if summary.effects is None:
        raise ConfigError(
            f"{summary.record.key} has no effects: its design is '{summary.record.design}'. "
            "Allowed: factorial, fractional_factorial."
        )


def _one(workspace: Workspace, record: StudyRecord) -> str:
    found = journals.read_all(workspace.store, record.trial_ids())
    driver = running_driver(workspace, record.key)
    lines = [f"{record.key}: {record.question}"]
    lines += [f"being run by {driver}" if driver else f"go on with: {record.command}", ""]
    rows = []
    for arm in record.arms:
        ids = [trial.id for trial in record.trials if trial.arm == arm.name]
        searched = [
            t for search in record.searches if search.arm == arm.name for t in search.trials
        ]
        counts = _counted(list(dict.fromkeys([*ids, *searched])), found, driver is not None)
        rows.append([arm.name, *(str(counts[state]) for state in STATES)])
    lines += Grid(["arm", *STATES], rows).lines(100, "-")
    return "\n".join([*lines, *_troubles(found)])


def _troubles(found: Mapping[str, Journal]) -> list[str]:
    lines = []
    for trial_id, journal in found.items():
        if journal.status in ("failed", "diverged") and journal.outcome:
            trial, reason = journal.trial, journal.outcome.get("reason", "")
            lines.append(f"{journal.status}: {trial.arm} seed {trial.seed} ({trial_id}): {reason}")
        elif len(journal.attempts) > 1:
            trial = journal.trial
            lines.append(
                f"{len(journal.attempts)} attempts: {trial.arm} seed {trial.seed} ({trial_id})"
            )
    return ["", *lines] if lines else []


def _count(workspace: Workspace, record: StudyRecord, found: Mapping[str, Journal]) -> Counter:
    alive = running_driver(workspace, record.key) is not None
    return _counted(record.trial_ids(), found, alive)


def _counted(ids: list[str], found: Mapping[str, Journal], alive: bool) -> Counter:
    return Counter(_state(found.get(trial_id), alive) for trial_id in ids)


def _state(journal: Journal | None, alive: bool) -> str:
    if journal is None:
        return "left"
    if journal.status is not None:
        return journal.status
    return "running" if alive else "left"
