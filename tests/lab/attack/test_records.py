"""A short slice of the attack on records, and what is said of a field of another type."""

from __future__ import annotations

import pytest

from ablate.store.store import Store
from tests.lab.attack import records
from tests.lab.attack.tally import Tally
from tests.lab.attack.workspace import ablate

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]
TRIES = 2  # of each kind


@pytest.fixture(scope="module")
def place(tmp_path_factory) -> records.Place:
    return records.Place(tmp_path_factory.mktemp("records"))


@pytest.mark.parametrize("kind", records.KINDS)
def test_changed_records_give_a_result_or_one_clear_error(place, kind):
    tally = records.tally(place, kind, 17, TRIES)
    assert tally == Tally(f"records: {kind}", tried=TRIES), "\n".join(tally.examples)


FIELDS = {
    "arms": ("x", "arms is a text, and must be a list"),
    "trials": ([{}], "trials[0] has no id"),
    "floor": ("x", "floor is a text, and must be a mapping"),
    "num_seeds": ("three", "num_seeds is a text, and must be a whole number"),
    "judged_by": ({"name": ""}, "judged_by: Metric: name = '' is not allowed"),
}


@pytest.mark.parametrize("field", FIELDS)
def test_a_study_s_field_of_another_type_is_named(place, field, monkeypatch):
    """The checksum is right: whoever wrote it meant it. It ended `table` with a traceback."""
    value, said = FIELDS[field]
    store, key = place.restore(), f"studies/{records.STUDY}/study.json"
    store.write_json(key, {**(store.read_json(key) or {}), field: value})
    _is_refused(place, store, monkeypatch, key, said)


def _is_refused(
    place,
    store: Store,
    monkeypatch,
    key: str,
    said: str,
    commands: tuple[str, ...] = ("table", "status", "publish", "query"),
) -> None:
    monkeypatch.chdir(place.folder)
    for command in commands:
        ended = ablate(*records.COMMANDS[command]("none"))
        assert ended.status == 4 and f"{key} in the store " in ended.error, ended
        assert f"is damaged ({said}" in ended.error
