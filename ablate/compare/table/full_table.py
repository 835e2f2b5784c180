"""Everything about a study's table: every column, published numbers, every test, and how the
numbers were made. `study_table.py` has what answers the question."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from operator import attrgetter, itemgetter

from ablate.compare.formats import Column, Table, for_people
from ablate.compare.judged import Judged
from ablate.compare.table import columns as shown
from ablate.compare.table import notes
from ablate.compare.table.beside_paper import beside_paper, with_notes
from ablate.compare.table.rows import Effect
from ablate.compare.table.settings import found_by_searches
from ablate.compare.table.wins import about_wins
from ablate.compare.text.figures import changed
from ablate.results.settings import row_names
from ablate.store.replication import plural


def full_table(
    summary: Judged, *, other_scales: Sequence[Table] = (), reference: str = ""
) -> Table:
    """A row for each arm; below it effects, published numbers, and the study's other scales."""
    parts = (
        _effects(summary),
        found_by_searches(summary.found, row_names(summary.record)),
    )
    further = [table for table in parts if table is not None]
    if beside := [*beside_paper(summary)]:
        further += with_notes(beside)
    record = summary.record
    source = ", ".join([record.paper, *record.tables]) if record.paper else ""
    return for_people(
        shown.arm_columns(summary),
        summary.arms,
        title=f"{record.key} · {source}" if source else record.key,
        question=record.question,
        settings=list(notes.settings(summary)),
        below=[*notes.ensembles(summary), *notes.run_next(summary)],
        warnings=[*notes.holes(summary), *notes.fewer_seeds(summary), *notes.at_floor(summary)],
        notes=list(notes.verdicts(summary)),
        cautions=list(notes.cautions(summary)),
        further=[*further, *other_scales],
        reference=reference,
    )


def _effects(summary: Judged) -> Table | None:
    """A factorial's effects and interactions; None for other designs."""
    effects = summary.effects
    if effects is None or not effects.effects:
        return None
    digits, tests = shown.decimals(summary), shown.columns_of_tests(summary)
    p_holm = [replace(column, heading="Holm p") for column in tests if column.name == "p_holm"]
    delta = f"{shown.delta_name(summary)}, {summary.split} [{shown.interval_heading(summary)}]"
    columns = [
        Column("effect", attrgetter("names"), left=True),
        Column(delta, lambda e: changed(summary.metric, e.delta, e.interval, digits)),
        *([] if summary.replication.untestable else p_holm),
        Column("verdict", _with_reason, left=True, wraps=True, first=1),
    ]
    return for_people(columns, effects.every, notes=[*effects.readings, *effects.notes])


def _with_reason(effect: Effect) -> str:
    return f"{shown.with_more(effect)}{f' ({effect.reason})' if effect.reason else ''}"


def every_test(summary: Judged) -> Table | None:
    """All differences, of arms and then of effects; None where there is none."""
    effects = summary.effects.every if summary.effects else ()
    arms = [(_less_another(summary, arm.name), arm.comparison) for arm in summary.arms]
    rows = [*arms, *((effect.names, effect) for effect in effects)]
    columns = [
        Column(f"difference, {summary.shown_split}", itemgetter(0), left=True),
        *(column.about(itemgetter(1)) for column in shown.columns_of_tests(summary)),
    ]
    compared = [(name, tested) for name, tested in rows if tested]
    return for_people(columns, compared, notes=[_about_tests(summary)]) if compared else None


def _less_another(summary: Judged, arm: str) -> str:
    """The arm's name, with the name of the arm it is compared with unless this is the base arm."""
    other = summary.elsewhere.get(arm)
    return arm if other is None else f"{arm}, less {other}"


def _about_tests(summary: Judged) -> str:
    """Describe the pairs, the intervals, the test, and the families of Holm's correction."""
    replication = summary.replication
    if replication.untestable:
        return (
            f"Paired over seeds, with {replication.searches} for each arm: each row has its own "
            "interval, which is of the settings found, and nothing is tested. "
            f"{about_wins(summary)}"
        )
    return (
        f"Paired over {plural(replication.unit)}; each row has its own interval. The verdict is "
        f"that of the {summary.looks.test} after Holm's correction over the whole page: arms, main "
        "effects and interactions are one family, and effects within a decided interaction share "
        f"its part. {about_wins(summary)}"
    )
