"""Run a study: connects plan, schedule, workers, records and screen. Also the Python API.

from ablate import run
summary = run("studies/doc_layer_mix.py", local=True)
"""

from __future__ import annotations

import contextlib
import functools
import io
import sys
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ablate.compare.formats import markdown, text
from ablate.compare.study_summary import StudySummary
from ablate.compare.table.provenance import contents_of
from ablate.config.identity import Trial, digest
from ablate.engine.analyses import analyse, check_analyses
from ablate.engine.drive import RunOptions, drive, workers_prepared
from ablate.engine.failures import first_failed, remedies, troubles
from ablate.engine.screen import announce, is_watched
from ablate.engine.signals import stopped_by_signals
from ablate.errors import DamagedError, Interrupted, StoreError, TrialError
from ablate.redaction import redacted
from ablate.results.copied import copied_from
from ablate.store import journal as journals
from ablate.store import study_record
from ablate.store.claims import Claims
from ablate.store.epoch import Epoch
from ablate.store.files import PARTIAL
from ablate.store.journal import Journal
from ablate.store.lease import Lease
from ablate.store.leftovers import sweep, sweep_partial, temporary_folders
from ablate.store.store import Store
from ablate.store.workspace import Workspace, held, log_held, make_folders, open_workspace
from ablate.study.code_files import CannotSend, note_on_values, with_code_files
from ablate.study.file import load as load_study
from ablate.study.plan import code_of, make_plan
from ablate.study.planned import Plan
from ablate.study.stated import Keeping, keep
from ablate.study.study import Study, check
from ablate.tune.choice import choice

if TYPE_CHECKING:
    from ablate.tune.earlier import Earlier
    from ablate.tune.search.opened import OpenSearch


@dataclass(frozen=True)
class Ended:
    """How a run of a study ended."""

    record: study_record.StudyRecord
    summary: StudySummary
    interrupted: str | None  # what stopped it, if anything did; the same command resumes it
    closed: str | None  # why no more trials start, and what to do
    unrecorded: str  # what the tracking server still lacks, and why; empty: nothing
    reused: tuple[str, ...] = ()  # notes on trials of earlier code, which are kept
    page: str = ""  # the end of the URL of its page in MLflow; empty if no server has it


def run(
    study: Study | str | Path,
    scale: str | None = None,
    *,
    workspace: str | None = None,
    store: str | None = None,
    mlflow: str | None = None,
    local: bool = False,
    workers: int | None = None,
    quiet: bool | None = None,
    check: bool = True,
    keep: bool = False,
    again: bool = False,
) -> StudySummary:
    """Run a study, or resume it, and return the numbers of its table.

    A warning says if trials diverged, or if trials of earlier code are kept.

    Args:
        study: A study, the path of its file, or the name of a shipped one.
        scale: The name of the scale to run, if not the first.
        workspace: The folder for everything that is stored, if not `.ablate`.
        store: A folder or URI for trials and studies, if they are not in the workspace.
        mlflow: The URI of an MLflow server for the records, if they are not in the workspace.
        local: Run one trial after another in this process, without Ray.
        workers: Number of trials at a time, if not as many as fit the cores.
        quiet: Show no progress, or (False) show it as lines where there is neither a terminal nor a
            notebook, which both have it by default.
        check: Raise an error if trials failed. Otherwise a warning has the reasons.
        keep: Show the results of trials that other code, defaults or data made than today's.
            Without `keep` and `again`, an error names them before anything is trained.
        again: Delete the results of such trials, and train them again.

    Raises:
        StudyError: Trials on record are of other code, defaults or data, for example.
        Interrupted: A signal stopped the study, or another driver took it over.
        TrialError: A trial failed, or none completed.
    """
    place = open_workspace(workspace, store=store, mlflow=mlflow)
    quiet = not is_watched() if quiet is None else quiet
    earlier = choice(keep=keep, again=again)
    options = RunOptions(local=local, workers=workers, quiet=quiet, earlier=earlier)
    ended = run_study(study, scale, place, options)
    if ended.interrupted:
        raise Interrupted(
            f"{ended.record.key}: {ended.interrupted}. Everything that was saved is kept; the same "
            "call resumes it."
        )
    if lost := troubles(ended.record, ended.summary.journals):
        none = not any(arm.counts.completed for arm in ended.summary.arms)
        failed = first_failed(ended.record, ended.summary.journals)
        if check and (failed or none):
            why = [ended.closed] if ended.closed else []
            raise TrialError("\n".join([lost, *why, *remedies(failed, workspace, store)]))
        warnings.warn(lost, stacklevel=2)
    for note in ended.reused if quiet else ():  # else the screen has shown them
        warnings.warn(note, stacklevel=2)
    return ended.summary


