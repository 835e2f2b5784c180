"""Epochs and attempts as types: what lies on disk is what it was before they were."""

from __future__ import annotations

import json
import shutil
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ablate.errors import StoreError
from ablate.store import checksum
from ablate.store import journal as journals
from ablate.store.attempt import NAMES, Attempt
from ablate.store.epoch import Epoch
from ablate.store.store import Store
from tests.support import places
from tests.support.records_by_hand import make_journal

ARCHIVE = places.GOLDEN / "workspace_0.1.0.tar.xz"

PLAIN = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5)
NUMBERS = st.integers(-(10**9), 10**9) | st.floats(allow_nan=False, allow_infinity=False)
METRICS = st.dictionaries(st.text(max_size=8) | st.just("event"), PLAIN, max_size=4)
ODD = st.none() | st.sampled_from(["nan", "inf", "-inf", "3 s"])  # as older journals may have them
TEXTS = st.lists(st.text(max_size=5), max_size=3)
MAPPINGS = st.dictionaries(st.text(max_size=5), PLAIN, max_size=3)
KEPT = st.fixed_dictionaries({"where": st.text(max_size=5), "names": TEXTS})
OF_TYPE = {
    "int": st.integers(),
    "float": st.floats(allow_nan=False, allow_infinity=False),
    "str": st.text(max_size=9),
    "tuple": TEXTS,
    "Kept": KEPT,
}


def part(kind: str) -> st.SearchStrategy[Any]:
    """Plain values of a field's type, of which None is not written."""
    return OF_TYPE.get(kind.partition("[")[0].partition(" ")[0], MAPPINGS)


PARTS = {each.name: part(str(each.type)) for each in fields(Attempt) if each.name in NAMES}
PARTS["closure"] = st.dictionaries(st.text(max_size=5), MAPPINGS, max_size=3)
COUNTS = {name: PARTS.pop(name) for name in ("epochs_before", "from_epoch")}  # always written
GIT = st.none() | MAPPINGS
KNOWN = {"versions": PARTS.pop("versions"), "git": GIT, "ablate_git": GIT}  # of a known machine
OTHERS = st.dictionaries(st.text(max_size=9).filter(lambda n: n not in NAMES), PLAIN, max_size=3)


@given(
    number=st.integers(),
    metrics=METRICS,
    clock=st.fixed_dictionaries({}, optional={"seconds": NUMBERS | ODD, "tokens": NUMBERS | ODD}),
)
def test_an_epoch_s_plain_form_survives(number, metrics, clock):
    plain = {**metrics, "epoch": number, **clock}
    epoch = Epoch.from_plain(plain)
    assert same(epoch.to_plain(), plain)
    assert Epoch.from_plain(epoch.to_plain()) == epoch and epoch.number == number


@given(st.integers(), METRICS, st.none() | NUMBERS, st.none() | NUMBERS)
def test_an_epoch_survives(number, metrics, seconds, tokens):
    reserved = ("epoch", "seconds", "tokens")
    metrics = {name: value for name, value in metrics.items() if name not in reserved}
    epoch = Epoch(number, metrics, seconds, tokens)
    assert Epoch.from_plain(json.loads(json.dumps(epoch.to_plain()))) == epoch


def test_only_finite_seconds_and_tokens_are_counted():
    odd = Epoch.from_plain({"epoch": 2, "seconds": "nan", "tokens": None, "event": None})
    assert (odd.seconds, odd.tokens, odd.event) == (None, None, "")
    whole = Epoch.from_plain({"epoch": 2, "seconds": 3, "tokens": 7, "event": "averaged"})
    assert (whole.seconds, whole.tokens, whole.event) == (3, 7, "averaged")
    assert whole.metrics == {"event": "averaged"}


@given(
    counts=st.fixed_dictionaries(COUNTS),
    parts=st.fixed_dictionaries({}, optional=PARTS),
    known=st.just({}) | st.fixed_dictionaries(KNOWN),
    others=OTHERS,
)
def test_an_attempt_s_plain_form_survives(counts, parts, known, others):
    plain = {**others, **counts, **parts, **known}
    attempt = Attempt.from_plain(plain)
    assert same(attempt.to_plain(), plain)
    assert Attempt.from_plain(attempt.to_plain()) == attempt and attempt.others == others


