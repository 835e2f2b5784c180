"""What forbids a test over several scales of a study: its corpora, or the rungs of its ladder."""

from __future__ import annotations

from collections.abc import Sequence

from ablate.compare.judged import Judged
from ablate.compare.table.rows import Comparison


def comparisons(summaries: Sequence[Judged], arm: str) -> list[Comparison]:
    """The arm's comparison at each scale that has one."""
    named = (one for summary in summaries for one in summary.arms if one.name == arm)
    return [one.comparison for one in named if one.comparison is not None]


def reservation(
    summaries: Sequence[Judged], name: str, what: str, *, favours_arm: bool | None
) -> str:
    """Why the test over all `what` cannot decide; empty if it can.

    `favours_arm`: which way it would decide; None if lost seeds of either arm may have led to it.
    """
    num = len(summaries[0].record.parts)
    reasons = [comparison.reason for comparison in comparisons(summaries, name)]
    missing = num - len(reasons) + sum(reason.endswith("to run") for reason in reasons)
    if missing:
        return f"results missing on {missing} of {num} {what}"
    if not all(summary.looks.as_planned for summary in summaries):
        return "looks that were not planned"
    arms = [summary.arm(name) for summary in summaries]
    others = [
        s.arm(arm.against or s.record.base_arm) for s, arm in zip(summaries, arms, strict=True)
    ]
    if any(arm.counts.at_floor for arm in (*arms, *others)):
        return "values of 0"
    # As at one scale: without its lost seeds, an arm may look better than it is.
    if favours_arm is not False and any(arm.counts.selected for arm in arms):
        return "lost seeds"
    if not favours_arm and any(other.counts.selected for other in others):
        return "other arm lost seeds"
    return next((one for one in ("same trials", "same results") if set(reasons) == {one}), "")
