"""An arm's settings against its paper's table: the first one that is not the paper's."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ablate.compare.statistics.departures import departure
from ablate.config.resolve import resolve
from ablate.space import space
from tests.support.records_by_hand import make_journal, make_study

RECIPE = "zaremba2014:medium"
VALUES = {"corpus.name": "ptb", **space.load(RECIPE).values()}


def departed(changes: dict, own: dict | None = None, recipe: str = RECIPE) -> str:
    record = replace(make_study(), paper=space.load(RECIPE).paper)
    arm = replace(record.arms[0], recipe=recipe, changes=own or {})
    journal = replace(make_journal("t"), config=dict(resolve({**VALUES, **changes}).flat))
    return departure(record, arm, journal)


def test_the_papers_own_values_depart_in_nothing():
    assert departed({}) == ""


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"training.epochs": 8}, "training.epochs 8, not 39"),
        ({"backbone.units": 20}, "backbone.units 20, not 650"),
    ],
)
def test_the_value_is_named_with_the_papers(changes, expected):
    assert departed(changes) == expected


def test_a_technique_is_named_before_its_fields():
    adam = {"optimizer": "adam", "optimizer.learning_rate": 0.001, "training.epochs": 8}
    values = {k: v for k, v in VALUES.items() if not k.startswith("optimizer")}
    record = replace(make_study(), paper=space.load(RECIPE).paper)
    arm = replace(record.arms[0], recipe=RECIPE, changes={})
    journal = replace(make_journal("t"), config=dict(resolve({**values, **adam}).flat))
    assert departure(record, arm, journal) == "optimizer adam, not sgd"


def test_what_the_arm_changes_on_purpose_is_its_row_of_the_paper():
    assert departed({"backbone.units": 20}, {"backbone.units": 20}) == ""


def test_a_recipe_of_another_paper_and_a_trial_that_never_ran_tell_nothing():
    assert departed({"training.epochs": 8}, recipe="merity2018awd") == ""
    assert departed({"training.epochs": 8}, recipe="") == ""
    record = replace(make_study(), paper=space.load(RECIPE).paper)
    assert departure(record, replace(record.arms[0], recipe=RECIPE), None) == ""
