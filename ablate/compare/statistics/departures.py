"""Where an arm's settings depart from the paper's own table of settings.

An arm starts from a recipe, which is a table of the paper (`search_spaces/*.toml`). Its numbers are
comparable with the paper's only if the arm still has every value that this table sets, except for
the changes that the arm is about: they make it this row of the paper's results.
The first departure is reported: `optimizer adam, not sgd`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ablate.config.registry import single_slots
from ablate.config.tasks import COUNTING
from ablate.errors import SpaceError
from ablate.space import space as spaces
from ablate.space.row import format_value, same
from ablate.store.journal import Journal
from ablate.store.study_record import ArmRecord, StudyRecord

CORPUS = "corpus"  # other checks are of the text


def departure(record: StudyRecord, arm: ArmRecord, trained: Journal | None) -> str:
    """The first value that is not the paper's; empty if there is none, or nothing to tell by.

    `trained` is a trial of the arm's first training, before any stage.
    """
    paper = _recipe(record, arm)
    if not paper or trained is None or trained.trial.runner == COUNTING:
        return ""  # a model of counts has none of these settings
    config = trained.config
    own = {key.partition("[")[0] for key in arm.changes}
    found = [each for each in _departures(paper, config) if each[0] not in own]
    found.sort(key=lambda each: each[0] not in single_slots())  # a technique before its fields
    return next((f"{name} {ours}, not {theirs}" for name, ours, theirs in found), "")


def _departures(
    paper: Mapping[str, Any], config: Mapping[str, Any]
) -> Iterator[tuple[str, str, str]]:
    for name, theirs in paper.items():
        ours = config.get(name)
        if name.startswith(f"{CORPUS}.") or same(theirs, ours) or (_off(theirs) and _off(ours)):
            continue
        if name not in config and _is_of_another(name, paper, config):
            continue  # the technique itself departs, which says more
        yield name, "none" if ours is None else format_value(ours), format_value(theirs)


def _is_of_another(name: str, paper: Mapping[str, Any], config: Mapping[str, Any]) -> bool:
    slot = name.partition(".")[0]
    return slot in single_slots() and not same(paper.get(slot), config.get(slot))


def _off(value: Any) -> bool:
    """Return whether a value switches a technique off, which leaves no trace."""
    return value is None or value is False or (type(value) in (int, float) and value == 0)


def _recipe(record: StudyRecord, arm: ArmRecord) -> Mapping[str, Any]:
    """The values of the arm's recipe, if it is a table of the study's paper that can be read."""
    name, _, column = arm.recipe.partition(":")
    try:
        table = spaces.load(name) if name else None
        if table is None or table.paper != record.paper:
            return {}
        columns = (column, record.column, record.corpus.partition(" ")[0])
        known = next((each for each in columns if each in table.corpora), None)
        if table.corpora and known is None:
            return {}
        return table.values(known)
    except SpaceError:  # a file next to the study, which may be elsewhere
        return {}