def run_study(
    study: Study | str | Path,
    scale: str | None,
    workspace: Workspace,
    options: RunOptions,
    command: str = "",
) -> Ended:
    """Run what is left of a study; all results are in the store before this returns."""
    loaded = _checked(study)
    check_analyses(loaded)
    if not options.quiet:
        key = study_record.study_key(loaded.name, loaded.scale(scale)[0])
        announce(f"{key}: planning its trials")
    make_folders(workspace)
    with workers_prepared(options, loaded.scale(scale)[1]) as prepared:
        return _plan_and_run(loaded, scale, workspace, prepared, command)


def _plan_and_run(
    study: Study,
    scale: str | None,
    workspace: Workspace,
    options: RunOptions,
    command: str,
) -> Ended:
    """Plan a study and run what is left of it."""
    # Before the plan: an arm's trials name the files that workers execute for it.
    loaded = _with_code(study, scale, workspace, options)
    known = [workspace.store]
    plan = make_plan(loaded, scale, data=workspace.data, command=command, stores=known)
    plan = replace(plan, record=replace(plan.record, floor=_floor(plan, workspace)))
    _check_texts(plan, workspace)
    # Only what dead processes left: other studies may run in this workspace now.
    sweep(workspace.folder, temporary_folders())
    # A lock of its own: a driver with another store and this workspace would write to the log.
    log = log_held(workspace, plan.record.key) if plan.searches else contextlib.nullcontext()
    with held(workspace, plan.record.key) as lease, log:
        _sweep_study(workspace.store, plan.record)
        return _run_plan(plan, workspace, options, lease)


def _with_code(study: Study, scale: str | None, workspace: Workspace, options: RunOptions) -> Study:
    """The study, with the files that workers execute for code that the study's file lacks."""
    try:
        return with_code_files(study, code_of(study, scale), workspace.code)
    except CannotSend:
        if not options.local:
            raise
        return study  # the code is in this process alone


def _sweep_study(store: Store, record: study_record.StudyRecord) -> None:
    """Remove the partial files that killed writers of this study left in its store."""
    if store.folder is not None:
        sweep_partial((store.folder / "studies" / record.key).rglob(f"*{PARTIAL}"))
        trials = (store.folder / "trials" / trial_id for trial_id in record.trial_ids())
        sweep_partial(path for trial in trials for path in trial.glob(f"*{PARTIAL}"))


