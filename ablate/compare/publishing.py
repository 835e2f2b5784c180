"""Published results: what was recorded of studies, in a folder to commit, to attach or to cite.

The folder is a store without weights, and without the losses of single tokens. `ablate table STUDY
--store FOLDER` and `ablate compare PAPER --results FOLDER` read it. What only concerns the machine
(its host name, process ids, the locations in the command, the folders of files) stays behind. Its
README shows each study's table and how it was made.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from ablate.compare.formats import markdown
from ablate.compare.judged import Judged
from ablate.compare.study_summary import open_begun, open_parts
from ablate.compare.table import provenance
from ablate.compare.table.study_table import study_table
from ablate.compare.text.figures import duration
from ablate.store import findings, study_record
from ablate.store.attempt import Attempt
from ablate.store.files import write_whole
from ablate.store.journal import Journal
from ablate.store.replication import counted
from ablate.store.store import Store
from ablate.store.study_record import StudyRecord

README = "README.md"
OF_THE_MACHINE = ("host", "pid", "tracking_uri", "output")  # facts of an attempt
LOCATIONS = ("--workspace", "--store", "--mlflow", "--searches", "--cluster")
# An absolute path, and the file's name at its end; not a part of a URI.
PATH = re.compile(r"(?<![\w:/.~])~?/(?:[^\s/'\":,;]+/)+([^\s/'\":,;]+)")
HEAD = """\
# Results

Written by `ablate report publish`: studies, the settings, epochs and outcome of every trial, and
what the tables are made of, without weights. Nothing below is typed by hand.

    ablate table STUDY --store {folder}            # a study's table
    ablate table compare PAPER --results {folder}  # our numbers next to a paper's
    ablate query SQL --results {folder}            # everything in SQL

Where a table says `for this test text`, its trials were recorded without the losses of runs of
tokens: its intervals and words hold for new seeds, and not for new text.
"""


def publish(store: Store, names: Iterable[str], folder: Path) -> list[StudyRecord]:
    """Copy studies into the folder, and write its README; return their records."""
    # All are found before any is written.
    chosen = [one for name in names for one in _begun_parts(store, name)]
    published = Store(str(folder.absolute()))
    for judged in chosen:
        _copy(judged, store, published)
    text = readme(published, folder.resolve().name)
    write_whole(folder / README, text.encode(errors="replace"))  # a folder's name may be any bytes
    return [judged.record for judged in chosen]


def _begun_parts(store: Store, name: str) -> Sequence[Judged]:
    """Return the study of this name, or each of its corpora or rungs that has trials."""
    parts = [one for one in open_parts(store, name) if one.journals]
    return parts or [open_begun(store, name)]


def _copy(judged: Judged, store: Store, published: Store) -> None:
    record = judged.record
    for journal in judged.journals.values():
        if journal.outcome is not None:  # without its checkpoint, what still runs starts again
            without_machine(journal).write(published)
    command, file = without_locations(record.command), without_folders(record.file)
    arms = tuple(replace(arm, changes=_files_by_name(arm.changes)) for arm in record.arms)
    record = replace(record, command=command, file=file, folder="", arms=arms)
    study_record.write(published, record)
    made = findings.read(store, record.key)
    if made:
        findings.write(published, record.key, made)


def without_machine(journal: Journal) -> Journal:
    """The journal without what only concerns the machines that the trial ran on."""
    attempts = [_without_machine(attempt) for attempt in journal.attempts]
    modules = tuple(Path(module).name for module in journal.trial.modules)
    values = _files_by_name(journal.trial.values)
    trial, outcome = replace(journal.trial, modules=modules, values=values), journal.outcome
    if outcome is not None:
        reason, error = (text and without_folders(text) for text in (outcome.reason, outcome.error))
        # A traceback has the folders of this machine.
        outcome = replace(outcome, frames="", reason=reason, error=error)
    config = _files_by_name(journal.config)
    return replace(
        journal, trial=trial, config=config, attempts=attempts, deaths=[], outcome=outcome
    )


def _without_machine(attempt: Attempt) -> Attempt:
    plain = attempt.to_plain()
    return Attempt.from_plain({n: v for n, v in plain.items() if n not in OF_THE_MACHINE})


def _files_by_name(values: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: without_folders(value) if isinstance(value, str) else value
        for name, value in values.items()
    }


def without_folders(text: str) -> str:
    """The text with the names of files instead of their absolute paths."""
    return PATH.sub(r"\1", text)


def without_locations(command: str) -> str:
    """The command without the options that say where results are stored."""
    words: list[str] = []
    rest = iter(shlex.split(command))
    for word in rest:
        if word in LOCATIONS:
            next(rest, None)  # the option's value
        elif word.partition("=")[0] not in LOCATIONS:
            words.append(without_folders(word))
    return shlex.join(words)


def readme(published: Store, folder: str) -> str:
    """The folder's README: each study's table, and how it was made."""
    sections = [HEAD.format(folder=folder)]
    # Studies that were published into the folder before stay in its README.
    for key in study_record.names(published):
        judged = open_begun(published, key)
        reference = provenance.reference(provenance.save(published, judged))
        sections += [
            markdown.write(study_table(judged, reference=reference)),
            _made(judged),
        ]
    return "\n\n".join(section.strip() for section in sections) + "\n"


def _made(judged: Judged) -> str:
    """How a study was made: its command, the time it took, the machines and the code."""
    record, journals = judged.record, judged.journals
    done = sum(journal.outcome is not None for journal in journals.values())
    seconds = judged.seconds
    attempts = [attempt for journal in journals.values() for attempt in journal.attempts]
    precisions = (journal.trial.precision for journal in journals.values())
    lines = [
        f"`{record.command}`" if record.command else "",
        f"{done} of {record.num_trials()} trials, {duration(seconds)} of training in all",
        _listed("started", ((attempt.started or "")[:10] for attempt in attempts)),
        _listed("on", (attempt.hardware for attempt in attempts)),
        _listed("with", (_libraries(attempt) for attempt in attempts)),
        _listed("large products in", precisions),
        _listed("ablate at", (_code(attempt) for attempt in attempts)) + _of_unknown_code(journals),
    ]
    return "How it was made:\n\n" + "\n".join(f"- {line}" for line in lines if line)


def _listed(word: str, values: Iterable[Any]) -> str:
    known = sorted({str(value) for value in values if value})
    return f"{word} {', '.join(known)}" if known else ""


def _of_unknown_code(journals: Mapping[str, Journal]) -> str:
    """How many trials ran, in some attempt, code of which no commit was recorded."""
    ended = [journal for journal in journals.values() if journal.attempts]
    num = sum(not all(map(_code, journal.attempts)) for journal in ended)
    if not 0 < num < len(ended):
        return ""
    return f"; {counted(num, 'trial')} recorded no commit"


def _libraries(attempt: Attempt) -> str:
    versions = attempt.versions or {}
    named = (f"{name} {versions[name]}" for name in ("ablate", "torch") if name in versions)
    return " and ".join(named)


def _code(attempt: Attempt) -> str:
    git = attempt.ablate_git or {}
    changed = " with local changes" if git.get("dirty") else ""
    return f"{git['commit'][:12]}{changed}" if git.get("commit") else ""
