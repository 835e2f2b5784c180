"""What each arm's training cost: tokens, operations without the optimizer, and seconds a seed.

An arm that trains on more than the arm it is compared with may be better for that alone, which a
table has to say.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ablate.compare.formats import Column, Table, for_people
from ablate.compare.judged import Judged
from ablate.compare.table.rows import ArmSummary
from ablate.compare.text.figures import NONE, count, duration

APART = 0.1  # share by which arms may differ before the table says so
MOST_NAMED = 4  # arms in the caution


def columns_of_cost() -> list[Column]:
    """About an arm; `--format csv` and `json` always have them."""
    return [
        Column("training\ntokens", lambda arm: arm.tokens, count, "tokens"),
        Column("operations", lambda arm: arm.operations, count, "operations"),
        Column("seconds", lambda arm: arm.seconds_a_seed, duration, "seconds_a_seed"),
    ]


def cost_table(summary: Judged) -> Table:
    """A row for each arm with a result: its cost, and how it differs from the compared arm's."""
    arms = [arm for arm in summary.arms if arm.trials]
    by_name = {arm.name: arm for arm in arms}

    def against(arm: ArmSummary) -> ArmSummary | None:
        return by_name.get(compared_with(arm, summary) or "")

    def apart(arm: ArmSummary) -> str:
        other = against(arm)
        return _difference(arm, other) or "as much" if other else NONE

    return for_people(
        [
            Column("arm", lambda arm: arm.name, left=True),
            *columns_of_cost(),
            Column("compared with its base", apart, left=True),
        ],
        arms,
        title=f"{summary.record.key}: cost of a seed",
        notes=[
            "A seed's training with all that it builds on: training tokens (exact), operations "
            "(in floating point, estimated, without the optimizer; empty where a trial did not "
            "record them) and seconds of its epochs. Searches are not included."
        ],
        cautions=[*cautions(summary)],
    )


def compared_with(arm: ArmSummary, summary: Judged) -> str | None:
    """The name of the arm that an arm is compared with."""
    return None if arm.is_base else arm.against or summary.record.base_arm


def cautions(summary: Judged) -> Iterator[str]:
    """The arms whose training differs from that of the compared arm by more than a tenth."""
    arms = {arm.name: arm for arm in summary.arms if arm.trials}
    told = []
    for arm in arms.values():
        other = arms.get(compared_with(arm, summary) or "")
        if other is not None and (text := _difference(arm, other)):
            told.append(f"{arm.name} {text} than {other.name}")
    if told:
        more = len(told) - MOST_NAMED
        left = f"; and {more} more (ablate table --cost)" if more > 0 else ""
        yield f"Trained at another cost: {'; '.join(told[:MOST_NAMED])}{left}."


def cost_ratio(arm: ArmSummary, summary: Judged) -> float | None:
    """An arm's operations over those of the arm that it is compared with; tokens, where these are
    all that is known."""
    other = next((one for one in summary.arms if one.name == compared_with(arm, summary)), None)
    if other is None:
        return None
    pairs = ((arm.operations, other.operations), (arm.tokens, other.tokens))
    return next((own / theirs for own, theirs in pairs if own and theirs), None)


def _difference(arm: ArmSummary, other: ArmSummary) -> str:
    """`62% more tokens, 20% more operations`; empty if neither differs by a tenth."""
    pairs = {"tokens": (arm.tokens, other.tokens), "operations": (arm.operations, other.operations)}
    return ", ".join(text for name, own in pairs.items() if (text := _apart(name, own)))


def _apart(name: str, numbers: Sequence[float | None]) -> str:
    own, theirs = numbers
    if not own or not theirs or abs(own / theirs - 1) <= APART:
        return ""
    ratio = own / theirs
    if ratio >= 10:
        return f"{ratio:.0f} times the {name}"
    return f"{100 * abs(ratio - 1):.0f}% {'more' if ratio > 1 else 'fewer'} {name}"
