"""The names that a study gives its trials."""

from __future__ import annotations

from typing import NamedTuple

from ablate.config.identity import StageName, trial_name
from ablate.store.study_record import StudyRecord


class Label(NamedTuple):
    """A trial's name in a study."""

    arm: str
    stage: str
    name: str
    seed_index: int | None = None
    final: bool = False


def labels_of(record: StudyRecord) -> dict[str, Label]:
    """Each trial's label in a study; for a trial that arms share, the first whose result it is."""
    searched = {
        trial_id: Label(search.arm, StageName.SEARCH, f"{search.arm} search {search.repeat} #{n}")
        for search in record.searches
        for n, trial_id in enumerate(search.trials, 1)
    }
    listed: dict[str, Label] = {}
    for planned in sorted(record.trials, key=lambda planned: not planned.final):
        name = trial_name(planned.arm, planned.stage, planned.seed)
        label = Label(planned.arm, planned.stage, name, planned.seed_index, planned.final)
        listed.setdefault(planned.id, label)
    return searched | listed
