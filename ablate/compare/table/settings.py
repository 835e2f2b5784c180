"""What the arms of a table were trained with: what searches found, and what else they differ in.

Settings are those of the trials' configs: resolved, at the study's scale.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from ablate.compare.formats import Column, Table, for_people
from ablate.compare.text.figures import NONE
from ablate.results.settings import Found
from ablate.store.journal import Journal
from ablate.store.replication import counted
from ablate.store.study_record import ArmRecord, StudyRecord

FEW = 5  # fields that a note names, and groups of arms


class _Winner(NamedTuple):
    arm: str
    repeat: int
    settings: Mapping[str, Any]


def found_by_searches(found: Found, names: Mapping[str, str]) -> Table | None:
    """A row for each row of the search space, a column for each winner; None without a winner.

    `names` are those of the search space's rows, by field.
    """
    winners = [
        _Winner(arm, repeat, settings)
        for arm, by_repeat in found.items()
        for repeat, settings in by_repeat.items()
    ]
    fields = dict.fromkeys(field for winner in winners for field in winner.settings)
    if not fields:
        return None
    columns = [Column("setting", lambda field: names.get(field, field), left=True)]
    return for_people(
        [*columns, *(_column(winner, found) for winner in winners)],
        fields,
        title="Settings found by the searches: the best trial of each on validation",
    )


def _column(winner: _Winner, found: Found) -> Column:
    several = len(found[winner.arm]) > 1
    heading = f"{winner.arm} #{winner.repeat + 1}" if several else winner.arm
    return Column(heading, lambda field: _text(winner.settings, field), wraps=True)


def _text(settings: Mapping[str, Any], field: str) -> str:
    value = settings.get(field)
    if value is None:
        return "none" if field in settings else NONE
    return f"{value:.4g}" if isinstance(value, float) else _plain(value)


def _plain(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def also_different(
    record: StudyRecord, journals: Mapping[str, Journal], found: Found
) -> Iterator[str]:
    """What arms differ in from the base arm apart from what the study lists for them, and listed
    values that became others at this scale."""
    configs = {arm.name: _trained(record, journals, arm.name) for arm in record.arms}
    trained = [arm for arm in record.arms if configs[arm.name]]
    searched = {f for by_repeat in found.values() for own in by_repeat.values() for f in own}
    groups: dict[str, list[str]] = {}
    for base in (arm for arm in trained if arm.name == record.base_arm):
        for arm in (each for each in trained if each.against in (None, base.name)):
            listed = {*arm.changes, *base.changes, *searched}
            fields = _unlisted(configs[arm.name], configs[base.name], listed)
            groups.setdefault(", ".join(_few(_joined(fields))), []).append(arm.name)
    groups.pop("", None)
    if groups:
        texts = [f"{', '.join(_few(arms))}: {fields}" for fields, arms in groups.items()]
        yield (
            f"Also different from {record.base_arm}, besides what the study lists for the arm: "
            f"{'; '.join(_few(texts))}."
        )
    adapted = [
        f"{value} ({arm.name})"
        for arm in trained
        for value in _adapted(arm, configs[arm.name], searched)
    ]
    if adapted:
        yield f"At scale {record.scale} trained with {'; '.join(_few(adapted))}."


def _trained(record: StudyRecord, journals: Mapping[str, Journal], arm: str) -> Mapping[str, Any]:
    """The config of the arm's first training."""
    trials = (journals[trial.id] for trial in record.trials_of(arm) if trial.id in journals)
    return next((journal.config for journal in trials if journal.config), {})


def _adapted(arm: ArmRecord, config: Mapping[str, Any], searched: set[str]) -> Iterator[str]:
    """The fields that trained with other values than the study lists for the arm."""
    for field in (field for field in arm.changes if field not in searched):
        value, listed = config.get(field, arm.changes[field]), arm.changes[field]
        if json.dumps(value) != json.dumps(listed):
            yield f"{field} = {_text(config, field)} instead of {_text(arm.changes, field)}"


def _unlisted(config: Mapping[str, Any], other: Mapping[str, Any], listed: set[str]) -> list[str]:
    """The fields of different values that the study does not list.

    Of a technique that only this arm has, those that are on; none if the study lists it.
    """
    slots = {field for field in listed if "." not in field}
    differ = [
        field
        for field, value in config.items()
        if json.dumps(value) != json.dumps(other.get(field)) and (field in other or value)
    ]
    unlisted = (field for field in differ if field not in listed)
    return [field for field in unlisted if field in other or field.split(".")[0] not in slots]


def _joined(fields: Sequence[str]) -> list[str]:
    """The fields; of three or more of one technique, its name."""
    owners = [field.rpartition(".")[0] for field in fields]
    texts = (
        f"{owner}.* ({counted(owners.count(owner), 'field')})" if owners.count(owner) > 2 else field
        for field, owner in zip(fields, owners, strict=True)
    )
    return list(dict.fromkeys(texts))


def _few(texts: Sequence[str]) -> list[str]:
    """The first texts, and how many more there are."""
    more = len(texts) - FEW
    return [*texts] if more <= 1 else [*texts[:FEW], f"{more} more"]
