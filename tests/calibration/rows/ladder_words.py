"""The words of a ladder for an arm that always saves the same share of the compute, while the
curves of both arms flatten."""

from __future__ import annotations

from functools import partial

import numpy as np

from ablate.compare.statistics import equivalent
from ablate.compare.statistics.ladder import OverRow, over_rungs
from ablate.compare.statistics.power_law import fit
from ablate.compare.table.summary import summarise
from tests.calibration.draws import ALPHA, holm, p_of
from tests.calibration.row import CHECKED, Case, Limit, Row, Simulated, hold_equal, rate
from tests.calibration.rows.ladder_equivalent import EXPONENT, FLOOR, HEIGHT, SHARED
from tests.support.studies_by_hand import ByHand

COMPUTE = 10.0 ** np.arange(4)
RUNGS = ("1", "2", "3", "4")
BEYOND = 10.0
LARGEST, SLOPE, CARRIED = -3, -2, -1  # of the tests: gains by rung, and the line
DECIDED = "a word for equal arms"


def losses(
    generator: np.random.Generator, num: int, seeds: int, noise: float, saves: float
) -> tuple[np.ndarray, np.ndarray]:
    """Of the base and of an arm for which the base needs so many times the compute, on every rung:
    [ladder, seed, rung]."""
    common, *own = generator.normal(0, noise, (3, num, seeds, len(COMPUTE)))
    base, arm = (np.sqrt(SHARED) * common + np.sqrt(1 - SHARED) * one for one in own)
    return (
        FLOOR + HEIGHT * COMPUTE**-EXPONENT + base,
        FLOOR + HEIGHT * (saves * COMPUTE) ** -EXPONENT + arm,
    )


def words(
    generator: np.random.Generator, num: int, *, word: str, seeds: int, noise: float, saves: float
) -> Simulated:
    """How often a ladder's verdict on the arm has a word."""
    base, arms = losses(generator, num, seeds, noise, saves)
    tests, p = _tests(arms - base)
    signs = np.where(holm(p) <= ALPHA, np.sign(tests), 0)
    said = _said(word, signs)
    tables = (_over(*both).verdict for both in zip(base[:CHECKED], arms, strict=False))
    hold_equal(said, [_in_verdict(word, verdict) for verdict in tables], word)
    twin = None
    if word == "worse" and saves > 1:
        twin = rate(signs[:, CARRIED] > 0)
    elif word == DECIDED:
        twin = rate(_said(word, np.where(p <= ALPHA, np.sign(tests), 0)))
    return Simulated(rate(said), twin)


