"""The smaller tables of a study: a factorial's effects, published numbers, every test in full."""

from __future__ import annotations

from ablate.compare.formats import Table, table_of
from ablate.compare.statistics.replication import plural
from ablate.compare.table import columns as shown
from ablate.compare.table.rows import SPLITS, ArmSummary, Comparison, Effect, Summary
from ablate.compare.text.figures import NONE, decimal, signed

NATS, SIZE = 4, 2  # decimals
EFFECT_SIZE = "Effect size: Hedges' g, the mean over the spread of the differences."


def effects(summary: Summary) -> Table | None:
    """A factorial's effects and interactions; None for other designs."""
    found = summary.effects
    if found is None or not found.effects:
        return None
    tested = not summary.replication.of_settings_found
    interval = shown.interval_heading(summary)
    headings = ["effect", f"Δ, {summary.split} [{interval}]", "Holm p", "verdict"]
    rows = [_effect(effect, shown.decimals(summary)) for effect in found.every]
    if not tested:
        headings, rows = [*headings[:2], headings[3]], [[*row[:2], row[3]] for row in rows]
    return table_of(headings, rows, left=["verdict"], notes=[*found.readings, *found.notes])


def _effect(effect: Effect, digits: int) -> list[str]:
    delta = shown.with_interval(effect.delta, effect.interval, digits)
    verdict = shown.with_more(effect.verdict, effect.more)
    verdict = f"{effect.verdict} ({effect.reason})" if effect.reason else verdict
    return [effect.names, delta, shown.p_value(effect.p_holm), verdict]


def published(summary: Summary) -> Table | None:
    """Our numbers next to the paper's; None where they may not be compared."""
    arms = [arm for arm in summary.arms if arm.published]
    if not arms:
        return None
    splits = [split for split in SPLITS if any(split in arm.published for arm in arms)]
    verdicts = [f"verdict, {split}" for split in splits]
    headings = ["next to the paper"]
    for split, verdict in zip(splits, verdicts, strict=True):
        headings += [f"{split}, ours", "published", verdict]
    rows = [[arm.name, *(c for s in splits for c in _published(summary, arm, s))] for arm in arms]
    return table_of(headings, rows, left=verdicts)


def _published(summary: Summary, arm: ArmSummary, split: str) -> list[str]:
    digits, theirs = shown.decimals(summary), arm.published.get(split)
    return [
        shown.mean_and_spread(arm.cells.get(split), digits),
        NONE if theirs is None else decimal(theirs, digits),
        summary.verdicts.get((arm.name, split), NONE),
    ]


def every_test(summary: Summary) -> Table | None:
    """All differences, of arms and then of effects; None where there is none."""
    arms = [(arm.name, arm.comparison) for arm in summary.arms if arm.comparison]
    effects = summary.effects.every if summary.effects else ()
    rows = [_test(name, each) for name, each in (*arms, *((e.names, e) for e in effects))]
    headings = [f"difference, {summary.split}", "pairs", "nats", shown.interval_heading(summary)]
    headings += ["t-test p", "sign-flip p", "Holm p", "effect size", "verdict"]
    return table_of(headings, rows, notes=[_about_tests(summary)]) if rows else None


def _test(name: str, tested: Comparison | Effect) -> list[str]:
    difference = tested.difference
    size, interval = difference.effect_size, difference.interval
    return [
        *(name, str(difference.num_pairs), signed(difference.mean, NATS)),
        "" if interval is None else f"[{', '.join(signed(end, NATS) for end in interval)}]",
        *map(shown.p_value, (difference.p, difference.p_sign_flip, tested.p_holm)),
        *("" if size is None else signed(size, SIZE), tested.verdict),
    ]


def _about_tests(summary: Summary) -> str:
    """What is paired, which interval and test these are, and what is corrected over what."""
    replication = summary.replication
    if replication.of_settings_found:
        return (
            f"Paired over seeds, with {replication.searches} for each arm: each row has its own "
            f"interval, which is of the settings found, and nothing is tested. {EFFECT_SIZE}"
        )
    return (
        f"Paired over {plural(replication.unit)}; each row has its own interval. The verdict is "
        "that of the t-test after Holm's correction; arms are one family, main effects and "
        f"interactions another, effects within an interaction a third. {EFFECT_SIZE}"
    )
