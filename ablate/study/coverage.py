"""Which arms of the shipped studies stand next to each row of the papers' tables."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache

from ablate import papers
from ablate.study.file import load, shipped
from ablate.study.several import single_scales
from ablate.study.study import Study
from ablate.study.words import Arm, Scale


@dataclass(frozen=True, kw_only=True)
class Reproduction:
    """An arm that trains a row's system, and the scales at which it does so on the row's corpus."""

    study: str
    arm: str
    scales: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class CoveredRow:
    """A row of a paper's table, and the arms that reproduce it."""

    row: papers.Row
    arms: tuple[Reproduction, ...]


def covered_rows(paper: str) -> list[CoveredRow]:
    """Return a paper's rows in its order, each with its arms."""
    studies = _studies()
    return [
        CoveredRow(row=row, arms=tuple(_arms(studies, paper, row))) for row in papers.rows(paper)
    ]


@cache
def _studies() -> tuple[Study, ...]:
    """Return the shipped studies, each loaded once for all papers."""
    return tuple(load(file) for file in shipped().values())


def _arms(studies: Sequence[Study], paper: str, row: papers.Row) -> Iterator[Reproduction]:
    """Yield the arms that name the row, or another row of the same system, or show it."""
    if not row.cells:  # a figure, or a table of words
        yield from _analysed(studies, paper, row)
    rows = {(paper, row.table, row.model, row.variant), row.same_as}
    for study in studies:
        for arm in study.design.arms:
            if any(named in rows for named in _named(study, arm, row.corpus)):
                yield from _reproduction(study, arm, row.corpus)


def _reproduction(study: Study, arm: Arm, corpus: str) -> Iterator[Reproduction]:
    """Yield the arm as a row's, unless it runs on the row's corpus at no scale."""
    scales = _scales(study, arm, corpus)
    if scales:
        yield Reproduction(study=study.name, arm=arm.name, scales=scales)


def _analysed(studies: Sequence[Study], paper: str, row: papers.Row) -> Iterator[Reproduction]:
    """Yield the arms of the analyses that show a figure or a table of words, model by model."""
    models = [each.model for each in papers.rows(paper, row.table)]
    for study in studies:
        for word in study.analyses:
            if (study.paper, word.shows) != (paper, row.table):
                continue
            # Of a figure of several models, an analysis names its arms in their order.
            own = zip(models, word.arms, strict=True) if len(models) > 1 else None
            names = [arm for model, arm in own if model == row.model] if own else word.arms
            for arm in (arm for arm in study.design.arms if arm.name in names):
                yield from _reproduction(study, arm, row.corpus)


def _named(study: Study, arm: Arm, corpus: str) -> Iterator[tuple[str, ...]]:
    """Yield the rows that an arm names, of all of its study's tables."""
    for names in (*arm.also_published, *([arm.published] if arm.published else [])):
        model, variant, *corpora = names
        if not corpora or corpus in corpora:
            yield from ((study.paper, table, model, variant) for table in study.tables)


def _scales(study: Study, arm: Arm, corpus: str) -> tuple[str, ...]:
    """Return the scales at which the arm runs on the text that a row's model is trained on."""
    text, _ = papers.trained_on(corpus)
    return tuple(
        name
        for name, scale in single_scales(study.scales).items()
        if (scale.arms is None or arm.name in {study.base_arm, *scale.arms})
        and text in _corpora(scale)
    )


def _corpora(scale: Scale) -> set[str]:
    return {papers.corpus_name(scale.corpus, level) for level in ("word", "character")}
