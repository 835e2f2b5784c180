"""A study's table as any writer of `ablate.compare.formats` takes it, and the smaller tables below
it: a factorial's effects, published numbers, every test in full."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ablate.compare.formats import Table, table_of
from ablate.compare.statistics.verdicts import as_printed
from ablate.compare.table import columns as shown
from ablate.compare.table import notes
from ablate.compare.table.rows import ArmSummary, Comparison, Effect, Summary
from ablate.compare.text.figures import NONE, signed
from ablate.config.metrics import SPLIT
from ablate.results.replication import plural

NATS, SIZE = 4, 2  # decimals
EFFECT_SIZE = "Effect size: Hedges' g, the mean over the spread of the differences."


def study_table(
    summary: Summary, *, other_scales: Sequence[Table] = (), reference: str = ""
) -> Table:
    """A row for each arm; below it effects, published numbers, and the study's other scales."""
    columns, cells = zip(*shown.arm_columns(summary), strict=True)
    further = [table for table in (_effects(summary), *_published(summary)) if table is not None]
    record = summary.record
    source = ", ".join([record.paper, *record.tables]) if record.paper else ""
    return Table(
        columns,
        [[cell(arm) for cell in cells] for arm in summary.arms],
        title=f"{record.key} · {source}" if source else record.key,
        question=record.question,
        settings=list(notes.settings(summary)),
        below=list(notes.ensembles(summary)),
        warnings=list(notes.holes(summary)),
        notes=list(notes.verdicts(summary)),
        cautions=list(notes.cautions(summary)),
        further=[*further, *other_scales],
        reference=reference,
    )


def _effects(summary: Summary) -> Table | None:
    """A factorial's effects and interactions; None for other designs."""
    effects = summary.effects
    if effects is None or not effects.effects:
        return None
    digits = shown.decimals(summary)
    tested = not summary.replication.of_settings_found
    headings = ["effect", f"Δ, {summary.split} [{shown.interval_heading(summary)}]"]
    headings += ["Holm p", "verdict"] if tested else ["verdict"]
    rows = []
    for effect in effects.every:
        delta = shown.with_interval(effect.delta, effect.interval, digits)
        p = [shown.p_value(effect.p_holm)] if tested else []
        reason = f" ({effect.reason})" if effect.reason else ""
        rows.append([effect.names, delta, *p, f"{shown.with_more(effect)}{reason}"])
    return table_of(headings, rows, left=["verdict"], notes=[*effects.readings, *effects.notes])


def _published(summary: Summary) -> Iterator[Table]:
    """Our numbers next to the paper's: a table for each metric and split that the paper has."""
    for index, metric in enumerate((summary.metric, *summary.record.columns)):
        for split in metric.splits:
            arms = [arm for arm in summary.arms if split in arm.every[index].published]
            if arms:
                name = split  # the deciding metric is the table's unit and needs no name
                if index:
                    name = f"{metric.shown}, {split}" if metric.of == SPLIT else metric.shown
                headings = [f"{name}, next to the paper", "ours", "published", "verdict"]
                rows = [[arm.name, *_against_paper(summary, arm, index, split)] for arm in arms]
                yield table_of(headings, rows, left=["verdict"])


def _against_paper(summary: Summary, arm: ArmSummary, index: int, split: str) -> list[str]:
    measured = arm.every[index]
    metric = measured.metric
    digits = metric.digits if index else shown.decimals(summary)
    return [
        shown.mean_and_spread(measured.cells.get(split), digits),
        as_printed(summary.record, split, metric, measured.published[split]),
        summary.verdicts.get((arm.name, metric.name, split), NONE),
    ]


def every_test(summary: Summary) -> Table | None:
    """All differences, of arms and then of effects; None where there is none."""
    effects = summary.effects.every if summary.effects else ()
    arms = [(_less_another(summary, arm.name), arm.comparison) for arm in summary.arms]
    rows = [_test(summary, name, comparison) for name, comparison in arms if comparison]
    rows += [_test(summary, effect.names, effect) for effect in effects]
    headings = [
        f"difference, {summary.split}",
        "pairs",
        summary.metric.scale_name,
        shown.interval_heading(summary),
    ]
    headings += ["t-test p", "sign-flip p", "Holm p", "effect size", "verdict"]
    return table_of(headings, rows, notes=[_about_tests(summary)]) if rows else None


def _less_another(summary: Summary, arm: str) -> str:
    """The arm's name, with that of the arm it is compared with, unless this is the base arm."""
    other = summary.elsewhere.get(arm)
    return arm if other is None else f"{arm}, less {other}"


def _test(summary: Summary, name: str, tested: Comparison | Effect) -> list[str]:
    difference, natural = tested.difference, summary.metric.natural
    natural_interval = summary.metric.natural_interval
    size, interval = difference.effect_size, difference.interval
    return [
        *(name, str(difference.num_pairs), signed(natural(difference.mean), NATS)),
        "" if interval is None else _interval(natural_interval(interval)),
        *map(shown.p_value, (difference.p, difference.p_sign_flip, tested.p_holm)),
        *("" if size is None else signed(natural(size), SIZE), tested.verdict),
    ]


def _interval(interval: tuple[float, float]) -> str:
    return f"[{', '.join(signed(end, NATS) for end in interval)}]"


def _about_tests(summary: Summary) -> str:
    """Describe the pairs, the intervals, the test, and the families of Holm's correction."""
    replication = summary.replication
    compared = [arm.comparison for arm in summary.arms if arm.comparison]
    effects = summary.effects.every if summary.effects else ()
    any_cut = any(tested.is_cut for tested in (*compared, *effects))
    uncut = " These intervals are not cut." if any_cut else ""
    if replication.of_settings_found:
        return (
            f"Paired over seeds, with {replication.searches} for each arm: each row has its own "
            f"interval, which is of the settings found, and nothing is tested. {EFFECT_SIZE}{uncut}"
        )
    return (
        f"Paired over {plural(replication.unit)}; each row has its own interval. The verdict is "
        "that of the t-test after Holm's correction; arms are one family, main effects and "
        f"interactions another, effects within an interaction a third. {EFFECT_SIZE}{uncut}"
    )
