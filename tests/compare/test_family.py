"""One family for all that a page says. docs/calibration.md has how often it has a wrong word."""

from __future__ import annotations

import pytest

from ablate.compare.statistics import paired
from ablate.compare.statistics.family import Family


def test_those_that_keep_their_share_leave_the_others_where_they_were():
    assert paired.holm([0.01, 0.02, 0.03]) == pytest.approx([0.03, 0.04, 0.04])
    assert paired.holm([0.01, 0.02, 0.03], None, [0]) == pytest.approx([0.03, 0.06, 0.06])


def test_shares_of_the_error_need_not_be_equal():
    # Of 1/2, 1/6 and 1/12, the second is rejected first, and leaves 5/6 to the others.
    assert paired.holm([0.02, 0.001, None], [2, 6, 12]) == pytest.approx(
        [0.02 * 2 * 5 / 6, 0.006, None]
    )
    family = Family(3, counted_as=(2, 6, 12))
    assert family.corrected([0.02, 0.001, None])[0] == paired.holm([0.02, 0.001, None], [2, 6, 12])
    assert [family.num_for(at) for at in range(3)] == [2, 6, 12]


def test_arms_and_effects_are_corrected_together_and_simple_effects_at_half_a_share():
    family = Family(2, (0.001, 0.01), frozenset([1]))
    arms, effects = family.corrected([0.02, None])
    assert arms == pytest.approx(
        [0.06, None]
    )  # the interaction keeps its share, the main effect not
    assert effects == pytest.approx([0.004, 0.03])
    assert family.within(0.002, [0.03]) == pytest.approx(0.03)  # never below its interaction
    assert family.within(0.01, [0.03]) == pytest.approx(0.08)
    assert family.within(0.01, [None]) is None