def _tests(deltas: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The means and the p of a ladder's tests, [ladder, test]."""
    each = _each(deltas)
    return each.mean(-1), p_of(each)


def _each(deltas: np.ndarray) -> np.ndarray:
    """What is tested, [ladder, test, seed]: gains by rung, the slope, and what is carried."""
    logs = np.log10(COMPUTE)
    at_1, slope = np.linalg.lstsq(np.stack([np.ones_like(logs), logs], -1), np.eye(len(logs)))[0]
    lines = np.stack([slope, at_1 + slope * np.log10(BEYOND * COMPUTE[-1])])
    return np.concatenate([deltas, deltas @ lines.T], -1).swapaxes(-1, -2)


def _said(word: str, signs: np.ndarray) -> np.ndarray:
    """Whether the verdict has the word; `signs` are those of what the tests decided."""
    largest, slope, carried = signs[:, LARGEST], signs[:, SLOPE], signs[:, CARRIED]
    worse, holds = largest > 0, (largest < 0) & (carried < 0)
    return {
        "worse": worse,
        "holds": holds,
        "not shown to hold": ~worse & ~holds,
        "shrinks": slope > 0,
        DECIDED: worse | holds | (slope != 0),
    }[word]


def _in_verdict(word: str, verdict: str) -> bool:
    return verdict != "not shown to hold" if word == DECIDED else word in verdict.split(", ")


def changes(
    generator: np.random.Generator, num: int, *, seeds: int, noise: float, saves: float
) -> Simulated:
    """How often the interval of the change of what the base needs misses 1."""
    base, arms = losses(generator, num, seeds, noise, saves)
    found = [_change(*both) for both in zip(base, arms, strict=True)]
    known = np.array([one is not None for one in found])
    missed = np.array([_misses(one) for one in found])
    tables = [_over(*both).change for both in zip(base[:CHECKED], arms, strict=False)]
    hold_equal(missed, [_misses(one) for one in tables], "changes")
    _, p = _tests(arms - base)
    return Simulated(rate(missed[known]), rate(p[known, SLOPE] <= ALPHA))


def beyond(
    generator: np.random.Generator, num: int, *, seeds: int, noise: float, saves: float
) -> Simulated:
    """How often the interval of what is carried beyond the largest rung misses the true gain."""
    base, arms = losses(generator, num, seeds, noise, saves)
    reach = HEIGHT * (BEYOND * COMPUTE[-1]) ** -EXPONENT
    away = _each(arms - base)[:, CARRIED] - reach * (saves**-EXPONENT - 1)
    return Simulated(rate(p_of(away) <= ALPHA))


def _change(base: np.ndarray, arm: np.ndarray) -> equivalent.Equivalent | None:
    if not (np.diff(base.mean(0)) < 0).all():
        return None
    law = fit(COMPUTE.tolist(), base.mean(0).tolist(), above_zero=True)
    return None if law.problem else equivalent.change(law, base, arm, COMPUTE.tolist(), ALPHA)


def _misses(found: equivalent.Equivalent | None) -> bool:
    """No number and an open end miss nothing."""
    if found is None:
        return False
    above = found.low is not None and found.low > 1
    return above or (found.high is not None and found.high < 1)


def _over(base: np.ndarray, arm: np.ndarray) -> OverRow:
    """The row over all rungs of the table that studies with these losses have."""
    fields = {"one_of": "s", "rungs": RUNGS, "beyond": BEYOND}
    summaries = []
    for index, name in enumerate(RUNGS):
        study = ByHand({"base": base[:, index].tolist(), "a": arm[:, index].tolist()})
        study.record_fields = {**fields, "scale": f"s.{name}", "sizes": {"size": name}}
        study.arm_fields = {key: {"compute": float(COMPUTE[index])} for key in ("base", "a")}
        summaries.append(summarise(study.record, study.journals))
    (row,) = over_rungs(summaries).over
    return row


QUIET, LOUD = 0.002, 0.01  # a line is wrong all the more surely the less noise there is
SETTINGS = tuple((saves, seeds) for saves in (1.2, 1.5) for seeds in (3, 5))


OF_INTERVALS = {"change of what the base needs": changes, "interval carried to 10 times": beyond}
CHANGE, CARRIED_ON = OF_INTERVALS


def _case(what: str, saves: float, seeds: int, noise: float, limit: Limit | None = None) -> Case:
    setting = {"saves": saves, "seeds": seeds, "noise": noise}
    of_word = partial(words, word=what, **setting)
    draws = partial(OF_INTERVALS[what], **setting) if what in OF_INTERVALS else of_word
    named = f"`{what}`" if what in ("worse", "shrinks", "holds") else what
    return Case(f"{named}, {saves:g} times, {seeds} seeds, noise {noise:g}", draws, limit=limit)


ROW = Row(
    name="Words of a ladder",
    promise="An arm that always saves the same share of the base's compute is called `worse` over "
    "a ladder in at most 5%, and one that is the base's equal is given any word other than `not "
    "shown to hold` in at most 5%. The interval of the change of what the base needs misses the "
    "truth, no change, in 5%. `shrinks` and `not shown to hold` promise nothing of such an arm, "
    "and neither does what a line carries beyond the largest rung: its gain in nats does shrink, "
    "and not on a line.",
    draws=f"Losses E + A C^-a of {FLOOR:g} + {HEIGHT:g} C^-{EXPONENT:g} nats on four rungs, each "
    "with ten times the compute of the one before. On every rung the base needs so many times the "
    "arm's compute to get there. A fifth of the noise's variance is shared by a seed's arms. A "
    "ladder in which a number of what the base needs is missing does not count among changes.",
    of="ladders with the word, or intervals that miss",
    limit=Limit(most=5.5),
    twin="`worse` where the line beyond the largest rung is; for equal arms, words without a "
    "correction; for the change, the trend of the difference in nats",
    cases=(
        *(_case(DECIDED, 1.0, seeds, LOUD) for seeds in (3, 5)),
        _case("worse", 1.0, 3, LOUD),
        *(_case("worse", *setting, QUIET) for setting in SETTINGS),
        *(_case(CHANGE, *setting, LOUD) for setting in SETTINGS),
        _case(CHANGE, 1.2, 5, QUIET),
        *(_case("shrinks", *setting, LOUD, Limit()) for setting in SETTINGS),
        *(_case("holds", saves, 5, LOUD, Limit()) for saves in (1.2, 1.5)),
        *(_case(CARRIED_ON, *setting, LOUD, Limit()) for setting in SETTINGS),
    ),
)
