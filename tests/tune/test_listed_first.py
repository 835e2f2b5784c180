"""`Search(listed_first=True)`: a search starts with what the arm lists."""

from __future__ import annotations

import pytest

from ablate.study.designs import table
from ablate.study.plan import make_plan
from ablate.study.study import Study
from ablate.study.words import Arm, Scale, Search
from ablate.tune import local
from ablate.tune.schedule import Schedule
from ablate.tune.search.arm import open_search
from tests.support.small_studies import BASE, RATE_AND_WINDOW, order_in

RATE, WINDOW = "optimizer.learning_rate", "training.window"


@pytest.fixture
def space(tmp_path):
    file = tmp_path / "rates.toml"
    file.write_text(RATE_AND_WINDOW)
    return str(file)


def plan(workspace, space, base, **words):
    search = Search(space=space, trials=3, synchronous=True, batch=2, **words)
    study = Study(
        question="Which?",
        base={**BASE, **base},
        base_arm="one",
        design=table(Arm("one"), Arm("two", {"training.clip": 0.5})),
        scales={"s": Scale(seeds=1, search=search)},
        runner="noise",
        name="q",
    )
    return make_plan(study, "s", data=workspace.data)


def asked(workspace, planned):
    """The settings of each search's trials, in order."""
    search = open_search(workspace.searches)
    schedule = Schedule(planned, workspace.store, search)
    local.run(schedule, order_in(workspace))
    return [[*search(one, planned).sampled.values()] for one in planned.searches]


@pytest.mark.parametrize("repeats", [1, 2])
def test_the_first_trial_has_what_the_arm_lists(workspace, space, repeats):
    planned = plan(workspace, space, {RATE: 0.5, WINDOW: 20}, listed_first=True, repeats=repeats)
    searches = asked(workspace, planned)
    assert len(searches) == 2 * repeats
    for settings in searches:
        assert settings[0] == {RATE: 0.5, WINDOW: 20}
        assert len(settings) == 3 and {RATE: 0.5, WINDOW: 20} not in settings[1:]


def test_a_value_outside_the_space_is_suggested_as_ever(workspace, space):
    planned = plan(workspace, space, {RATE: 0.5, WINDOW: 35}, listed_first=True)
    for first, *_ in asked(workspace, planned):
        assert first[RATE] == 0.5 and first[WINDOW] in (10, 20)


def test_a_search_that_was_cut_between_the_two_steps_asks_once_more(workspace, space):
    planned = plan(workspace, space, {RATE: 0.5, WINDOW: 20}, listed_first=True)
    search = open_search(workspace.searches)(planned.searches[0], planned)
    search._list_first()  # and here it is killed
    again = open_search(workspace.searches)(planned.searches[0], planned)
    first = again.ask()
    assert first is not None and first.config.flat[RATE] == 0.5
    assert first.config.flat[WINDOW] == 20
    whole = open_search(workspace.searches.replace("searches", "elsewhere"))
    other = whole(planned.searches[0], planned)
    assert [other.ask(), other.ask()] == [first, again.ask()]


def test_without_the_word_nothing_changes(workspace, space):
    plain = plan(workspace, space, {RATE: 0.5})
    off = plan(workspace, space, {RATE: 0.5}, listed_first=False)
    on = plan(workspace, space, {RATE: 0.5}, listed_first=True)
    keys = [[one.key for one in each.searches] for each in (plain, off, on)]
    assert keys[0] == keys[1] and set(keys[0]).isdisjoint(keys[2])
    assert all(first[RATE] != 0.5 for first, *_ in asked(workspace, plain))
