"""The commands that ask across studies: the mirror brought up to date, a question, its answer.

A mirror that turns out damaged while a question reads it is made again, and the question asked
once more; what is to be said of that, or of a server that did not answer, goes to stderr.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any

from ablate.errors import ConfigError
from ablate.workspace import Workspace


def query(workspace: Workspace, sql: str, form: str) -> str:
    """`ablate query SQL`"""
    from ablate.compare import query as queries

    return queries.shown(_asked(workspace, lambda mirror: queries.ask(mirror, sql)), form)


def compare(
    workspace: Workspace, names: Sequence[str], slots: str | None, split: str | None, form: str
) -> str:
    """`ablate compare STUDY...|PAPER...`, or `ablate compare --except SLOT`"""
    from ablate.compare import beside, pairs
    from ablate.compare import query as queries

    if (slots is None) == (not names):
        raise ConfigError(
            "compare: name studies or papers, or what may differ with --except; one of the two."
        )
    if slots is None:
        return queries.shown(_asked(workspace, lambda m: beside.beside(m, names, split)), form)
    wanted = [name.strip() for name in slots.split(",") if name.strip()]
    if not wanted:
        raise ConfigError("--except names no slot. Allowed: a slot or a field, or more with ','.")
    found = _asked(workspace, lambda mirror: pairs.exchange(mirror, wanted, split or "valid"))
    return pairs.plain_text(found) if form == "table" else queries.shown(pairs.answer(found), form)


def importance(workspace: Workspace, name: str) -> str:
    """`ablate importance STUDY`"""
    from ablate import study_record
    from ablate.compare import importance as writing

    record = study_record.read(workspace.store, name)
    from ablate.tune.importance import importances

    return writing.plain_text(record.key, importances(record, workspace.searches))


def provenance(workspace: Workspace, key: str) -> str:
    """`ablate provenance HASH`"""
    from ablate.compare import provenance as behind

    return behind.show(workspace.store, key)


def _asked(workspace: Workspace, question: Callable[[Any], Any]) -> Any:
    """The answer to a question, from a mirror that is up to date and whole."""
    from ablate.compare.query import MirrorDamaged
    from ablate.mirror.syncing import up_to_date

    mirror = up_to_date(workspace)
    _say(mirror.notes)
    try:
        return question(mirror)
    except MirrorDamaged as damage:
        _say([f"the mirror was damaged ({damage}): rebuilt."])
    return question(up_to_date(workspace, afresh=True))


def _say(notes: Sequence[str]) -> None:
    for note in notes:
        print(f"ablate: {note}", file=sys.stderr)
