"""What a study's page says besides its table: damage, budgets, looks, where it comes from."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ablate.live import forecast
from ablate.store import study_record
from ablate.tune.budget import Ledger
from tests.live.test_pages import cells
from tests.support.damage import flip_on_disk
from tests.support.live_pages import KEY


def rewrite(place, **fields) -> None:
    """Write the study's record with other fields."""
    study_record.write(place.workspace.store, replace(place.study.record, **fields))


@pytest.mark.parametrize("how", ["a bit", "cut"])
def test_a_damaged_journal_leaves_the_rest_of_the_page(client, place, how):
    file = place.workspace.folder / "store" / "trials" / "mos-1" / "journal.json"
    if how == "cut":
        file.write_bytes(file.read_bytes()[:200])
    else:
        flip_on_disk(file, file.stat().st_size // 2)
    page = client.seen(f"/study/{KEY}")
    assert "1 journal damaged</h2>" in page
    ((trial, what),) = cells(page, "trouble")
    assert trial == "mos seed 2" and "is damaged" in what and "run its study again" in what
    assert len(cells(page, "table")) == 3 and "3 of 12 planned results are missing" in page
    assert "damaged" in {row[1] for row in cells(page, "trials")}
    assert "1" in cells(client.seen("/"), "studies")[0]
    place.grow("mos-1", 2, 4.43)  # run again
    later = client.seen(f"/study/{KEY}")
    assert "damaged" not in later


def test_what_is_left_of_a_budget(client, served, place):
    ledger = Ledger(place.workspace.store, KEY, hours=2)
    ledger.seconds = 1800.0
    assert forecast.budget(served.study(KEY).source) == []
    ledger.write()
    assert "spent of the budget" in str(forecast.budget(served.study(KEY).source))
    without = Ledger(place.workspace.store, KEY, None)
    without.write()
    assert forecast.budget(served.study(KEY).source) == []
    ledger.write()
    page = client.seen(f"/study/{KEY}")
    assert "1h30m of 2h00m" in page and "30m" in page.replace("1h30m", "")


def test_an_imported_study_is_said_to_be_so(client, place):
    rewrite(place, imported="sweep.csv", command="")
    page = client.seen(f"/study/{KEY}")
    assert "imported from" in page and "sweep.csv" in page
    assert "Its trials were not run here" in page and "the same command" not in page
    assert cells(client.seen("/"), "studies")[0][-1] == "imported"
    trial = client.seen("/trial/mos-1")
    assert "sweep.csv" in trial and "ablate trial rerun" not in trial