def _run_plan(
    plan: Plan, workspace: Workspace, options: RunOptions, lease: Lease | None = None
) -> Ended:
    from ablate.engine.course import Course
    from ablate.engine.screen import Screen
    from ablate.record.background import BackgroundExport
    from ablate.tune.earlier import Earlier
    from ablate.tune.schedule import Schedule

    store, earlier = workspace.store, Earlier(workspace.store, options.earlier)
    earlier.meet(plan)
    keeping = keep(plan, store)
    plan = keeping.plan
    # Quiet, or with standard output closed: the screen's lines go nowhere.
    stream = io.StringIO() if options.quiet or sys.stdout is None else None
    with Screen(plan.record, interactive=False if stream else None, stream=stream) as screen:
        if other := _other_file(plan.record, store):
            screen.note(other)
        if changed := _changed_values(plan, store):
            screen.note(changed)
        course = Course(store, plan.record)
        recorder = BackgroundExport(
            store,
            workspace.tracking_uri,
            plan.record,
            workspace.artifacts,
            on_trouble=screen.note,
            take_stock=course.add_points,
        )
        with recorder.paused_by_errors():
            listener: Any = _Listener(screen, recorder, course, keeping)
            schedule = Schedule(plan, store, _open_search(workspace, earlier), listener, earlier)
            if lease is not None:  # another driver has taken the study over
                lease.on_lost = lambda why: setattr(schedule, "stop_reason", why)
            with stopped_by_signals(schedule), contextlib.closing(schedule):
                drive(schedule, workspace, options)
            summary = _summed_up(schedule, store)
            tables = _write_tables(summary, workspace)
            if schedule.complete:
                schedule.looked(digest(contents_of(summary)))
                analyse(schedule.plan, summary.journals, workspace, screen.note)
                tables |= _report(summary, store, screen.note)
        if schedule.complete:
            delivery = recorder.finish(tables.pop("table.md"), tables)
        else:
            delivery = recorder.pause()
    schedule.ledger.write()
    return Ended(
        record=schedule.plan.record,
        summary=summary,
        # A signal that came after the last trial has stopped nothing.
        interrupted=None if schedule.complete else schedule.stop_reason,
        closed=_closed(schedule),
        unrecorded=missing_records(delivery),
        reused=tuple(schedule.reused),
        page=recorder.page,
    )


def _closed(schedule: Any) -> str | None:
    """Why no more trials start, and what to do; None if all have ended, or may start."""
    budget = schedule.closed_reason
    return schedule.failure or (budget and f"{budget}: the remaining trials need a larger one")


def _open_search(workspace: Workspace, earlier: Earlier) -> OpenSearch:
    """What opens searches, or resumes them. Only the first one imports Optuna: most studies have
    none."""

    @functools.cache
    def opener() -> OpenSearch:
        from ablate.tune.search.arm import open_search

        return open_search(workspace.searches, earlier.again)

    return lambda search, plan: opener()(search, plan)


def _summed_up(schedule: Any, store: Store) -> StudySummary:
    """What a study's trials come to."""
    ended = _journals(schedule, store)
    copied = copied_from(store, schedule.plan.record, ended)
    return StudySummary(schedule.plan.record, ended, copied=copied)


def _other_file(record: study_record.StudyRecord, store: Store) -> str:
    """A note if another file, which still exists, was run as this study; else empty."""
    if not record.file or not study_record.exists(store, record.key):
        return ""
    try:
        before = study_record.read(store, record.key)
    except DamagedError:
        return ""  # it is written again
    old, new = (Path(each.folder, each.file).resolve() for each in (before, record))
    if old == new or not before.file or not old.is_file():
        return ""
    return (
        f"{record.key} was run from {old} before: the question and arms of {new} replace those on "
        'record. If these are two studies, give one a name of its own: Study(name="...").'
    )


def _changed_values(plan: Plan, store: Store) -> str:
    """A note if the study on record is of other values of a script or a notebook; else empty."""
    if not study_record.exists(store, plan.record.key):
        return ""
    try:
        return note_on_values(plan, store)
    except (DamagedError, OSError, ValueError, KeyError):
        return ""  # what is damaged is written again


def _journals(schedule: Any, store: Store) -> dict[str, Journal]:
    """Read the journals of the study's trials, with its own labels.

    An outcome that has disappeared from the store is restored: a worker that was cut off may have
    sent an old journal that the network delivered late. One that another driver has removed, to run
    the trial again, only stays in this study's table.
    """
    stored = journals.read_all(store, schedule.plan.record.trial_ids())
    claims = Claims(store)
    for trial_id, journal in schedule.ended.items():
        if trial_id in stored and stored[trial_id].outcome is None:
            if _is_older(stored[trial_id], journal) and claims.claim(trial_id):
                journal.write(store)
                claims.release(trial_id)
            stored[trial_id] = journal
    return journals.labelled(stored, schedule.trials)


