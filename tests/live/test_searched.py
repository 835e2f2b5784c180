"""A real small search, whose trials train nothing: its pages, and what its winners bring."""

from __future__ import annotations

import math

import pytest

from ablate.live.served import Served
from ablate.store import journal as journals
from ablate.store import study_record
from ablate.study.designs import table
from ablate.study.plan import make_plan
from ablate.study.study import Study
from ablate.study.words import Arm, Scale, Search
from ablate.tune import local
from ablate.tune.schedule import Schedule
from ablate.tune.search.arm import open_search
from tests.live.test_pages import cells, printed_table
from tests.support.live_pages import Client
from tests.support.small_studies import BASE, RATE_AND_WINDOW, order_in

FIELDS = ("optimizer.learning_rate", "training.window")


def run(study: Study, workspace, scale: str) -> None:
    plan = make_plan(study, scale, data=workspace.data, stores=[workspace.store])
    schedule = Schedule(plan, workspace.store, open_search(workspace.searches))
    local.run(schedule, order_in(workspace))


def study_of(space: str, **listed) -> Study:
    search = Search(space=space, trials=5, synchronous=True, batch=5)
    return Study(
        question="Which?",
        base={**BASE, "optimizer.learning_rate": 1.0},
        base_arm="one",
        design=table(Arm("one"), Arm("two", {"training.clip": 0.5})),
        scales={"search": Scale(seeds=1, search=search), "listed": Scale(seeds=3, **listed)},
        runner="noise",
        name="q",
    )


@pytest.fixture
def searched(workspace, tmp_path):
    (tmp_path / "rates.toml").write_text(RATE_AND_WINDOW)
    run(study_of(str(tmp_path / "rates.toml")), workspace, "search")
    return str(tmp_path / "rates.toml")


def test_the_winner_of_a_search_shows_its_value(workspace, searched):
    client = Client(Served(workspace))
    page = client.seen("/study/q@search")
    assert "Settings found by the searches" in page and "Best settings so far" not in page
    assert "ablate plot importance q@search" in page
    record = study_record.read(workspace.store, "q@search")
    winner = journals.read(workspace.store, record.searches[0].chosen)
    assert cells(page, "searches")[0][-1] == f"{math.exp(winner.metrics['valid_nll']):.2f}"


def test_copied_winners_bring_no_verdicts_back_on_the_page_either(workspace, searched):
    record = study_record.read(workspace.store, "q@search")
    winners = {s.arm: journals.read(workspace.store, s.chosen).config for s in record.searches}
    found = {arm: {field: own[field] for field in FIELDS} for arm, own in winners.items()}

    def adapt(values):
        return found["two" if values.get("training.clip") == 0.5 else "one"]

    run(study_of(searched, adapt=adapt), workspace, "listed")
    _, *rows = printed_table(workspace, "q@listed")
    page = Client(Served(workspace)).seen("/study/q@listed")
    assert [row[-1] for row in cells(page, "table")[: len(rows)]] == [row[-1] for row in rows]
    assert "those that a search of q@search found" in page and "no verdict" in page
