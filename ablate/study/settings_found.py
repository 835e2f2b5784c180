"""The settings that another scale's searches found, for a scale that takes them over.

    third = Scale(..., settings_of="third_search")

They are read from that scale's record: in the stores that are given (the workspace's), else in the
folder `results` next to the study's file or one folder above it, where `ablate report publish`
wrote it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ablate.config.merge import merge
from ablate.errors import StudyError
from ablate.results.settings import winning_settings
from ablate.store import journal as journals
from ablate.store import study_record
from ablate.store.store import Store
from ablate.store.study_record import StudyRecord, study_key
from ablate.study.study import Study
from ablate.study.words import Arm, Scale, Values

RESULTS = "results"  # the folder that `ablate report publish` writes to, of a repository


@dataclass(frozen=True)
class SettingsFound:
    """What the searches of a scale found: for each arm, the settings of one winner a search."""

    by_arm: Mapping[str, Sequence[Values]]

    @property
    def num_searches(self) -> int:
        """How many searches of each arm are behind the settings."""
        return min(map(len, self.by_arm.values()))

    def values(self, arm: str, values: Values, where: str) -> list[dict[str, Any]]:
        """The arm's values with each winner's settings."""
        return [merge(values, found, where) for found in self.by_arm[arm]]


def settings_found(
    study: Study, scale_name: str, scale: Scale, arms: Sequence[Arm], stores: Sequence[Store]
) -> SettingsFound | None:
    """The settings that the scale takes over; None if it lists its own."""
    if not scale.settings_of:
        return None
    where = f"{study.file or study.name}: scale '{scale_name}': settings_of"
    record, store = _record(study, scale, stores, where)
    ids = [trial for search in record.searches for trial in search.trials]
    found = winning_settings(record, journals.read_all(store, ids))
    planned = Counter(search.arm for search in record.searches if search.seed_index is None)
    by_arm = {arm.name: [*found.get(arm.name, {}).values()] for arm in arms}
    for name, winners in by_arm.items():
        if not winners or len(winners) < planned[name]:
            raise StudyError(
                f"{where} = '{scale.settings_of}': {len(winners)} of {planned[name]} "
                f"searches of arm '{name}' have a winner in {store.uri}. Instead: finish that "
                f"scale first: {_command(study, scale)}"
            )
    _check_not_set(scale, by_arm, where)
    return SettingsFound(by_arm)


def _record(
    study: Study, scale: Scale, stores: Sequence[Store], where: str
) -> tuple[StudyRecord, Store]:
    """The record of the searched scale, and the store that has it."""
    key = study_key(study.name, scale.settings_of)
    folder = Path(study.file).resolve().parent if study.file else Path()
    published = [each / RESULTS for each in (folder, folder.parent) if (each / RESULTS).is_dir()]
    known = [*stores, *(Store(str(each)) for each in published)]
    store = next((each for each in known if study_record.exists(each, key)), None)
    if store is None:
        places = ", ".join(each.uri for each in known) or "no store"
        raise StudyError(
            f"{where} = '{scale.settings_of}': there is no record of {key} (looked in {places}). "
            f"Instead: run that scale first: {_command(study, scale)}"
        )
    return study_record.read(store, key), store


def _command(study: Study, scale: Scale) -> str:
    return f"ablate study {study.file or study.name} --scale {scale.settings_of}"


def _check_not_set(scale: Scale, by_arm: Mapping[str, Sequence[Values]], where: str) -> None:
    """Check that the scale itself does not set what was searched."""
    searched = {field for winners in by_arm.values() for found in winners for field in found}
    twice = next((field for field in scale.changes if field in searched), None)
    if twice is not None:
        raise StudyError(
            f"{where} = '{scale.settings_of}' found {twice}, which the scale's changes set to "
            f"{scale.changes[twice]!r}. Instead: leave it out of changes."
        )
