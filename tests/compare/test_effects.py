"""Effects of factorials against least squares, and against simulated designs with known truths."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy import stats

from ablate.compare.judged import Judged
from ablate.compare.statistics.design import Design
from ablate.compare.table.rows import Effects
from ablate.study.designs import factorial, fractional_factorial
from tests.support.tables import written

TWO = {"off": {}, "on": {}}


def study_of(by_hand, design, losses, **fields):
    """A study of a design: `losses` is [arm, seed]."""
    names = [arm.name for arm in design.arms]
    study = by_hand(dict(zip(names, losses, strict=True)), base_arm=names[0])
    study.arm_fields = {arm.name: {"levels": dict(arm.levels)} for arm in design.arms}
    study.record_fields = {"design": design.kind, "notes": design.notes, **fields}
    return study


def effects_of(by_hand, design, losses) -> Effects:
    study = study_of(by_hand, design, losses)
    effects = Judged(study.record, study.journals).effects
    assert effects is not None
    return effects


def drawn(seed: int, design, truth, num_seeds: int = 5, spread: float = 0.02) -> np.ndarray:
    """Losses [arm, seed]: the truth for the levels, a draw of the seed, and one of the trial."""
    generator = np.random.default_rng(seed)
    means = np.array([truth(arm.levels) for arm in design.arms])
    shared = generator.normal(0, 0.05, num_seeds)
    return 4 + means[:, None] + shared + generator.normal(0, spread, (len(means), num_seeds))


def least_squares(design, losses, names: tuple[str, ...]) -> np.ndarray:
    """For every seed, what changing these factors adds, from a regression on signs.

    With signs of +-1, a main effect is twice its coefficient, and an interaction as the difference
    of two effects is four times.
    """
    factors = list(design.arms[0].levels)
    signs = np.array([[1 if a.levels[f] == "on" else -1 for f in factors] for a in design.arms])
    terms = [()] + [c for n in (1, 2) for c in itertools.combinations(range(len(factors)), n)]
    X = np.stack([signs[:, list(term)].prod(1) for term in terms], 1).astype(float)
    coefficients, *_ = np.linalg.lstsq(X, np.asarray(losses), rcond=None)
    position = terms.index(tuple(factors.index(name) for name in names))
    return 2 ** len(names) * coefficients[position]


@pytest.mark.parametrize("names", [("a",), ("b",), ("c",), ("a", "b"), ("a", "c"), ("b", "c")])
def test_effects_are_those_of_least_squares(by_hand, names):
    design = factorial({"a": TWO, "b": TWO, "c": TWO})
    losses = drawn(1, design, lambda at: 0.1 * (at["a"] == "on"), num_seeds=4)
    effects = effects_of(by_hand, design, losses)
    wanted = f"{names[0]}: on vs off" if len(names) == 1 else " × ".join(names)
    effect = next(effect for effect in effects.effects if effect.name == wanted)
    by_seed = least_squares(design, losses, names)
    theirs = stats.ttest_1samp(by_seed, 0)
    interval = theirs.confidence_interval(0.95)
    assert effect.difference.deltas == pytest.approx(by_seed)
    assert effect.difference.p == pytest.approx(theirs.pvalue)
    assert effect.difference.interval == pytest.approx((interval.low, interval.high))
    assert len(effects.effects) == 6


def test_the_table_says_that_a_factor_helps_only_without_another(by_hand):
    def truth(at):
        return -0.2 * (at["a"] == "on" and at["b"] == "off")

    design = factorial({"a": TWO, "b": TWO})
    effects = effects_of(by_hand, design, drawn(2, design, truth))
    assert "a: on vs off helps with b off; with b on it is not shown to help." in effects.readings
    interaction = next(effect for effect in effects.effects if effect.kind == "interaction")
    assert interaction.verdict == "worse"
    assert interaction.difference.mean == pytest.approx(0.2, abs=0.05)


def test_levels_with_commas_are_read_too(by_hand):
    """And those of factors with a comma."""
    levels = {"none": {}, "1, 2": {}}
    design = factorial({"a": levels, "b, c": levels})
    truth = drawn(2, design, lambda at: -0.2 * (at["a"] == "1, 2" and at["b, c"] == "none"))
    readings = effects_of(by_hand, design, truth).readings
    assert (
        "a: 1, 2 vs none helps with b, c none; with b, c 1, 2 it is not shown to help." in readings
    )


def test_a_stored_factorial_has_its_factors_in_the_order_of_the_study(by_hand):
    """The store sorts an arm's levels by factor, which must not change the table's columns."""
    design = factorial({"width": {"narrow": {}, "wide": {}}, "dropout": TWO})
    study = study_of(by_hand, design, drawn(2, design, lambda at: 0.0))
    whole = Judged(study.record, study.journals)
    for arm, fields in study.arm_fields.items():
        study.arm_fields[arm] = {"levels": dict(sorted(fields["levels"].items()))}
    table = written(Judged(study.record, study.journals))
    assert table == written(whole) and "\nwidth   dropout " in table


def test_what_two_interactions_look_at_is_one_simple_effect(by_hand):
    """b helps at `low` alone: both its interactions are decided, and both compare with `low`."""
    design = factorial({"rate": {"low": {}, "middle": {}, "high": {}}, "b": TWO})
    truth = {("low", "on"): -0.5}
    losses = drawn(11, design, lambda at: truth.get((at["rate"], at["b"]), 0.0))
    effects = effects_of(by_hand, design, losses)
    names = [effect.name for effect in effects.simple]
    assert len(set(names)) == len(names) == 7
    assert {f"b: on vs off, rate {rate}" for rate in ("low", "middle", "high")} < set(names)
    # Each at half of an interaction's share: of 5 arms, 3 main effects, 2 interactions.
    opened = next(e.p_holm for e in effects.effects if e.name == "b × rate: middle")
    for effect in effects.simple:
        if effect.name in ("b: on vs off, rate middle", "rate: middle vs low, b on"):
            assert effect.p_holm == pytest.approx(max(opened, min(1, 20 * effect.difference.p)))
    texts = [f"b: on vs off helps with rate low; with rate {r} it" for r in ("middle", "high")]
    assert all(any(reading.startswith(t) for reading in effects.readings) for t in texts)


def test_a_fractions_aliases_are_one_row(by_hand):
    """Against the words of the design itself, which knows its aliases by algebra."""
    names = "abcd"
    design = fractional_factorial(dict.fromkeys(names, TWO), {"d": ("a", "b", "c")})
    effects = effects_of(by_hand, design, drawn(5, design, lambda at: 0.0))
    joined = {frozenset([e.name, *e.aliases]) for e in effects.effects if e.aliases}
    stated = {
        frozenset(note.removeprefix("aliased: ").replace(" x ", " × ").split(" = "))
        for note in design.notes
    }
    assert joined == stated == {frozenset(pair) for pair in _pairs()}
    assert any("joined by =" in note for note in effects.notes)


def _pairs():
    return [("a × b", "c × d"), ("a × c", "b × d"), ("a × d", "b × c")]


def test_a_main_effect_keeps_its_interactions_as_aliases(by_hand):
    design = fractional_factorial(dict.fromkeys("abc", TWO), {"c": ("a", "b")})
    losses = drawn(6, design, lambda at: -0.3 * (at["c"] == "on"))
    effects = effects_of(by_hand, design, losses)
    assert [e.names for e in effects.effects] == [
        "a: on vs off = b × c",
        "b: on vs off = a × c",
        "c: off vs on = a × b",  # the base arm, with a and b off, has c on
    ]
    assert [e.verdict for e in effects.effects] == ["undecided", "undecided", "worse"]


def test_a_design_with_an_arm_left_out_says_that_it_does_not_cross(by_hand):
    design = factorial({"a": TWO, "b": TWO})
    losses = drawn(7, design, lambda at: 0.0)
    study = study_of(by_hand, design, losses)
    del study.losses[design.arms[-1].name]
    study.trials = [t for t in study.trials if t.arm != design.arms[-1].name]
    effects = Judged(study.record, study.journals).effects
    assert effects is not None and effects.effects == ()
    assert "do not cross" in effects.notes[0]


@pytest.mark.parametrize(
    ("status", "reason"), [(None, "1 to run"), ("diverged", "lost seeds"), ("pruned", "lost seeds")]
)
def test_with_holes_nothing_is_decided(by_hand, status, reason):
    design = factorial({"a": TWO, "b": TWO})
    study = study_of(by_hand, design, drawn(8, design, lambda at: -0.5 * (at["a"] == "on")))
    trial = f"{design.arms[1].name}-2"
    del study.journals[trial]
    if status:
        study.end(trial, status)
    effects = Judged(study.record, study.journals).effects
    assert effects is not None
    assert {(e.verdict, e.reason) for e in effects.effects} == {("undecided", reason)}


def test_an_effect_without_a_spread_is_not_decided(by_hand):
    design = factorial({"a": TWO, "b": TWO})
    losses = [
        [4.0 - 0.5 * (arm.levels["a"] == "on") + seed for seed in (0, 0.25, 0.5)]
        for arm in design.arms
    ]
    effects = {e.name: e for e in effects_of(by_hand, design, losses).effects}
    assert (effects["a: on vs off"].verdict, effects["a: on vs off"].reason) == (
        *("undecided", "no spread"),
    )
    assert effects["b: on vs off"].reason == ""


def test_a_design_that_is_not_crossed_is_not_balanced():
    crossed = [{"a": a, "b": b} for a in "xy" for b in "uvw"]
    assert Design(crossed, {}).balanced
    assert not Design(crossed[:-1], {}).balanced
    assert not Design([{"a": "x"}, {"b": "u"}], {}).balanced


def test_an_interaction_of_three_levels_weighs_only_the_arms_at_its_two(by_hand):
    """[b's effect at `middle`] - [b's effect at `low`], over both levels of c; not at `high`."""
    design = factorial({"rate": {"low": {}, "middle": {}, "high": {}}, "b": TWO, "c": TWO})
    losses = drawn(9, design, lambda at: 0.3 * (at["rate"] == "high"), num_seeds=4)
    effects = {e.name: e.difference.deltas for e in effects_of(by_hand, design, losses).effects}

    def mean_at(**levels):
        at = [all(arm.levels[f] == level for f, level in levels.items()) for arm in design.arms]
        return losses[at].mean(axis=0)

    def of_b(rate):
        return mean_at(b="on", rate=rate) - mean_at(b="off", rate=rate)

    for rate in ("middle", "high"):
        assert effects[f"b × rate: {rate}"] == pytest.approx(of_b(rate) - of_b("low"))
        assert effects[f"rate: {rate} vs low"] == pytest.approx(
            mean_at(rate=rate) - mean_at(rate="low")
        )
