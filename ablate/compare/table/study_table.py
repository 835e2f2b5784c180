"""A study's table as people read it first: the question, the arms, the answer, and the few lines
that change how this table is read. How its numbers were made is in `full_table.py`."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from operator import attrgetter

from ablate.compare.formats import Column, Table, for_people
from ablate.compare.judged import Judged
from ablate.compare.table import care, notes
from ablate.compare.table import columns as shown
from ablate.compare.table.answer import answer, what_next
from ablate.compare.table.short_columns import effect_columns, short_columns
from ablate.compare.text.figures import decimal, duration


def study_table(judged: Judged, *, reference: str = "", there: str = "") -> Table:
    """A row for each arm, then the answer; below it a factorial's effects. `there`: options with
    which a command finds the study's store."""
    effects = _effects(judged)
    return for_people(
        short_columns(judged),
        judged.arms,
        title=judged.record.key,
        question=judged.record.question,
        settings=[_made_of(judged)],
        warnings=[*care.changed_or_lost(judged)],
        answer=[*answer_sentences(judged)],
        notes=[*notes_of_this(judged), *filter(None, [how_made(judged, there)])],
        further=[] if effects is None else [effects],
        reference=reference,
    )


def answer_sentences(judged: Judged) -> Iterator[str]:
    """The answer and what to run next, as one paragraph."""
    said = " ".join([*answer(judged), *what_next(judged)])
    yield from [said] if said else []


def notes_of_this(judged: Judged) -> Iterator[str]:
    """What to know of this very table."""
    yield from care.elsewhere(judged)
    yield from notes.ensembles(judged)
    yield from care.with_care(judged)
    yield from care.of_paper(judged)


def how_made(judged: Judged, there: str = "") -> str:
    """The command that shows everything else; results that were judged in Python have none."""
    record, kept = judged.record, judged.record.kept_plan
    planned = f"{kept} " if kept is not None and kept.is_whole else ""
    command = f"ablate table {shlex.quote(record.key)} --notes{there}"
    if record.imported:
        command = "the same command with --notes" if record.command else ""
    return f"{planned}How these numbers were made: {command}" if command else ""


def _made_of(judged: Judged) -> str:
    """Text, seeds, what is measured, and the training that it took."""
    record = judged.record
    parts = [f"imported from {record.imported}" if record.imported else record.corpus]
    parts += [notes.repeated(judged), f"{_measured(judged)}{_best_possible(judged)}"]
    parts += [f"{duration(judged.seconds)} of training"] if judged.seconds else []
    return ", ".join(filter(None, parts))


def _measured(judged: Judged) -> str:
    """`test perplexity`; of a metric that people may not know, which way is better."""
    metric = judged.metric
    split = "" if judged.record.imported else f"{judged.split} "
    better = " (higher is better)" if metric.better == "higher" else ""
    return f"{split}{metric.shown}{better}"


def _best_possible(judged: Judged) -> str:
    best = judged.floor.get(judged.split)
    return f" (best possible {decimal(best, shown.decimals(judged))})" if best is not None else ""


def _effects(judged: Judged) -> Table | None:
    """A factorial's effects and interactions; None for other designs."""
    effects = judged.effects
    if effects is None or not effects.effects:
        return None
    columns = [
        *effect_columns(judged),
        Column("verdict", attrgetter("verdict"), left=True, first=1),
    ]
    return for_people(columns, effects.every)
