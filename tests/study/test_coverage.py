"""The shipped studies cover the papers' tables, except for listed rows, each with a reason."""

import pytest

from ablate import papers
from ablate.study.coverage import covered_rows
from ablate.study.file import load

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


OTHERS = {  # a row's corpus -> the one that its models train on
    "PTB 20k-word slice": "ptb",
    "MSR Sentence Completion": "folder:novels",
    "Project Gutenberg (Holmes)": "folder:novels",
    "Headline generation (Zhou et al. 2017 test set)": "folder:headlines",
    "PTB constituency parsing (Section 23)": "folder:ptb_trees",
    "text8 (characters)": "folder:text8",
    "text8 (words)": "folder:text8",
}


def test_an_arm_stands_beside_no_row_of_another_corpus(covered):
    """AWD-LSTM's arms are of one corpus each, and its two rows once had both of them."""
    for rows in covered.values():
        for each in (row for row in rows if not row.row.corpus.startswith("IWSLT")):
            expected = OTHERS.get(each.row.corpus, each.row.corpus)
            ours = {load(a.study).scales[scale].corpus for a in each.arms for scale in a.scales}
            assert ours <= {expected}
    awd = [each for each in covered["takase2017iog"] if each.row.model.endswith("authors' code)")]
    beside = {(e.row.corpus, e.row.variant): [arm.arm for arm in e.arms] for e in awd}
    assert beside["ptb", "+WT"] == ["AWD (ptb)"]
    assert beside["ptb", "+WT+IOG"] == ["AWD (ptb) + IOG"]
    assert beside["wikitext-2", "+WT"] == ["AWD (wikitext-2)"]
    assert beside["wikitext-2", "+WT+IOG"] == ["AWD (wikitext-2) + IOG"]


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
