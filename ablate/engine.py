"""Running a study: plan, schedule, workers, records and screen, tied together; from Python too.

from ablate import run
summary = run("studies/doc_layer_mix.py", local=True)
"""

from __future__ import annotations

import contextlib
import io
import os
import signal
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from ablate import journal as journals
from ablate import study_record
from ablate.compare.rows import Summary
from ablate.compare.summary import summarise
from ablate.compare.table import markdown, plain_text
from ablate.errors import Interrupted, RecordError, StoreError, TrialError
from ablate.identity import Trial
from ablate.journal import DIVERGED, FAILED, Journal
from ablate.lease import Lease
from ablate.plan import Plan, make_plan
from ablate.probe import largest_trial
from ablate.store import Store
from ablate.study import Study, check
from ablate.study_file import load as load_study
from ablate.workspace import (
    Workspace,
    held,
    make_folders,
    open_workspace,
    running_driver,
)


@dataclass(frozen=True, kw_only=True)
class RunOptions:
    """How a study is run; nothing of this changes what it finds."""

    local: bool = False
    workers: int | None = None
    address: str | None = None
    verbose: bool = False
    quiet: bool = False


@dataclass(frozen=True)
class Ended:
    """How a run of a study ended."""

    record: study_record.StudyRecord
    summary: Summary
    journals: Mapping[str, Journal]
    interrupted: str | None  # by what, if it was: the same command goes on
    closed: str | None  # the budget that is spent, if one is
    unrecorded: str  # what the tracking server has not taken yet and why; empty: nothing


def run(
    study: Study | str | Path,
    scale: str | None = None,
    *,
    workspace: str | None = None,
    store: str | None = None,
    mlflow: str | None = None,
    local: bool = False,
    workers: int | None = None,
    quiet: bool = True,
) -> Summary:
    """Run a study, or go on with it, and give its table's numbers."""
    place = open_workspace(workspace, store=store, mlflow=mlflow)
    options = RunOptions(local=local, workers=workers, quiet=quiet)
    return run_study(study, scale, place, options).summary


def load(study: str, *, workspace: str | None = None, store: str | None = None) -> Summary:
    """The numbers of a study that was run before, by its name or `name@scale`."""
    place = open_workspace(workspace, store=store)
    record = study_record.read(place.store, study)
    return summarise(record, journals.read_all(place.store, record.trial_ids()))


def run_and_show(
    file: str, scale: str | None, workspace: Workspace, options: RunOptions, command: str
) -> int:
    """The `ablate study` command: run, then print the table and what is to be said about it."""
    with _interruptible(command):
        ended = run_study(file, scale, workspace, options, command)
        _say(ended, workspace)
    if ended.interrupted:
        raise _interrupted(ended.interrupted, command)
    troubles = _troubles(ended)
    if troubles:
        raise TrialError(troubles)
    return 0


def _say(ended: Ended, workspace: Workspace) -> None:
    """Print the table. That nobody reads it any more is no failure of the study's."""
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    steps = _where_to_look(ended, workspace)
    unicode = encoding.lower().startswith("utf")
    try:
        print(plain_text(ended.summary, unicode=unicode, next_steps=steps), flush=True)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _interrupted(why: str, command: str) -> Interrupted:
    return Interrupted(f"{why}. Nothing is lost; go on with: {command}")


@contextlib.contextmanager
def _interruptible(command: str) -> Iterator[None]:
    """Ctrl-C and SIGTERM while no trial runs: before the first, or after the last."""
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    except KeyboardInterrupt:
        raise _interrupted("stopped", command) from None
    finally:
        signal.signal(signal.SIGTERM, before)


def run_study(
    study: Study | str | Path,
    scale: str | None,
    workspace: Workspace,
    options: RunOptions,
    command: str = "",
) -> Ended:
    """Run what is left of a study; everything learnt is in the store before this returns."""
    asked = _studied(study)
    make_folders(workspace)
    plan = make_plan(asked, scale, data=workspace.data, command=command)
    plan = replace(plan, record=replace(plan.record, floor=_floor(plan, workspace)))
    with held(workspace, plan.record.key) as lease:
        return _run_plan(plan, workspace, options, lease)