def _is_older(stored: Journal, ended: Journal) -> bool:
    """Return whether the stored journal is an earlier state of the ended trial's journal."""
    own, theirs = (
        [(attempt.started, attempt.host, attempt.pid) for attempt in j.attempts]
        for j in (ended, stored)
    )
    return theirs == own[: len(theirs)]


def _checked(study: Study | str | Path) -> Study:
    if isinstance(study, Study):
        check(study)
        return study if study.name else replace(study, name="study")
    return load_study(study)


def _floor(plan: Plan, workspace: Workspace) -> Mapping[str, float]:
    """Open the trials' data, if they read any, before a worker needs it; return its known floor."""
    from ablate.config.data_source import source_of
    from ablate.trial.user.user_code import told

    with told(f"{plan.study.file or plan.study.name}: opening the corpus", [plan.study.file]):
        opened = [data and source_of(data, workspace.data).open() for data in plan.texts.values()]
    floor = getattr(opened[0], "floor", {})
    return floor if plan.record.metric.reports_scaled else {}  # it is in nats


def _check_texts(plan: Plan, workspace: Workspace) -> None:
    """Refuse texts that an evaluator cannot read, before anything trains."""
    checked = set()
    for config in (*plan.configs.values(), *(trial.config for trial in plan.trials)):
        evaluators = [(choice.name, choice.config) for choice in config.listed.get("evaluator", ())]
        key = repr((config.data, evaluators))
        if evaluators and key not in checked:
            checked.add(key)
            config.kind.asked.check_text(config, workspace.data)


class _Listener:
    """Passes events of the schedule to the screen, the records, the study's course and its plan."""

    def __init__(self, screen: Any, recorder: Any, course: Any, keeping: Keeping) -> None:
        self.screen, self.recorder, self.course = screen, recorder, course
        self.keeping = keeping

    def started(self, trial: Trial) -> None:
        self.screen.started(trial)

    def progress(self, trial_id: str, epoch: Epoch | None, reached: float | None = None) -> None:
        self.screen.progress(trial_id, epoch, reached)
        if epoch is not None:
            self.recorder.notify(trial_id)

    def finished(self, trial_id: str, journal: Journal) -> None:
        self.keeping.finished(trial_id, journal.status)
        self.screen.finished(trial_id, journal)
        self.course.finished(trial_id, journal)
        self.recorder.notify(trial_id, done=True)

    def retried(self, trial_id: str, why: str) -> None:
        self.screen.retried(trial_id, why)

    def note(self, text: str) -> None:
        self.screen.note(text)

    def planned(self, record: study_record.StudyRecord) -> None:
        self.screen.planned(record)
        self.keeping.update(record)
        self.course.update(record)
        self.recorder.update(record)


def _write_tables(summary: StudySummary, workspace: Workspace) -> dict[str, str]:
    """Write the study's table to its folder; return the files' texts by name."""
    folder, table = workspace.study_folder(summary.record.key), summary.table()
    texts = {"table.txt": text.write(table, text.WIDTH), "table.md": markdown.write(table)}
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, content in texts.items():
            (folder / name).write_text(content + "\n", encoding="utf-8")
    except OSError as error:
        raise StoreError(
            f"the table cannot be written to {folder}: {error.strerror or error}. Free some "
            f"space; `ablate table {summary.record.key}` shows it."
        ) from error
    return texts


def _report(summary: StudySummary, store: Store, note: Callable[[str], None]) -> dict[str, str]:
    """Write the page with the pictures. Its failure must not stop a finished study."""
    try:
        from ablate.compare.page import FILE, page

        return {FILE: page(summary, store)}
    except Exception as error:
        name = summary.record.key
        why = redacted(f"{type(error).__name__}: {error}")
        note(f"no report: {why}. Later: ablate report {name}")
        return {}


def missing_records(delivery: Any) -> str:
    """Return what the tracking server still lacks, and why; empty if nothing."""
    number = len({*delivery.undelivered, *delivery.refused})
    why = delivery.reason or next(iter(delivery.refused.values()), "")
    if number:
        return f"{number} trials ({why})"
    return f"the study's own run ({why})" if why else ""
