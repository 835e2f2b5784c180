"""The shipped studies cover the papers' tables, except for listed rows, each with a reason."""

import pytest

from ablate import papers
from ablate.study.coverage import covered_rows

MOST_ABSENT = 10  # rows; falls as techniques and tasks arrive, to at most 10


@pytest.fixture(scope="module")
def covered():
    return {paper: covered_rows(paper) for paper in papers.ids()}


def name(paper, row):
    return f"{paper}, {row.table}: {row.name} ({row.corpus})"


def test_a_row_has_an_arm_or_a_reason_and_never_both(covered):
    wrong = [
        name(paper, each.row)
        for paper, rows in covered.items()
        for each in rows
        if bool(each.arms) == bool(each.row.absent)
    ]
    assert wrong == []


def test_few_rows_are_without_an_arm(covered):
    absent = [each for rows in covered.values() for each in rows if not each.arms]
    assert len(absent) <= MOST_ABSENT


def test_an_arm_runs_on_the_rows_corpus_at_some_scale(covered):
    nowhere = [
        (name(paper, each.row), arm.study)
        for paper, rows in covered.items()
        for each in rows
        for arm in each.arms
        if not arm.scales
    ]
    assert nowhere == []


@pytest.mark.parametrize("paper", papers.ids())
def test_every_entry_is_of_a_row(paper):
    """A reason, or a reference to another row, that no row reads is a mistake in the file."""
    rows = {(row.table, row.model, row.variant) for row in papers.rows(paper)}
    published = papers.load(paper)
    assert published.same_as.keys() <= rows
    models = rows | {(table, model, None) for table, model, _ in rows}
    assert published.absent.keys() <= models
    for other_paper, *other in published.same_as.values():
        others = {(row.table, row.model, row.variant) for row in papers.rows(other_paper)}
        assert tuple(other) in others