def _run_plan(
    plan: Plan, workspace: Workspace, options: RunOptions, lease: Lease | None = None
) -> Ended:
    from ablate.record.background import BackgroundRecorder
    from ablate.screen import Screen
    from ablate.tune.schedule import Schedule
    from ablate.tune.search import open_search

    store = workspace.store
    stream = io.StringIO() if options.quiet or sys.stdout is None else None
    with Screen(plan.record, interactive=False if stream else None, stream=stream) as screen:
        recorder = BackgroundRecorder(
            store,
            workspace.tracking_uri,
            plan.record,
            workspace.artifacts,
            on_trouble=screen.note,
        )
        listeners = (_Told(screen, recorder),)
        schedule = Schedule(plan, store, open_search(workspace.searches), listeners)
        if lease is not None:
            lease.on_lost = lambda why: setattr(schedule, "stop_reason", why)
        with _stopped_by_signals(schedule):
            _drive(schedule, workspace, options)
        found = _kept(schedule, store)
        summary = summarise(schedule.plan.record, found)
        _write_tables(summary, workspace)
        pages = _report(summary, found, store, screen.note) if schedule.complete else {}
        unrecorded = _deliver(recorder, schedule, summary, pages)
    schedule.ledger.write()
    return Ended(
        record=schedule.plan.record,
        summary=summary,
        journals=found,
        interrupted=None if schedule.complete else schedule.stop_reason,
        closed=schedule.closed_reason,
        unrecorded=unrecorded,
    )


def _kept(schedule: Any, store: Store) -> dict[str, Journal]:
    """What the store says of the study's trials.

    An outcome that is not there any more is put back: a worker that was cut off may have sent an
    old journal which the network delivered late.
    """
    found = journals.read_all(store, schedule.plan.record.trial_ids())
    for trial_id, journal in schedule.ended.items():
        if trial_id in found and found[trial_id].outcome is None:
            journal.write(store)
            found[trial_id] = journal
    return found


def _drive(schedule: Any, workspace: Workspace, options: RunOptions) -> None:
    if schedule.exhausted:
        return
    if options.local:
        from ablate.trial import check_gpus
        from ablate.tune import local

        check_gpus(schedule.plan.scale_name, schedule.plan.scale.gpus)
        local.run(schedule, lambda trial: _order(trial, workspace))
        return
    from ablate.tune import cluster

    fleet = _fleet(schedule.plan, workspace, options)
    if fleet.address in (None, "local"):
        order = partial(_order, workspace=workspace)
        cluster.run(schedule, _sharing(fleet, schedule.plan, order), order)
        return
    with tempfile.TemporaryDirectory(prefix="ablate-parcel-") as folder:
        brought = _brought(schedule.plan, workspace, Path(folder))
        fleet = replace(fleet, runtime_env={"working_dir": folder})

        def order_abroad(trial: Trial) -> dict[str, Any]:
            return {**_order(trial, workspace), **brought}

        cluster.run(schedule, _sharing(fleet, schedule.plan, order_abroad), order_abroad)


def _sharing(fleet: Any, plan: Plan, order: Callable[[Trial], dict[str, Any]]) -> Any:
    """The fleet, told by which trial's memory trials share its GPUs."""
    if not plan.scale.share_gpus:
        return fleet
    return replace(fleet, gpu_shared_by=order(largest_trial(plan)))


def _order(trial: Trial, workspace: Workspace) -> dict[str, Any]:
    return {"trial": trial.to_plain(), "store": workspace.store.uri, "data": workspace.data}


def _brought(plan: Plan, workspace: Workspace, folder: Path) -> dict[str, Any]:
    """What workers on other hosts need beside an order, and nothing of this one's folders."""
    from ablate.data.travel import send
    from ablate.tune.parcel import pack

    corpus = plan.configs[plan.study.base_arm].corpus
    return {
        "data": "",
        "study": plan.record.key,
        "corpus": send(corpus, workspace.data, workspace.store),
        "modules": pack(plan.study.file, plan.study.techniques, folder),
    }


