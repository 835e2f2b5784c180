"""The word `same`, of arms that differ by the margin."""

from __future__ import annotations

from functools import partial

import numpy as np

from ablate.compare.statistics.equivalence import is_within
from ablate.compare.statistics.paired import paired_difference
from tests.lab.calibration.draws import ALPHA, against_base, arms_of, half_width, holm, p_of
from tests.lab.calibration.row import CHECKED, Case, Limit, Row, Simulated, hold_equal, rate
from tests.lab.calibration.tables import SMALL, table_of, words

PAIRS, PLANNED = 12, (5, 8, 12)


def within(deltas: np.ndarray, comparisons: int) -> np.ndarray:
    """Whether the two tests find each difference to be less than 1."""
    half = half_width(deltas, 2 * ALPHA / comparisons)
    return np.abs(deltas.mean(-1)) + half < 1


def at_the_margin(generator: np.random.Generator, num: int, *, arms: int) -> Simulated:
    """All arms differ from the base arm by the margin, which is one spread."""
    deltas = against_base(arms_of(generator, num, arms + 1, PAIRS)) + 1
    wrong = within(deltas, arms).any(-1)
    by_tables = [
        any(is_within(paired_difference(one), 1.0, comparisons=arms) for one in table)
        for table in deltas[:CHECKED].tolist()
    ]
    hold_equal(wrong, by_tables, "same")
    return Simulated(rate(wrong), rate((np.abs(deltas.mean(-1)) < 1).any(-1)))


def any_word(generator: np.random.Generator, num: int) -> Simulated:
    """One arm equals the base arm, and two lie at the margin: any wrong word of the table."""
    losses = arms_of(generator, num, 4, PAIRS)
    losses[:, 2:] += np.array([[1.0], [-1.0]])
    deltas = against_base(losses)
    half = half_width(deltas, 2 * ALPHA / 3)
    # One that may lie on either side of the margin keeps its share of the error.
    decided = holm(p_of(deltas), np.abs(np.abs(deltas.mean(-1)) - 1) < half) <= ALPHA
    side = np.sign(deltas.mean(-1)) != np.array([0, 1, -1])  # of a difference of 0, both are wrong
    wrong = (decided & side).any(-1) | within(deltas, 3)[:, 1:].any(-1)
    by_tables = [_any_wrong(table_of(each, margin=SMALL)) for each in losses[:CHECKED]]
    hold_equal(wrong, by_tables, "any word")
    plain = ((holm(p_of(deltas)) <= ALPHA) & side).any(-1) | within(deltas, 3)[:, 1:].any(-1)
    return Simulated(rate(wrong), rate(plain))


def _any_wrong(summary) -> bool:
    equal, above, below = words(summary)
    inside = [arm.comparison.less_than for arm in summary.arms if arm.comparison][1:]
    directions = equal in ("better", "worse") or above == "better" or below == "worse"
    return directions or any(inside)


def over_looks(generator: np.random.Generator, num: int) -> Simulated:
    """Three arms at the margin, judged at each planned look at a third of the level."""
    deltas = against_base(arms_of(generator, num, 4, PAIRS)) + 1
    at_looks = [within(deltas[..., :pairs], 3 * len(PLANNED)) for pairs in PLANNED]
    naive = [within(deltas[..., :pairs], 1) for pairs in PLANNED]
    return Simulated(rate(np.any(at_looks, (0, 2))), rate(np.any(naive, (0, 2))))


ROW = Row(
    name="Same",
    promise="Arms that differ by the margin are called `same` in at most 5% of tables.",
    draws="Normal noise, 12 pairs, the margin is one standard deviation of a pair's difference.",
    of="tables with a wrong word",
    limit=Limit(most=5.5),
    twin="the mean within the margin; for any wrong word, every decided arm leaves its share of "
    "the error to the others; over looks, no correction for arms and looks",
    cases=(
        *(
            Case(f"{arms} at the margin", partial(at_the_margin, arms=arms))
            for arms in (1, 3)
        ),
        Case("1 equal, 1 at either margin: any wrong word", any_word),
        Case("3 at the margin, looks at 5, 8 and 12 pairs", over_looks),
    ),
)  # fmt: skip