def test_a_note_keeps_the_rest_of_the_last_attempt():
    journal = make_journal("t1")
    before = journal.last_attempt
    journal.attempts.append(before)
    journal.note(pid=17, output=("a", "b"))
    assert journal.attempts[0] == before and before.pid is None
    more = {"pid": 17, "output": ["a", "b"]}
    assert journal.last_attempt.to_plain() == {**before.to_plain(), **more}


def recorded() -> list[Path]:
    return sorted((places.ROOT / "results" / "trials").glob("*/journal.json"))


def test_recorded_journals_are_written_as_they_were(tmp_path):
    files = recorded()
    assert len(files) > 200
    for file in files:
        assert_written_as_it_was(file, Store(str(tmp_path)))


def test_journals_of_version_0_1_0_are_written_as_they_were(tmp_path):
    shutil.unpack_archive(ARCHIVE, tmp_path, filter="data")
    files = sorted((tmp_path / "workspace" / "store" / "trials").glob("*/journal.json"))
    assert len(files) > 10
    for file in files:
        assert_written_as_it_was(file, Store(str(tmp_path / "again")))


def assert_written_as_it_was(file: Path, store: Store) -> None:
    journal = journals.read(Store(str(file.parents[2])), file.parent.name)
    assert journal is not None
    journal.write(store)
    again = store.folder / journals.key(journal.trial.id)
    then, now = (json.loads(each.read_bytes()) for each in (file, again))
    now.pop(checksum.FIELD), then.pop(checksum.FIELD, None)
    then["trial"]["runner"] = journal.trial.runner  # version 0.1.0 named its module and class
    assert same(now, {"deaths": [], **then}), file  # which it did not count


def same(one: Any, other: Any) -> bool:
    """As JSON, so that 1 is not 1.0, and a list is no tuple's repr."""
    return json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)


WRONG = {
    "attempts": {
        "versions": ("1.0", "attempts[0].versions is a text, and must be a mapping"),
        "git": ([], "attempts[0].git is a list, and must be a mapping"),
        "from_epoch": ("2", "attempts[0].from_epoch is a text, and must be a whole number"),
        "started": (7, "attempts[0].started is a whole number, and must be a text or null"),
        "computed_by": ("torch", "attempts[0].computed_by is a text, and must be a list"),
        "neutral": (["a", 1], "attempts[0].neutral[1] is a whole number, and must be a text"),
        "kept_outside": ({"names": ["a"]}, "attempts[0].kept_outside has no where"),
        "output": ({}, "attempts[0].output is a mapping, and must be a list"),
    },
    "epochs": {
        "epoch": (1.5, "epochs[0].epoch is a number, and must be a whole number"),
        "seconds": ([], "epochs[0].seconds is a list, and must be a number or a text or null"),
        "tokens": ("many", "epochs[0].tokens is a text, and must be a number or null"),
        "event": (3, "epochs[0].event is a whole number, and must be a text or null"),
    },
}


@pytest.mark.parametrize(("part", "name"), [(p, name) for p in WRONG for name in WRONG[p]])
def test_a_wrong_type_is_refused_with_its_field_and_place(tmp_path, part, name):
    value, said = WRONG[part][name]
    is_refused(Store(str(tmp_path)), part, lambda row: {**row, name: value}, said)


@pytest.mark.parametrize("part", ["attempts", "epochs", "deaths"])
@pytest.mark.parametrize(
    ("row", "kind"), [(7, "a whole number"), ("started", "a text"), ([], "a list")]
)
def test_what_is_no_mapping_is_refused(tmp_path, part, row, kind):
    said = f"{part}[0] is {kind}, and must be a mapping"
    is_refused(Store(str(tmp_path)), part, lambda _: row, said)


def is_refused(store: Store, part: str, change: Any, said: str) -> None:
    journal = make_journal("t1")
    journal.deaths = [{"epochs": 0, "seen": "", "why": "killed"}]
    journal.write(store)
    plain = store.read_json(journals.key("t1")) or {}
    store.write_json(journals.key("t1"), {**plain, part: [change(plain[part][0])]})
    with pytest.raises(StoreError) as refused:
        journals.read(store, "t1")
    assert f"({said}" in str(refused.value)
