"""Show which trials are done, running, failed, pruned and left.

Read from the store alone: no study file, no torch.
"""

from __future__ import annotations

import argparse
import shlex
import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace

from ablate.commands import _options
from ablate.commands._answers import ArmStatus, Counts, Status, StudyStatus, Trouble
from ablate.compare.formats import json, table_of, text
from ablate.engine.failures import last_output
from ablate.errors import ConfigError, TrialError
from ablate.store import glance, printed, states, study_record
from ablate.store import journal as journals
from ablate.store.journal import Journal
from ablate.store.outcome import Status as Ended
from ablate.store.replication import counted
from ablate.store.states import STATES
from ablate.store.store import Store
from ablate.store.study_record import StudyRecord
from ablate.store.workspace import Workspace, running_driver

EXAMPLE = "ablate status doc_layer_mix"


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `ablate status`."""
    parser.add_argument("study", nargs="?", help=f"{_options.STUDY} (default: all)")
    parser.add_argument(
        "--log",
        action="store_true",
        help="show what a trial printed; in place of the study, name the trial by its id (a unique "
        "prefix is enough)",
    )
    _options.add_json(parser)
    _options.add_locations(parser)


def run(options: argparse.Namespace) -> str:
    """Return the progress of all studies or of a single one, or what a trial printed."""
    if options.format == "json":
        if options.log:
            raise ConfigError("--log is text. Instead: leave out --format json.")
        return json.written(status(_options.workspace(options), options.study))
    if options.log:
        return show_log(_options.workspace(options).store, options.study)
    workspace = _options.workspace(options)
    return show_status(workspace, options.study, _options.there(options))


Troubled = Callable[[], Mapping[str, Journal]]


def status(workspace: Workspace, name: str | None) -> Status:
    """Return the progress of every study, or of one with its troubles."""
    store = workspace.store
    if name is None:
        every = (study_record.read(store, key) for key in study_record.names(store))
        return Status(studies=tuple(_progress(workspace, record)[0] for record in every))
    one, troubled = _progress(workspace, study_record.read(store, name))
    troubles = tuple(_trouble(trial_id, journal) for trial_id, journal in troubled().items())
    return Status(studies=(replace(one, troubles=troubles),))


def _progress(workspace: Workspace, record: StudyRecord) -> tuple[StudyStatus, Troubled]:
    """How far a study is, from a glance at each journal; and those in trouble, to read whole."""
    ends, troubled = glance.ends_and_troubled(workspace.store, record.trial_ids())
    driver = running_driver(workspace, record.key)

    def counts(arm: str | None) -> Counts:
        counted = states.counts(record, arm, ends, driver is not None)
        return Counts(**{each.value: counted[each] for each in STATES}, in_all=counted.total())

    status = StudyStatus(
        study=record.key,
        question=record.question,
        driver=driver,
        resume=record.resume,
        imported=record.imported,
        looks=str(record.every_look),
        counts=counts(None),
        arms=tuple(ArmStatus(arm=arm.name, counts=counts(arm.name)) for arm in record.arms),
        troubles=None,
    )
    return status, lambda: journals.read_all(workspace.store, troubled)


def _trouble(trial_id: str, journal: Journal) -> Trouble:
    return Trouble(
        trial=trial_id,
        name=journal.trial.name,
        status=journal.status,
        attempts=len(journal.attempts),
        reason=journal.outcome.reason if journal.outcome else None,
    )


def show_status(workspace: Workspace, name: str | None, there: str = "") -> str:
    """Show every study, one line each; or one study by arm, with its failures. `there`: options
    that the commands which it names need to find the same store."""
    store = workspace.store
    if name is not None:
        records = study_record.parts_of(store, name) or [study_record.read(store, name)]
        return "\n\n".join(_one(workspace, record, there) for record in records)
    keys = study_record.names(store)
    if not keys:
        none = f"No study has been run in {workspace.folder}."
        return "\n".join(text.sentences([f"{none} `ablate study FILE{there}` starts one."]))
    studies = status(workspace, None).studies
    lost = [study.study for study in studies if study.counts.failed or study.counts.diverged]
    lines = _table("study", [(study.study, study.counts) for study in studies])
    return "\n".join([*lines, *_where_errors_are(lost, there)])


def _where_errors_are(studies: Sequence[str], there: str) -> list[str]:
    """The command that shows why trials of each of these studies have no result."""
    commands = [f"ablate status {study}{there}" for study in studies]
    return ["", "Why trials failed or diverged:", *(f"  {c}" for c in commands)] if studies else []


def show_log(store: Store, trial_id: str | None) -> str:
    """Show what a trial printed, below a line that names the trial."""
    if trial_id is None:
        raise TrialError(
            "--log shows what one trial printed. Name it by its id, as in: ablate status 3f2a9c "
            "--log. `ablate status STUDY` and the run's page have ids."
        )
    journal = journals.find(store, trial_id)
    status = journal.status or "no outcome yet"
    head = f"{journal.trial.name} ({journal.trial.id}): {status}"
    text = printed.read(store, journal.trial.id)
    return f"{head}\n{text.rstrip() if text else 'It has printed nothing.'}"


def _one(workspace: Workspace, record: StudyRecord, there: str) -> str:
    progress, read = _progress(workspace, record)
    driver = progress.driver
    lines = [f"{record.key}: {record.question}"]
    lines = text.sentences(lines)
    if record.imported:
        lines = [f"{record.key}: imported from {record.imported}", ""]
    elif driver:
        lines += [f"being run by {driver}", ""]
    elif progress.counts.left or progress.counts.failed:
        lines += [f"resume with: {record.resume}", ""]
    else:
        lines += [f"every trial has ended: ablate table {shlex.quote(record.key)}{there}", ""]
    rows = [(one.arm, one.counts) for one in progress.arms]
    lines += _table("arm", [*rows, *([("all arms", progress.counts)] if len(rows) > 1 else [])])
    lines += _looks(record)
    troubled = read()
    lines += _troubles(troubled) + _what_next(troubled, record, there, alive=bool(driver))
    return "\n".join(lines)


def _looks(record: StudyRecord) -> list[str]:
    """The looks that were planned and made, and the arms that they decided."""
    looks = record.every_look
    stopped = [
        f"{arm.name} decided at {arm.stopped_at} of {counted(looks.pairs, looks.unit)}"
        for arm in record.arms
        if arm.stopped_at is not None
    ]
    lines = [*filter(None, [str(looks)]), *stopped]
    return ["", *lines] if lines else []


def _troubles(troubled: Mapping[str, Journal]) -> list[str]:
    lines: list[str] = []
    for trial_id, journal in troubled.items():
        name = f"{journal.trial.name} ({trial_id})"
        if journal.outcome and journal.status in (Ended.FAILED, Ended.DIVERGED):
            lines.append(f"{journal.status}: {name}: {journal.outcome.reason or ''}")
            lines += _traceback(journal.outcome.frames or "", lines)
            last = last_output(journal)  # shown once, if several trials printed the same
            lines += last if "\n".join(last) not in "\n".join(lines) else []
        elif len(journal.attempts) > 1:
            lines.append(f"{len(journal.attempts)} attempts: {name}{_repeated(journal)}")
    return ["", *lines] if lines else []


def _what_next(
    troubled: Mapping[str, Journal], record: StudyRecord, there: str, *, alive: bool
) -> list[str]:
    """Name what shows more of the trials that failed or diverged, and what runs them again."""
    ends = {journal.status: trial for trial, journal in reversed([*troubled.items()])}
    lost = ends.get(Ended.FAILED) or ends.get(Ended.DIVERGED)
    if lost is None:
        return []
    lines = ["", f"All that a trial printed: ablate status {lost} --log{there}"]
    if Ended.FAILED in ends and not (alive or record.imported):
        lines.append(f"Failed trials are tried again, once the cause is gone, by: {record.resume}")
    if Ended.DIVERGED in ends:
        lines.append("A diverged trial is a result, and is not tried again.")
    return lines


def _traceback(frames: str, shown: Sequence[str]) -> list[str]:
    """The lines of a failure's traceback; a few words if they are shown already."""
    block = textwrap.indent(frames, "  ")
    again = block in shown
    return ["  (the same traceback as above)"] if again else list(filter(None, [block]))


def _repeated(journal: Journal) -> str:
    """Why the last attempt repeats epochs of an earlier one; empty if it repeats none."""
    if not journal.num_repeated:
        return ""
    why = "it had saved nothing"
    if journal.repeated_for_weights:
        why = "others build on its weights, which were lost or never saved here"
    return f": started again after epoch {journal.num_repeated}, since {why}"


def _table(heading: str, rows: Sequence[tuple[str, Counts]]) -> list[str]:
    """A row for each name: what is completed, and the other states that any of them has."""
    every = [asdict(counts) for _, counts in rows]
    others = [state for state in STATES[1:] if any(counts[state] for counts in every)]
    body = [
        [name, f"{counts.completed} of {counts.in_all}", *(of[state] for state in others)]
        for (name, counts), of in zip(rows, every, strict=True)
    ]
    return text.lines(table_of([heading, "completed", *others], body))
