"""Whether the looks that a study file plans are possible."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from ablate.errors import StudyError, wrong_value
from ablate.store.replication import MIN_PAIRS


def check_looks(looks: Sequence[int], total: int, word: str, where: str) -> None:
    """Raise unless planned looks rise from three pairs on to all pairs; `word` is their field."""
    if not looks:
        return
    rises = all(one < other for one, other in pairwise(looks))
    if not rises or looks[0] < MIN_PAIRS or looks[-1] != total:
        early = {MIN_PAIRS, MIN_PAIRS + (total - MIN_PAIRS) // 2, total}
        example = tuple(sorted(num for num in early if num >= MIN_PAIRS)) or (MIN_PAIRS,)
        expected = (
            f"numbers that rise, from {MIN_PAIRS} or more (with fewer pairs, no test decides) to "
            f"{word}={total}, such as {example}"
        )
        if total < MIN_PAIRS:
            expected = f"none, since {word}={total} and no test decides below {MIN_PAIRS}"
        raise StudyError(wrong_value("looks", tuple(looks), expected, where))
