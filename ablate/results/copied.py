"""Listed settings that a search had found: the search's rule holds for them too.

A winner's settings, typed into a listed scale, bring back the verdicts that a table of the search
does not have: the seeds share the search's luck. So the records of searches in the same store are
looked at. A scale counts as copied if each arm that the search tuned, and that this scale lists,
has the values of its recorded winner or values near these, and began after the winner had started.
Where no arm has the name of a tuned one, each arm must have the values of some winner.

Searches of another study count if they read the same text and their winners differ: settings that
all arms share are of no arm's luck. Searches that nobody recorded cannot be noticed; `searched` in
the study says so.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ablate.errors import AblateError
from ablate.results.settings import Settings, winning_settings
from ablate.store import journal as journals
from ablate.store import study_record
from ablate.store.journal import Journal
from ablate.store.store import Store
from ablate.store.study_record import StudyRecord

NEAR = 0.1  # of two numbers, as a share of the larger: 0.0021 is typed in for 0.00204


@dataclass(frozen=True)
class _Winner:
    """What a search found, and the trial that had these settings first."""

    settings: Settings
    trial: Journal


def copied_from(
    store: Store, record: StudyRecord, known: Mapping[str, Journal]
) -> StudyRecord | None:
    """The record of the scale whose winners a listed scale has; None if it has its own settings."""
    if record.searches or record.num_searches is not None or not known:
        return None
    searched = _searched(store, record)
    return next((other for other in searched if _has_winners(store, other, record, known)), None)


def _searched(store: Store, record: StudyRecord) -> Iterator[StudyRecord]:
    """The records of searches whose winners may be listed here."""
    for key in study_record.names(store):
        is_own = key.split("@")[0] == record.name
        try:
            other = study_record.read(store, key)
        except AblateError:
            if is_own:
                raise
            continue  # a damaged record of another study is no concern of this table
        if key != record.key and (is_own or other.corpus_digest == record.corpus_digest):
            yield other


def _has_winners(
    store: Store, searched: StudyRecord, record: StudyRecord, known: Mapping[str, Journal]
) -> bool:
    winners = _winners(store, searched)
    listed = [arm.name for arm in record.arms]
    tuned = [arm for arm in listed if arm in winners]
    every = [one for of_arm in winners.values() for one in of_arm]
    found = [
        _copied(_first(record, arm, known), winners.get(arm, every)) for arm in tuned or listed
    ]
    differ = len({repr(settings) for settings in found}) > 1
    return None not in found and (differ or searched.name == record.name)


def _winners(store: Store, searched: StudyRecord) -> dict[str, list[_Winner]]:
    """Arm -> what its searches found."""
    searches = [s for s in searched.searches if s.chosen and s.seed_index is None]
    tried = journals.read_all(store, [trial for search in searches for trial in search.trials])
    found = winning_settings(searched, tried)
    winners: dict[str, list[_Winner]] = {}
    for search in searches:
        settings = found.get(search.arm, {}).get(search.repeat)
        if settings and search.chosen in tried:
            winners.setdefault(search.arm, []).append(_Winner(settings, tried[search.chosen]))
    return winners


def _copied(own: Journal | None, winners: Sequence[_Winner]) -> Settings | None:
    """The winner's settings that a trial has, and may have from there."""
    if own is None:
        return None
    alike = (one for one in winners if _has(own, one.settings))
    return next((one.settings for one in alike if not _began_before(own, one.trial)), None)


def _first(record: StudyRecord, arm: str, known: Mapping[str, Journal]) -> Journal | None:
    """The first trial of an arm that began, at the start of its chain."""
    planned = (known.get(trial.id) for trial in record.trials_of(arm) if not trial.parents)
    return next((journal for journal in planned if journal and journal.config), None)


def _has(own: Journal, settings: Settings) -> bool:
    config = own.config
    return all(name in config and _near(config[name], settings[name]) for name in settings)


def _near(own: Any, found: Any) -> bool:
    numbers = all(
        isinstance(one, int | float) and not isinstance(one, bool) for one in (own, found)
    )
    if not numbers:
        return own == found
    return abs(own - found) <= NEAR * max(abs(own), abs(found))


def _began_before(own: Journal, winner: Journal) -> bool:
    """Return whether a trial had started before the winner had, so that nothing was copied."""
    starts = [each.attempts[0].started for each in (own, winner) if each.attempts]
    return len(starts) == 2 and None not in starts and str(starts[0]) < str(starts[1])
