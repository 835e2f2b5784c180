"""Are two arms the same, up to a margin? Two one-sided tests (Schuirmann 1987).

A study says which difference would not matter: `Study(margin="1%")`. Two arms are `same` if both
"it is at least a margin lower" and "it is at least a margin higher" are rejected, each at alpha / m
where m comparisons are planned. This is so exactly when the interval at 1 - 2 alpha / m lies within
the margin. A difference may be decided and lie within: better, by less than 1%.

The words better, worse and same share one error: a comparison whose difference is 0 can only be
given a wrong direction, and one whose difference is the margin or more only a wrong `same`. So a
comparison that Holm's correction has decided leaves its share to the others only if it has no use
for it: if the interval lies on one side of the margin, within or beyond. Were every decided
comparison to leave its share, 6.4% of tables would have a wrong word (docs/calibration.md).
"""

from __future__ import annotations

from ablate.compare.statistics import items
from ablate.compare.statistics.paired import Difference


def is_within(
    difference: Difference, margin: float | None, *, alpha: float = 0.05, comparisons: int = 1
) -> bool:
    """Return whether the tests find the mean difference to be less than the margin, either way."""
    interval = _interval(difference, alpha, comparisons)
    if margin is None or interval is None:
        return False
    return max(abs(end) for end in interval) < margin


def may_be_within(
    difference: Difference, margin: float | None, *, alpha: float = 0.05, comparisons: int = 1
) -> bool:
    """Return whether the tests leave open on which side of the margin the difference lies."""
    interval = _interval(difference, alpha, comparisons)
    if margin is None or interval is None:
        return False
    low, high = interval
    return any(low < end < high for end in (-margin, margin))


def _interval(difference: Difference, alpha: float, comparisons: int) -> tuple[float, float] | None:
    """At 1 - 2 alpha / m: each end is that of a one-sided test at alpha / m."""
    level = 2 * alpha / max(1, comparisons)
    return items.interval(difference, level) if difference.is_repeated else None