def _fleet(plan: Plan, workspace: Workspace, options: RunOptions) -> Any:
    from ablate.tune.cluster import Fleet

    address = options.address or os.environ.get("RAY_ADDRESS")
    here = max(1, (os.cpu_count() or 1) // plan.scale.threads)
    return Fleet(
        workers=options.workers or (here if address in (None, "local") else None),
        cpus_per_trial=plan.scale.threads,
        gpus_per_trial=plan.scale.gpus,
        address=address,
        verbose=options.verbose,
        tmp=str(workspace.folder / "ray"),
    )


def _studied(study: Study | str | Path) -> Study:
    if isinstance(study, Study):
        check(study)
        return study if study.name else replace(study, name="study")
    return load_study(study)


def _floor(plan: Plan, workspace: Workspace) -> Mapping[str, float]:
    """Encode the corpus before any worker needs it; its floor, where it is known."""
    from ablate.data.corpus import open_corpus

    return open_corpus(plan.configs[plan.study.base_arm].corpus, workspace.data).floor


class _Told:
    """Tells the screen and the recorder what happens in the schedule."""

    def __init__(self, screen: Any, recorder: Any) -> None:
        self.screen, self.recorder = screen, recorder

    def started(self, trial: Trial) -> None:
        self.screen.started(trial)

    def progress(self, trial_id: str, epoch: Mapping[str, Any] | None) -> None:
        self.screen.progress(trial_id, epoch)
        if epoch is not None:
            self.recorder.notify(trial_id)

    def finished(self, trial_id: str, journal: Journal) -> None:
        self.screen.finished(trial_id, journal)
        self.recorder.notify(trial_id, done=True)

    def retried(self, trial_id: str, why: str) -> None:
        self.screen.retried(trial_id, why)

    def note(self, text: str) -> None:
        self.screen.note(text)

    def planned(self, plan: Plan) -> None:
        self.screen.planned(plan.record)
        self.recorder.update(plan.record)


@contextlib.contextmanager
def _stopped_by_signals(schedule: Any) -> Iterator[None]:
    """Ctrl-C or SIGTERM once: stop with everything kept. A second time: at once."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(number: int, frame: Any) -> None:
        if schedule.stop_reason is not None:
            raise KeyboardInterrupt
        schedule.stop_reason = f"stopped by {signal.Signals(number).name}"
        schedule.note("stopping: running trials are saved (once more, and all ends at once)")

    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    heard = [number for number, handler in handlers.items() if handler != signal.SIG_IGN]
    before = {number: signal.signal(number, stop) for number in heard}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _write_tables(summary: Summary, workspace: Workspace) -> None:
    folder = workspace.study_folder(summary.record.key)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "table.txt").write_text(plain_text(summary) + "\n", encoding="utf-8")
        (folder / "table.md").write_text(markdown(summary) + "\n", encoding="utf-8")
    except OSError as error:
        raise StoreError(
            f"the table cannot be written to {folder}: {error.strerror or error}. Free some "
            f"space; `ablate table {summary.record.key}` shows it."
        ) from error


def _report(
    summary: Summary, found: Mapping[str, Journal], store: Store, note: Callable[[str], None]
) -> dict[str, str]:
    """The page with the pictures. A study that is done is not held up by one that fails."""
    try:
        from ablate.plots import Material
        from ablate.plots.report import FILE, page

        return {FILE: page(Material(summary, found), store)}
    except Exception as error:
        name = summary.record.key
        note(f"no report: {type(error).__name__}: {error}. Later: ablate report {name}")
        return {}


def _deliver(recorder: Any, schedule: Any, summary: Summary, pages: Mapping[str, str]) -> str:
    """Give the tracking server what it has not got; what it still lacks, and why."""
    if schedule.complete:
        files = {"table.txt": plain_text(summary), **pages}
        delivery = recorder.finish(markdown(summary), files)
    else:
        delivery = recorder.pause()
    return _missing(delivery)


def _missing(delivery: Any) -> str:
    number = len(delivery.undelivered) + len(delivery.refused)
    why = delivery.reason or next(iter(delivery.refused.values()), "")
    return f"{number} trials ({why})" if number else ""


def _where_to_look(ended: Ended, workspace: Workspace) -> list[str]:
    steps = [
        f"table:    {workspace.study_folder(ended.record.key) / 'table.md'}",
        "curves:   ablate ui",
        f"details:  ablate status {ended.record.name}",
    ]
    if ended.closed:
        steps.append(f"{ended.closed}: what is left needs a larger one")
    if ended.unrecorded:
        steps.append(f"not recorded yet: {ended.unrecorded}; later: ablate sync")
    return steps


def _troubles(ended: Ended) -> str:
    """One message for all trials that found nothing and should have, each reason once."""
    asked = _asked(ended)
    reasons: dict[str, list[Journal]] = {}
    for trial_id in asked:
        journal = ended.journals.get(trial_id)
        if journal and journal.outcome and journal.status in (FAILED, DIVERGED):
            reasons.setdefault(_reason(journal.outcome), []).append(journal)
    if not reasons:
        return ""
    total = sum(len(found) for found in reasons.values())
    lines = [f"{total} of {len(asked)} trials found nothing (the table counts them as holes):"]
    for reason, found in reasons.items():
        if "orphan_of" in (found[0].outcome or {}):
            continue  # why, is told of the one it builds on
        first = found[0].trial
        where = f"{first.arm} seed {first.seed} first"
        lines.append(f"{len(found)} x {found[0].status}, {where}: {reason}")
    return "\n".join(lines)


def _asked(ended: Ended) -> list[str]:
    """The listed trials, and those of searches that none of their trials has ended well."""
    listed = [trial.id for trial in ended.record.trials]
    fruitless = [search.trials for search in ended.record.searches if search.chosen is None]
    return list(dict.fromkeys([*listed, *(trial for trials in fruitless for trial in trials)]))


def _reason(outcome: Mapping[str, Any]) -> str:
    return outcome.get("frames") or str(outcome.get("reason", ""))


def sync_records(workspace: Workspace) -> int:
    """The `ablate sync` command."""
    from ablate.record.mlflow_records import sync

    store = workspace.store
    held_now = [key for key in study_record.names(store) if running_driver(workspace, key)]
    delivered = sync(store, workspace.tracking_uri, workspace.artifacts, held=held_now)
    for key, delivery in delivered.items():
        missing = _missing(delivery)
        state = f"missing: {missing}" if missing else "all recorded"
        print(f"{key}: {delivery.delivered} trials delivered now, {state}")
    return 0 if all(delivery.complete for delivery in delivered.values()) else 6


def open_ui(workspace: Workspace, port: int) -> int:
    """The `ablate ui` command: serve the records until Ctrl-C or SIGTERM."""
    import subprocess

    from ablate.record.places import ui_command, ui_environment

    command = ui_command(workspace.tracking_uri, workspace.artifacts, port)
    make_folders(workspace)
    log = workspace.folder / "mlflow-ui.log"
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with log.open("w") as file:
        server = subprocess.Popen(
            command,
            env={**os.environ, **ui_environment()},
            stdout=file,
            stderr=file,
            start_new_session=True,  # it has processes of its own, which end with it
        )
        page = f"http://127.0.0.1:{port}/?workflowType=machine_learning#/experiments"
        print(f"MLflow, in a moment, on {page} (Ctrl-C stops it)", flush=True)
        try:
            status = server.wait()
        except KeyboardInterrupt:
            os.killpg(server.pid, signal.SIGTERM)
            server.wait()
            return 0
    last = log.read_text().strip().splitlines()[-1:] or ["it said nothing"]
    raise RecordError(f"the MLflow UI ended with status {status}: {last[0]} (all of it: {log})")
