"""Are two arms the same, up to a margin? Two one-sided tests (Schuirmann 1987).

A study says which difference would not matter: `Study(margin="1%")`. Two arms are `same` if both
"it is at least a margin lower" and "it is at least a margin higher" are rejected, each at alpha / m
where m comparisons are planned. This is so exactly when the interval at 1 - 2 alpha / m lies within
the margin. A difference may be decided and lie within: better, by less than 1%.

The words better, worse and same need no further correction: a comparison whose difference is 0 can
only be given a wrong direction, and one whose difference is the margin or more only a wrong `same`.
"""

from __future__ import annotations

from collections.abc import Sequence

from ablate.compare.statistics import paired as statistics
from ablate.results.replication import MIN_PAIRS


def is_within(
    deltas: Sequence[float], margin: float | None, *, alpha: float = 0.05, comparisons: int = 1
) -> bool:
    """Return whether the tests find the mean difference to be less than the margin, either way."""
    if margin is None or len(deltas) < MIN_PAIRS:
        return False
    # At 1 - 2 alpha / m: each end is that of a one-sided test at alpha / m.
    interval = statistics.t_interval(deltas, 2 * alpha / max(1, comparisons))
    return interval is not None and max(abs(end) for end in interval) < margin
