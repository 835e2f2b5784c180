"""Other processes see which trials a process runs, whatever else that opens and closes."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from ablate.store.claims import FILE, Claims
from ablate.store.leftovers import sweep
from ablate.store.store import Store
from tests.support.claiming import is_free

TRIAL, OTHER = "00000000000000aa", "00000000000000bb"


@pytest.fixture
def store(tmp_path) -> Store:
    return Store(str(tmp_path / "store"))


def test_what_is_closed_runs_elsewhere(store):
    claims = Claims(store)
    assert claims.claim(TRIAL) and claims.claim(OTHER)
    assert not is_free(store, TRIAL)
    claims.close()
    assert is_free(store, TRIAL) and is_free(store, OTHER)
    assert claims.claim(TRIAL) and not is_free(store, TRIAL)


def test_a_driver_that_ends_releases_nothing_of_another_one(store):
    """POSIX drops all locks of a process on a file when it closes the file once."""
    first, second = Claims(store), Claims(store)
    assert first.claim(TRIAL) and second.claim(OTHER) and second.claim(TRIAL)
    second.close()
    del second
    assert not is_free(store, TRIAL) and is_free(store, OTHER)
    first.release(TRIAL)
    assert is_free(store, TRIAL)


def test_a_store_that_was_deleted_is_locked_again(store):
    old, new = Claims(store), Claims(store)
    assert old.claim(TRIAL)
    (store.folder / FILE).unlink()
    assert is_free(store, TRIAL)
    assert new.claim(TRIAL) and not is_free(store, TRIAL)


def test_trials_of_a_store_elsewhere_are_claimed_on_this_machine(tmp_path, monkeypatch):
    """In a folder for temporary files, each store by itself; nothing sweeps it away."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    here, there = (SimpleNamespace(folder=None, uri=f"s3://bucket/{n}") for n in ("a", "b"))
    claims = Claims(here)
    assert claims.claim(TRIAL) and not is_free(here, TRIAL) and is_free(there, TRIAL)
    sweep(tmp_path / "workspace", [tmp_path])
    assert not is_free(here, TRIAL)
    claims.release(TRIAL)
    assert is_free(here, TRIAL)
