"""`ablate table papers`: every row of the papers' tables, its arms, and what they gave here."""

import math

import pytest

from ablate.cli import main
from ablate.store import study_record
from ablate.store.workspace import open_workspace
from tests.support.studies_by_hand import ByHand

MEDIUM = "LSTM (medium) (Zaremba et al., 2014)"


@pytest.fixture
def papers(tmp_path, capsys):
    """Run the command in a workspace; return its status and what it printed, on one line."""

    def run(*arguments):
        status = main(["papers", *arguments, "--workspace", str(tmp_path)])
        printed = capsys.readouterr()
        return status, " ".join((printed.out + printed.err).split())

    return run


def recorded(folder, perplexities, arm=MEDIUM, numbers=(86.2, 82.7), of_arm=None, **fields):
    """Record a study at its paper's scale, with a result of one arm for each seed.

    By default `doc_comparison`; `numbers` are the published ones, of validation and test.
    """
    valid, test = numbers
    study = ByHand(
        {arm: [math.log(p) for p in perplexities]},
        base_arm=arm,
        record_fields={
            "name": "doc_comparison",
            "scale": "paper",
            "paper": "takase2018doc",
            "tables": ("Table 7", "Table 8"),
            "corpus": "ptb",
            "published_scale": True,
            **fields,
        },
        arm_fields={arm: {"published": {"valid": valid, "test": test}, **(of_arm or {})}},
        gap=math.log(valid / test) if valid else 0.0,
    )
    store = open_workspace(str(folder)).store
    study_record.write(store, study.record)
    for journal in study.journals.values():
        journal.write(store)


def test_a_row_has_the_results_of_this_workspace(papers, tmp_path):
    recorded(tmp_path, (82.7, 82.8, 82.6))
    _, printed = papers("takase2018doc")
    assert "valid 86.20±0.10 (n=3), reproduced; test 82.70±0.10 (n=3), reproduced" in printed
    assert "1 with a result here" in printed


def test_a_quoted_row_of_another_paper_has_them_too(papers, tmp_path):
    recorded(tmp_path, (82.7, 82.8, 82.6))
    _, printed = papers("takase2017iog")
    assert f"doc_comparison: {MEDIUM}" in printed
    assert "test 82.70±0.10 (n=3), reproduced" in printed


def test_a_verdict_on_the_number_of_another_row_names_that_number(papers, tmp_path):
    """Two rows print a model, 52.0 and 51.7: its arm, which both have, is judged by the second."""
    of_iog = {
        "name": "iog",
        "scale": "paper_wikitext2",
        "paper": "takase2017iog",
        "tables": ("Table 3",),
    }
    arm, numbers = "AWD (wikitext-2), cache", (53.5, 51.7)
    recorded(tmp_path, (51.5, 51.45, 51.4), arm, numbers, corpus="wikitext-2", **of_iog)
    _, printed = papers("takase2017iog")
    quoted, own = printed.split("valid 53.8, test 52.0")[1].split("valid 53.5, test 51.7")
    own = own.split("+IOG")[0]
    assert "test 51.45±0.05 (n=3), reproduced (next to 51.7)" in quoted
    assert "test 51.45±0.05 (n=3), reproduced" in own and "next to" not in own


AWD = "AWD LSTM + WT (run with authors' code)"


def of_iog(folder, arm, corpus, **fields):
    tables = {"paper": "takase2017iog", "tables": ("Table 2", "Table 3")}
    scale = {"ptb": "paper", "wikitext-2": "paper_wikitext2"}[fields.pop("at", corpus)]
    more = {"name": "iog", "scale": scale, "corpus": corpus, **tables, **fields}
    recorded(folder, (57.1, 57.2, 57.3), arm, (60.0, 57.3), **more)


@pytest.mark.parametrize("corpus", ["ptb", "wikitext-2"])
def test_a_result_stands_beside_rows_of_its_own_corpus_alone(papers, tmp_path, corpus):
    of_iog(tmp_path, f"AWD ({corpus})", corpus)
    _, printed = papers("takase2017iog")
    (beside,) = [row for row in printed.split(f"{AWD} +WT (") if "57.20" in row]
    assert beside.startswith(f"{corpus})") and "1 with a result here" in printed


def test_a_result_on_a_split_that_the_row_does_not_have_is_not_beside_it(papers, tmp_path):
    """The page has a test perplexity of the searched cell, and no other number."""
    of_iog(tmp_path, "searched cell", "ptb")
    _, printed = papers("takase2017iog")
    (beside,) = [row for row in printed.split("Neural Architecture Search") if "57.20" in row]
    assert "test 57.20" in beside and "valid" not in beside.split("iog: searched cell")[1]


def test_a_number_that_is_not_comparable_says_why(papers, tmp_path):
    fields = {"name": "irlm_ptb", "scale": "adam", "paper": "pachitariu2013irlm"}
    reason = {"not_comparable": "trained by Adam"}
    recorded(
        tmp_path, (117.1, 117.2, 117.3), "IRLM DO", (0, 109), tables=("Table 2",),
        of_arm=reason, **fields,
    )  # fmt: skip
    _, printed = papers("pachitariu2013irlm", "inan2017tying")
    assert "adam: test 117.2±0.1 (n=3), not comparable: trained by Adam" in printed
    assert "Sum-Prod Net (Cheng et al., 2014) (ptb)" in printed
    assert "test 100.0 (quoted; not comparable: another text)" in printed


def test_missing_lists_only_rows_without_an_arm_and_says_why(papers):
    _, printed = papers("--missing", "takase2018doc")
    assert "a parser with self-attention, and no language model" in printed
    assert "doc_comparison" not in printed
    assert "takase2018doc: 94 rows" in printed
