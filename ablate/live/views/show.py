"""A study on one screen, to be shown while it runs: the question, the answer, and intervals that
narrow as seeds come in. Until a planned look they hold at any time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

from ablate.compare.formats import Column, Drawn, Table, for_people
from ablate.compare.judged import Judged
from ablate.compare.page.parts import Grid, Text
from ablate.compare.table.rows import ArmSummary
from ablate.compare.table.short_columns import axis_end, axis_heading
from ablate.compare.table.study_table import answer_sentences, study_table
from ablate.live.followed import Followed
from ablate.live.parts import Block, Part
from ablate.results.sizes import shown_size
from ablate.store.replication import MIN_PAIRS, plural

MORE = (0, 5, 10, 20)  # seeds
ROOM = 1.25  # beyond the farthest pair
READING = (
    "Small dots: {units}. Grey: where a circle is undecided; it shrinks as {units} come in. While "
    "the study runs, intervals hold at any time, and verdicts wait: nobody decides by watching."
)


def _answer(study: Followed) -> Block:
    said = study.once("answer", lambda judged: [*answer_sentences(judged)])
    return Block(
        "answer", "", [Text(each, "answer") for each in said or ["No seed has ended yet."]]
    )


def _shown(study: Followed) -> Block:
    return study.once("shown", lambda judged: Block("shown", "", [*_forest(judged)]))


def _forest(judged: Judged) -> Iterator[Part]:
    yield Grid(steady(study_table(judged)))
    yield Text(READING.format(units=plural(judged.replication.unit)), "small")


def steady(table: Table) -> Table:
    """The table on an axis that its pairs alone decide: it stays while intervals narrow."""
    drawings = [cell for row in table.rows for cell in row if isinstance(cell, Drawn)]
    pairs = [abs(pair) for drawn in drawings for pair in drawn.pairs]
    if not pairs:
        return table
    reach = axis_end(ROOM * max(pairs))
    columns = [
        replace(c, heading=axis_heading(reach, drawings[0].unit)) if c.drawn else c
        for c in table.columns
    ]
    rows = [
        [replace(cell, reach=reach) if isinstance(cell, Drawn) else cell for cell in row]
        for row in table.rows
    ]
    return replace(table, columns=columns, rows=rows)


def _bought(study: Followed) -> Block:
    return study.once("bought", lambda judged: Block("bought", "", [*_further(judged)]))


def _further(judged: Judged) -> Iterator[Part]:
    """The smallest difference that would be found with so many more seeds."""
    unit = plural(judged.replication.unit)
    arms = [arm for arm in judged.arms if _is_open(arm)]
    if not arms:
        return
    columns = [
        Column(f"what more {unit} would find", lambda arm: arm.name, left=True),
        *(
            Column(f"+{more}" if more else "now", lambda arm, more=more: _found(arm, more, judged))
            for more in MORE
        ),
    ]
    yield Grid(for_people(columns, arms))
    yield Text(f"The smallest difference that so many more {unit} find in 80% of cases.", "small")


def _is_open(arm: ArmSummary) -> bool:
    """Return whether more pairs may decide what is not decided."""
    tested = arm.comparison
    return (
        tested is not None
        and tested.difference.num_pairs >= MIN_PAIRS
        and not tested.verdict.decided
    )


def _found(arm: ArmSummary, more: int, judged: Judged) -> str:
    if arm.comparison is None:
        return ""
    level = judged.alpha / judged.family
    return shown_size(arm.comparison.detectable_with(more, level), judged.metric)


MAKERS: Mapping[str, Callable[[Followed], Block]] = {
    "answer": _answer,
    "shown": _shown,
    "bought": _bought,
}
