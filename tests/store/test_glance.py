"""What a journal says at a glance is what it says when it is parsed; damage is still noticed."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ablate.commands import status
from ablate.config.identity import Trial
from ablate.errors import DamagedError
from ablate.store import glance, study_record
from ablate.store import journal as journals
from ablate.store.attempt import Attempt
from ablate.store.journal import Journal
from ablate.store.outcome import Outcome, Status
from ablate.store.store import Store
from ablate.store.workspace import open_workspace
from tests.support.records_by_hand import make_journal, make_study, trial_id

TRAPS = st.sampled_from(
    [
        '\n "outcome": null',
        '\n  "status": "failed"',
        "\n ]",
        '"status"',
        '\n "attempts": [\n  {',
        "\\",
    ]
)
PLAIN = st.recursive(
    TRAPS | st.text() | st.none() | st.integers() | st.booleans(),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            TRAPS | st.sampled_from(["status", "outcome", "attempts"]), inner, max_size=3
        )
    ),
    max_leaves=8,
)
ROWS = st.lists(st.dictionaries(st.text(max_size=2) | TRAPS, PLAIN, max_size=3), max_size=3)


@pytest.fixture(scope="module")
def store(tmp_path_factory) -> Store:
    return Store(str(tmp_path_factory.mktemp("store")))


@given(
    attempts=ROWS,
    config=st.dictionaries(TRAPS, PLAIN, max_size=2),
    ended=st.none() | st.sampled_from(list(Status)[:4]),
    metrics=st.dictionaries(TRAPS | st.just("status"), PLAIN, max_size=2),
    reason=st.none() | TRAPS,
)
def test_a_glance_agrees_with_the_whole(store, attempts, config, ended, metrics, reason):
    outcome = None if ended is None else Outcome(status=ended, metrics=metrics, reason=reason)
    trial = Trial(id="t", values={}, seed=1, corpus_digest="c")
    made = [*map(Attempt.from_plain, attempts)]
    Journal(trial, config, made, outcome=outcome).write(store)
    whole = journals.read(store, "t")
    assert whole is not None
    assert glance.ends(store, ["t"]) == {"t": whole.status}
    expected = whole.status, len(whole.attempts)
    assert glance._from_lines(store.read(journals.key("t")) or b"") == expected


def test_a_trial_without_a_journal_has_none(store):
    assert glance.ends(store, ["missing"]) == {}


@pytest.mark.parametrize(
    ("indent", "sealed"), [(None, False), (1, False), (4, False), (1, True)]
)  # a checksum is filled in only where our own writer has it
def test_a_file_in_another_form_is_parsed(store, indent, sealed, monkeypatch):
    """Older versions wrote no checksum; somebody's own tool may write other lines."""
    make_journal("old").write(store)
    plain = store.read_json(journals.key("old")) or {}
    plain |= {"checksum": "ablate-crc32:00000000"} if sealed else {}
    data = json.dumps(plain, indent=indent, sort_keys=True).encode()
    write = store.write if sealed else store.folder.joinpath(journals.key("old")).write_bytes
    write(*((journals.key("old"), data) if sealed else (data,)))  # type: ignore[operator]
    assert glance.ends_and_troubled(store, ["old"]) == ({"old": Status.COMPLETED}, [])


@pytest.mark.parametrize("change", [(b"completed", b"conpleted"), (b"30.0", b"31.0"), (b"}", b"")])
def test_a_damaged_journal_is_an_error(store, change):
    make_journal("hurt").write(store)
    path = store.folder / journals.key("hurt")
    path.write_bytes(path.read_bytes().replace(*change))
    with pytest.raises(DamagedError):
        glance.ends(store, ["hurt"])


def test_a_status_that_there_is_not_is_an_error(store):
    make_journal("odd").write(store)
    plain = store.read_json(journals.key("odd")) or {}
    plain["outcome"]["status"] = "great"
    store.write_json(journals.key("odd"), plain)
    with pytest.raises(DamagedError):
        glance.ends(store, ["odd"])


def test_status_parses_only_the_journals_of_troubled_trials(tmp_path, monkeypatch):
    """With 100,000 trials, to parse them all takes ten seconds."""
    workspace = open_workspace(str(tmp_path))
    trials = [trial_id("mix", index) for index in range(5)]
    study_record.write(workspace.store, make_study(trials=6))
    make_journal(trials[0]).write(workspace.store)
    make_journal(trials[1], status="failed", reason="out of memory").write(workspace.store)
    make_journal(trials[2], status="diverged", reason="nan").write(workspace.store)
    make_journal(trials[3], status=None).write(workspace.store)
    again = make_journal(trials[4])
    again.attempts *= 2
    again.write(workspace.store)
    parsed: list[str] = []
    read = journals.read
    monkeypatch.setattr(journals, "read", lambda *what: parsed.append(what[1]) or read(*what))
    every, *errors = status.show_status(workspace, None).splitlines()[2:]
    assert errors == ["", "Why trials failed or diverged:", "  ablate status mix@laptop"]
    assert every.split() == ["mix@laptop", "2", "of", "6", "1", "1", "2"]
    elsewhere = status.show_status(workspace, None, " --store s3://there")
    assert elsewhere.splitlines()[-1] == "  ablate status mix@laptop --store s3://there"
    assert parsed == []
    one = status.show_status(workspace, "mix")
    assert parsed == [trials[1], trials[2], trials[4]]
    assert "out of memory" in one and "diverged: " in one and "2 attempts: " in one
    assert one.splitlines()[-3:] == [
        f"All that a trial printed: ablate status {trials[1]} --log",
        f"Failed trials are tried again, once the cause is gone, by: {make_study().resume}",
        "A diverged trial is a result, and is not tried again.",
    ]
