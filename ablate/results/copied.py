"""Listed settings that a search of the same study had found: the search's rule holds for them too.

A winner's settings, typed into a listed scale, bring back the verdicts that a table of the search
does not have: the seeds share the search's luck. So the records of the same study at its other
scales, in the same store, are looked at; no others. A scale counts as copied if every arm that the
search tuned, and that this scale lists, has all values of its recorded winner, and began after the
winner had started. Rounded values, and searches that nobody recorded, cannot be noticed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ablate.results.settings import Settings, winning_settings
from ablate.store import journal as journals
from ablate.store import study_record
from ablate.store.journal import Journal
from ablate.store.store import Store
from ablate.store.study_record import StudyRecord


def copied_from(
    store: Store, record: StudyRecord, known: Mapping[str, Journal]
) -> StudyRecord | None:
    """The record of the scale whose winners a listed scale has; None if it has its own settings."""
    if record.searches or record.num_searches is not None:
        return None
    searched = _searched(store, record)
    return next((other for other in searched if _has_winners(store, other, record, known)), None)


def _searched(store: Store, record: StudyRecord) -> Iterator[StudyRecord]:
    """The records of the study's other scales that searched settings."""
    for key in study_record.names(store):
        if key != record.key and key.split("@")[0] == record.name:
            other = study_record.read(store, key)
            if any(s.chosen and s.seed_index is None for s in other.searches):
                yield other


def _has_winners(
    store: Store, searched: StudyRecord, record: StudyRecord, known: Mapping[str, Journal]
) -> bool:
    listed = {arm.name for arm in record.arms}
    searches = [s for s in searched.searches if s.arm in listed and s.seed_index is None]
    tried = journals.read_all(store, [trial for s in searches for trial in s.trials])
    found = winning_settings(searched, tried)
    winners = {s.arm: [tried[s.chosen]] for s in searches if s.chosen in tried}
    tuned = [arm for arm in found if arm in listed]
    return bool(tuned) and all(
        any(_equals(own, settings) for settings in found[arm].values())
        and not _began_before(own, winners[arm][0])
        for arm in tuned
        for own in [_first(record, arm, known)]
    )


def _first(record: StudyRecord, arm: str, known: Mapping[str, Journal]) -> Journal | None:
    """The first trial of an arm that began, at the start of its chain."""
    planned = (known.get(trial.id) for trial in record.trials_of(arm) if not trial.parents)
    return next((journal for journal in planned if journal and journal.config), None)


def _equals(own: Journal | None, settings: Settings) -> bool:
    if own is None or not settings:
        return False
    return all(name in own.config and own.config[name] == settings[name] for name in settings)


def _began_before(own: Journal | None, winner: Journal) -> bool:
    """Return whether a trial had started before the winner had, so that nothing was copied."""
    starts = [each.attempts[0].started for each in (own, winner) if each and each.attempts]
    return len(starts) == 2 and None not in starts and str(starts[0]) < str(starts[1])
