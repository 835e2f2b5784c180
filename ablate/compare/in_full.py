"""Everything that was tested about a table's differences: what a verdict may be judged by."""

from __future__ import annotations

from ablate.compare.columns import p_value
from ablate.compare.effects import Effect
from ablate.compare.figures import signed
from ablate.compare.rows import Comparison, Summary

NATS, SIZE = 4, 2  # decimals
IN_FULL = (
    "Paired over seeds; intervals are each row's own. The verdict is the t-test's after Holm's "
    "correction; arms are one family, main effects and interactions another, effects within an "
    "interaction a third. Effect size: Hedges' g, the mean over the spread of the differences."
)


def in_full(summary: Summary) -> tuple[list[str], list[list[str]]] | None:
    """Titles and rows of all differences, of arms and then of effects; None where there is none."""
    found = summary.effects
    arms = [(arm.name, arm.comparison) for arm in summary.arms if arm.comparison]
    effects = [(each.names, each) for each in (*found.effects, *found.simple)] if found else []
    rows = [_row(name, each) for name, each in (*arms, *effects)]
    interval = f"{100 * (1 - summary.alpha):g}%"
    titles = [f"difference, {summary.split}", "pairs", "nats", f"t, {interval}"]
    titles += [f"bootstrap, {interval}", "t-test p", "sign-flip p", "Holm p"]
    return ([*titles, "effect size", "verdict"], rows) if rows else None


def _row(name: str, found: Comparison | Effect) -> list[str]:
    difference = found.difference
    size = difference.effect_size
    return [
        *(name, str(difference.num_pairs), signed(difference.mean, NATS)),
        *map(_interval, (difference.interval, difference.bootstrap)),
        *map(p_value, (difference.p, difference.p_sign_flip, found.p_holm)),
        *("" if size is None else signed(size, SIZE), found.verdict),
    ]


def _interval(found: tuple[float, float] | None) -> str:
    return "" if found is None else f"[{signed(found[0], NATS)}, {signed(found[1], NATS)}]"
