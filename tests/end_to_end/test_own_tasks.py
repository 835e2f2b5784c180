"""Tasks of one's own, killed and started again: the table is that of an undisturbed run."""

from __future__ import annotations

import re
import time

import pytest

from ablate.compare.judged import Judged
from ablate.store import journal as journals
from ablate.store import study_record
from tests.end_to_end.conftest import PATIENCE
from tests.support.tables import written

COMMAND = ("--scale", "smoke", "--local")


def table_of(place, key: str) -> str:
    """The study's table, without the time that it took."""
    record = study_record.read(place.store, key)
    known = journals.read_all(place.store, record.trial_ids())
    table = written(Judged(record, known), "markdown")
    return re.sub(r" *· *[\d.]+ ?\w+ of training in all", "", table)


def epochs_done(place) -> int:
    return sum(len(journal.epochs) for journal in journals.read_all(place.store).values())


@pytest.mark.slow
@pytest.mark.cluster
def test_a_killed_study_ends_with_the_table_of_an_undisturbed_one(places):
    name = "digits_cnn"
    undisturbed, killed = places(), places()
    undisturbed.ablate("study", name, *COMMAND).succeeded()
    for num_epochs in (1, 3):
        running, deadline = killed.start("study", name, *COMMAND), time.monotonic() + PATIENCE
        while epochs_done(killed) < num_epochs:
            assert time.monotonic() < deadline
            time.sleep(0.01)
        running.kill()
        assert running.ended().status in (0, -9), "killed, or just done"
    killed.ablate("study", name, *COMMAND).succeeded()
    key = f"{name}@smoke"
    assert table_of(killed, key) == table_of(undisturbed, key)
