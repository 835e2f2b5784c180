"""Show which trials are done, running, failed, pruned and left.

Read from the store alone: no study file, no torch.
"""

from __future__ import annotations

import argparse
import textwrap
from collections.abc import Mapping, Sequence

from ablate.commands import _options
from ablate.compare.formats import table_of, text
from ablate.engine.failures import last_output
from ablate.errors import TrialError
from ablate.results.looks import looks_of
from ablate.results.replication import counted
from ablate.store import glance, printed, states, study_record
from ablate.store import journal as journals
from ablate.store.glance import Glance
from ablate.store.journal import Journal
from ablate.store.outcome import Status
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
    _options.add_locations(parser)


def run(options: argparse.Namespace) -> str:
    """Return the progress of all studies or of a single one, or what a trial printed."""
    if options.log:
        return show_log(_options.workspace(options).store, options.study)
    return show_status(_options.workspace(options), options.study)


COLUMNS = (*STATES, "in all")


def show_status(workspace: Workspace, name: str | None) -> str:
    """Show every study, one line each; or one study by arm, with its failures."""
    store = workspace.store
    if name is not None:
        records = study_record.over_corpora(store, name) or [study_record.read(store, name)]
        return "\n\n".join(_one(workspace, record) for record in records)
    keys = study_record.names(store)
    if not keys:
        none = f"No study has been run in {workspace.folder}. `ablate study FILE` starts one."
        return "\n".join(text.sentences([none]))
    rows = []
    for key in keys:
        record, driver = study_record.read(store, key), running_driver(workspace, key)
        known = glance.read_all(store, record.trial_ids())
        rows.append([key, *_counts(record, None, known, driver is not None)])
    return "\n".join(text.lines(table_of(["study", *COLUMNS], rows)))


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


def _one(workspace: Workspace, record: StudyRecord) -> str:
    # A glance at each journal; those in trouble alone are parsed whole, below.
    known = glance.read_all(workspace.store, record.trial_ids())
    driver = running_driver(workspace, record.key)
    lines = [f"{record.key}: {record.question}"]
    lines = text.sentences(lines)
    lines += [f"being run by {driver}" if driver else f"resume with: {record.resume}", ""]
    alive = driver is not None
    rows = [[arm.name, *_counts(record, arm.name, known, alive)] for arm in record.arms]
    if len(rows) > 1:
        rows.append(["all arms", *_counts(record, None, known, alive)])
    lines += text.lines(table_of(["arm", *COLUMNS], rows))
    lines += _looks(record)
    troubled = [trial_id for trial_id, seen in known.items() if seen.is_troubled]
    return "\n".join([*lines, *_troubles(journals.read_all(workspace.store, troubled))])


def _looks(record: StudyRecord) -> list[str]:
    """The looks that were planned and made, and the arms that they decided."""
    looks = looks_of(record)
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
        if journal.outcome and journal.status in (Status.FAILED, Status.DIVERGED):
            lines.append(f"{journal.status}: {name}: {journal.outcome.reason or ''}")
            lines += _traceback(journal.outcome.frames or "", lines)
            last = last_output(journal)  # shown once, if several trials printed the same
            lines += last if "\n".join(last) not in "\n".join(lines) else []
        elif len(journal.attempts) > 1:
            lines.append(f"{len(journal.attempts)} attempts: {name}{_repeated(journal)}")
    return ["", *lines] if lines else []


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


def _counts(
    record: StudyRecord, arm: str | None, known: Mapping[str, Glance], alive: bool
) -> list[str]:
    ends = {trial_id: seen.status for trial_id, seen in known.items()}
    counted = states.counts(record, arm, ends, alive)
    return [str(number) for number in (*(counted[each] for each in STATES), counted.total())]
