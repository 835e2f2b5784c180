"""The shipped studies cover the papers' tables, except for listed rows, each with a reason."""

import pytest

from ablate import papers
from ablate.study.coverage import covered_rows
from ablate.study.file import load

MOST_ABSENT = 10  # rows of tables; falls as techniques and tasks arrive, to at most 10
# Experiments that the text describes and no arm repeats.
ABSENT_OF_TEXT = {
    "pachitariu2013irlm, text: RNN (2048 units, smoothed rectifier) (raw Wikipedia (characters))",
    "pachitariu2013irlm, text: mixture (ptb)",
}


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
    absent = {
        name(paper, each.row) for paper, rows in covered.items() for each in rows if not each.arms
    }
    assert absent >= ABSENT_OF_TEXT
    assert len(absent - ABSENT_OF_TEXT) <= MOST_ABSENT


def test_experiments_of_the_text_have_rows(covered):
    """None of these four were listed anywhere."""
    of_text = {
        (each.row.table, each.row.name): [arm.arm for arm in each.arms]
        for paper in ("pachitariu2013irlm", "inan2017tying")
        for each in covered[paper]
        if each.row.table in ("text", "Section 6.4")
    }
    assert of_text == {
        ("text", "RNN (2048 units, smoothed rectifier)"): [],
        ("text", "RNN (echo-state block)"): ["RNN (echo-state block)"],
        ("text", "mixture"): [],
        ("Section 6.4", "VD-LSTM large (1500)"): ["VD-LSTM"],
        ("Section 6.4", "VD-LSTM+REAL large (1500)"): ["VD-LSTM+REAL"],
    }


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
