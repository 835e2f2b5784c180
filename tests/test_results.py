"""The recorded results that the repository holds: intact, and as their README shows them."""

from __future__ import annotations

import pytest

from ablate.compare.publishing import README, readme
from ablate.store import journal as journals
from ablate.store import study_record
from ablate.store.store import Store
from tests.support import places

RESULTS = places.ROOT / "results"
STORE = Store(str(RESULTS))


# Others can continue them: `ablate study FILE --scale SCALE --store COPY-OF-RESULTS`.
UNFINISHED = ("tying_table1@small_search",)


@pytest.mark.parametrize("key", study_record.names(STORE))
def test_every_trial_is_there_and_has_ended(key):
    record = study_record.read(STORE, key)
    known = journals.read_all(STORE, record.trial_ids())  # a changed file is an error
    missing = set(record.trial_ids()) - known.keys()
    assert bool(missing) == (key in UNFINISHED) and known.keys() <= set(record.trial_ids())
    assert all(journal.outcome is not None for journal in known.values())


def test_the_readme_shows_what_the_files_say():
    """If the table's words changed: `ablate report publish STUDY --store results --to results`."""
    assert (RESULTS / README).read_text(encoding="utf-8") == readme(STORE, RESULTS.name)


def test_no_weights_and_no_text_are_committed():
    kinds = {path.suffix for path in RESULTS.rglob("*") if path.is_file()}
    assert kinds == {".json", ".md"}
