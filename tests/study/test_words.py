"""The designs a study file can be written in."""

from __future__ import annotations

import itertools
from collections import Counter
from dataclasses import replace

import pytest

from ablate.errors import StudyError
from ablate.study.designs import (
    factorial,
    fractional_factorial,
    leave_one_out,
    one_at_a_time,
    path,
)
from ablate.study.small import smoke
from ablate.study.words import Scale, Search, Stage

FACTORS = {
    "head": {"softmax": {"head": "softmax"}, "mos": {"head": "mos", "head.experts": 3}},
    "drop": {
        "0": {"regularizer.weight_drop.rate": 0.0},
        "0.5": {"regularizer.weight_drop.rate": 0.5},
    },
}
SPACE = """
paper = "none"
tables = ["T"]
["Layers"]
field = "backbone.num_layers"
choices = [1, 2]
["Rate"]
field = "optimizer.learning_rate"
range = [1.0, 3.0]
["Clip"]
field = "training.clip"
value = 0.25
"""


def test_one_at_a_time_has_the_base_and_each_level_alone():
    design = one_at_a_time(FACTORS)
    assert design.arms[0].name == "base"
    assert len(design.arms) == 5
    assert design.arms[2].changes == {"head": "mos", "head.experts": 3}


def test_factorial_has_every_combination_with_its_levels():
    design = factorial(FACTORS)
    assert len(design.arms) == 4
    last = design.arms[-1]
    assert last.levels == {"head": "mos", "drop": "0.5"}
    assert last.changes == {"head": "mos", "head.experts": 3, "regularizer.weight_drop.rate": 0.5}


def test_leave_one_out_has_everything_and_each_removal():
    design = leave_one_out({"weight drop": {"regularizer.weight_drop.rate": 0.0}})
    assert [arm.name for arm in design.arms] == ["everything", "without weight drop"]


class TestFractional:
    @staticmethod
    def factors(*names: str) -> dict:
        return {name: {"off": {}, "on": {f"regularizer.{name}.rate": 0.5}} for name in names}

    def test_a_half_has_each_factors_levels_balanced_and_the_products_sign(self):
        design = fractional_factorial(self.factors("a", "b", "c", "d"), {"d": ("a", "b", "c")})
        assert len(design.arms) == 8
        for one, other in itertools.combinations("abcd", 2):
            pairs = Counter((arm.levels[one], arm.levels[other]) for arm in design.arms)
            assert set(pairs.values()) == {2}
        for arm in design.arms:
            signs = [1 if arm.levels[name] == "on" else -1 for name in "abcd"]
            assert signs[3] == signs[0] * signs[1] * signs[2]
            assert len(arm.changes) == sum(sign == 1 for sign in signs)

    def test_its_aliases_are_named(self):
        half = fractional_factorial(self.factors("a", "b", "c", "d"), {"d": ("a", "b", "c")})
        assert half.notes == (
            "aliased: a x b = c x d",
            "aliased: a x c = b x d",
            "aliased: a x d = b x c",
        )
        third = fractional_factorial(self.factors("a", "b", "c"), {"c": ("a", "b")})
        assert "aliased: a = b x c" in third.notes

    @pytest.mark.parametrize(
        ("generators", "message"),
        [
            ({"x": ("a",)}, "unknown factor 'x'"),
            ({"c": ("a", "z")}, "unknown factor 'z'"),
            ({"c": ("a", "c")}, "unknown factor 'c'"),
        ],
    )
    def test_generators_name_factors(self, generators, message):
        with pytest.raises(StudyError, match=message):
            fractional_factorial(self.factors("a", "b", "c"), generators)

    def test_more_than_two_levels_are_refused(self):
        factors = {**self.factors("a", "b"), "c": {"1": {}, "2": {}, "3": {}}}
        with pytest.raises(StudyError, match="two levels"):
            fractional_factorial(factors, {"b": ("a",)})


def test_a_path_adds_step_by_step_and_compares_with_the_step_before():
    design = path({"wide": {"backbone.units": 9}, "tied": {"head.tied": True}})
    assert [arm.name for arm in design.arms] == ["start", "+ wide", "+ tied"]
    assert [arm.against for arm in design.arms] == [None, "start", "+ wide"]
    assert design.arms[2].changes == {"backbone.units": 9, "head.tied": True}


def test_a_smoke_scale_has_the_first_of_its_scale_s_seeds():
    small = smoke(Scale(seeds=12, first_seed=13))
    assert (small.seeds, small.first_seed) == (2, 13)
    assert smoke(Scale(seeds=1)).seeds == 1
    assert smoke(Scale(seeds=12), seeds=3).seeds == 3


def test_a_smoke_scale_is_short_in_everything_that_trains():
    """Of its trials, the kind of task says how (`brief`)."""
    search = Search(space="s", trials=40, repeats=3, changes={"training.epochs": 9})
    long = {"training.epochs": 50, "training.window": 7}
    stages = (Stage("more", long), Stage("judge", {"evaluator": "cache"}, kind="evaluate"))
    scale = Scale(changes={**long, "corpus.eval_tokens": 5000}, stages=stages, search=search)
    small = smoke(scale)
    assert small.brief and small.changes == scale.changes
    assert small.stages == (replace(stages[0], changes={**long, "training.epochs": 1}), stages[1])
    assert small.search == replace(search, trials=2, repeats=1, changes={})


def test_how_early_stopping_stops_needs_early_stopping():
    with pytest.raises(StudyError, match="is of early stopping, which this search lacks"):
        Search(space="x", trials=3, min_epochs=2)
    Search(space="x", trials=3, early_stopping="asha", min_epochs=2)
