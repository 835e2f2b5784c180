"""What the searches of a study found: the settings of each searched arm's winner."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ablate.results.result import result_of
from ablate.store.journal import Journal
from ablate.store.study_record import OR, SearchRecord, StudyRecord

Settings = Mapping[str, Any]  # field -> value
Found = Mapping[str, Mapping[int, Settings]]  # arm -> repeat of its search -> what it found


def winning_settings(
    record: StudyRecord,
    journals: Mapping[str, Journal],
    *,
    so_far: bool = False,
    active: bool = False,
) -> Found:
    """The searched fields of each arm's winners; arms and searches without a winner are left out,
    and so are fields of techniques that a winner does not use.

    With `so_far`, a search that is not over gives the best of its completed trials. Searches of how
    to evaluate finished models have the number of the model's seed (from 0) for the repeat.
    With `active`, fields of rows that were inactive are left out, too: nobody set them.
    `row_names` has the names that the search space gives to the fields.
    """
    found: dict[str, dict[int, Settings]] = {}
    for arm in record.arms:
        for search in record.searches_of(arm.name):
            winner = journals.get(_winner(search, record, journals, so_far) or "")
            if winner is not None and winner.config:
                number = search.repeat if search.seed_index is None else search.seed_index
                fields, config = _fields(search, journals), winner.config
                known = winner.trial.values if active else config
                values = {name: config[name] for name in fields if name in config and name in known}
                found.setdefault(arm.name, {})[number] = values
    return found


def row_names(record: StudyRecord) -> dict[str, str]:
    """Field -> the row of the search space that sets it, or the rows: arms may have their own, such
    as the rate of each optimizer. Empty for older records."""
    rows: dict[str, dict[str, None]] = {}
    for search in record.searches:
        for field, names in search.rows.items():
            rows.setdefault(field, {}).update(dict.fromkeys(names.split(OR)))
    return {field: OR.join(names) for field, names in rows.items()}


def varied(configs: Sequence[Settings]) -> list[str]:
    """The fields that differ between configs; one that some of them lack differs, too."""
    fields = dict.fromkeys(name for config in configs for name in config)
    return [name for name in fields if _differ(config.get(name) for config in configs)]


def _differ(values: Iterable[Any]) -> bool:
    return len({repr(value) for value in values}) > 1


def _winner(
    search: SearchRecord, record: StudyRecord, journals: Mapping[str, Journal], so_far: bool
) -> str | None:
    if search.chosen is not None or not so_far:
        return search.chosen
    started = (trial for trial in search.trials if trial in journals)
    losses = {trial: result_of(journals[trial]).loss(record.metric, "valid") for trial in started}
    known = {trial: loss for trial, loss in losses.items() if loss is not None}
    return min(known, key=known.__getitem__, default=None)


def _fields(search: SearchRecord, journals: Mapping[str, Journal]) -> Sequence[str]:
    """What the search varied; of older records, what differs between its trials."""
    if search.rows:
        return list(search.rows)
    started = (journals[trial] for trial in search.trials if trial in journals)
    return varied([journal.config for journal in started if journal.config])
