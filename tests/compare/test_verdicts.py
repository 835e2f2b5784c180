"""Verdicts on published numbers: the rule, its error, and why two numbers are not comparable."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from ablate import papers
from ablate.compare.judged import Judged
from ablate.compare.statistics.verdicts import judged
from ablate.config.metrics import BITS, BRACKET_F1, PERPLEXITY, ROUGE_1
from ablate.lm.scores.rouge import TOKENIZERS
from tests.support.tables import written

PPL, BPC = PERPLEXITY, BITS


def nats(*perplexities: float) -> list[list[float]]:
    """The losses of an arm that was not tuned: each seed is a pair."""
    return [[math.log(each)] for each in perplexities]


def seeds(losses) -> list[list[float]]:
    return [[float(each)] for each in losses]


def test_the_words():
    assert judged(nats(60.0, 60.1, 59.9), 60.2, PPL) == "reproduced"
    assert judged(nats(60.0, 62.0, 58.0), 61.5, PPL) == "within seed noise"
    assert judged(nats(60.0, 60.1, 59.9), 70.0, PPL) == "not reproduced: ours 14.3% lower"
    assert judged(nats(60.0, 60.1, 59.9), 50.0, PPL) == "not reproduced: ours 20.0% higher"
    assert judged(nats(60.0), 60.0, PPL) == "not comparable: 1 seed has no spread"
    assert judged(nats(60.0, 60.0), 60.0, PPL) == "not comparable: 2 seeds"
    assert judged([], 60.0, PPL) == "not comparable: not measured"


def test_at_the_margin_itself_it_is_reproduced():
    """Seeds that agree, and a metric whose numbers are exact."""
    assert ROUGE_1.margin == 0.5
    assert judged(seeds([-50.0] * 3), 50.5, ROUGE_1) == "reproduced"
    assert judged(seeds([-50.0] * 3), 50.625, ROUGE_1) == "not reproduced: ours 0.62 lower"


def test_a_model_of_counts_needs_no_spread(by_hand):
    """Every run of it is the same, so one is held against the published number."""
    assert judged(nats(141.19), 141.2, PPL, exact=True) == "reproduced"
    assert judged(nats(127.8), 125.7, PPL, exact=True) == "not reproduced: ours 1.7% higher"
    assert judged([], 60.0, PPL, exact=True).startswith("not comparable")
    _, truth = published(by_hand, [0.0])
    study, _ = published(by_hand, [truth])
    counted = study.journals["base-0"]
    counted.trial = replace(counted.trial, runner="counting")
    assert verdict_on(study) == "reproduced"


def test_bits_are_judged_as_nats_are():
    losses = seeds([1.40, 1.41, 1.39])
    inside, outside = 1.40 / math.log(2), 1.60 / math.log(2)
    assert judged(losses, inside, BPC) == "within seed noise"
    assert judged(losses, outside, BPC) == "not reproduced: ours 12.5% lower"


def test_seeds_that_agree_to_the_last_bit_can_still_be_rounded_apart():
    """A paper prints one decimal: 60.3 may have been 60.25."""
    same, seen = nats(61.2, 61.2, 61.2), 62.0
    assert judged(same, seen, PPL) == "not reproduced: ours 1.3% lower"
    assert judged(same, seen, PPL, rounding=1.0) == "within seed noise"


PAPER, TABLE = "takase2018doc", "Table 3"


def published(by_hand, losses, **fields):
    cell = next(
        c
        for c in papers.cells(PAPER, TABLE, split="test")
        if c.corpus == "ptb" and c.metric == "ppl"
    )
    study = by_hand({"base": losses})
    study.arm_fields = {"base": {"published": {"test": cell.value}}}
    record = {"paper": PAPER, "tables": (TABLE,), "corpus": "ptb", "published_scale": True}
    study.record_fields = {**record, **fields}
    return study, math.log(cell.value)


def verdict_on(study) -> str:
    return Judged(study.record, study.journals).verdicts["base", "nll", "test"]


def close(truth: float) -> list[float]:
    return [truth + 0.001, truth - 0.001, truth + 0.0005]


def test_why_two_numbers_are_not_comparable(by_hand):
    _, truth = published(by_hand, [0.0])

    def study(losses=None, **fields):
        return published(by_hand, losses or close(truth), **fields)[0]

    assert verdict_on(study(corpus="wikitext-2")) == "not comparable: another corpus (wikitext-2)"
    assert verdict_on(study(corpus_digest="x")) == "not comparable: another corpus digest"
    assert verdict_on(study([truth])) == "not comparable: 1 seed has no spread"
    assert verdict_on(study([*close(truth), None])) == "not comparable: 1 to run"
    lost = study([*close(truth), truth])
    lost.end("base-3", "diverged")
    assert verdict_on(lost) == "not comparable: it lost seeds"
    part = study()
    part.journals["base-0"].config["corpus.train_tokens"] = 1000
    assert verdict_on(part) == "not comparable: a part of the corpus"


def test_a_cell_that_says_so_is_not_comparable(by_hand):
    """The sum-product net's number is of the treebank's terminals, with capitals."""
    study = by_hand({"base": close(math.log(100.0))})
    study.arm_fields = {"base": {"published": {"test": 100.0}}}
    where = {"paper": "inan2017tying", "tables": ("Table 2",), "corpus": "ptb"}
    study.record_fields = {**where, "published_scale": True}
    assert verdict_on(study) == "not comparable: another text"


def test_an_arm_whose_study_says_so_is_not_comparable(by_hand):
    """It once said in a note that the training was another one, and judged the number anyway."""
    study, _ = published(by_hand, [4.2] * 3)
    assert verdict_on(study).startswith("not reproduced")
    study.arm_fields["base"]["not_comparable"] = "trained by Adam"
    assert verdict_on(study) == "not comparable: trained by Adam"
    text = written(Judged(study.record, study.journals), "markdown")
    assert "not comparable: trained by Adam" in text and "not reproduced:" not in text


@pytest.mark.parametrize(
    ("table", "corpus", "level", "there"),
    [
        ("Table 1a", "folder:text8", "character", 1.55),
        ("Table 1b", "folder:text8", "word", 197),
        ("Table 1b", "~/texts/text8/", "word", 197),
        ("Table 1c", "folder:novels", "word", 103.5),
    ],
)
def test_a_text_that_the_user_brings_is_the_papers_by_its_folders_name(
    by_hand, table, corpus, level, there
):
    truth = there * math.log(2) if level == "character" else math.log(there)
    study = by_hand({"base": close(truth)})
    study.arm_fields = {"base": {"published": {"test": there}}}
    where = {"paper": "pachitariu2013irlm", "tables": (table,), "corpus": corpus, "level": level}
    study.record_fields = {**where, "published_scale": True}
    assert verdict_on(study) == "reproduced"
    study.record_fields["corpus"] = "folder:other"
    assert verdict_on(study) == "not comparable: another corpus (folder:other)"


def of_headlines(by_hand, signature):
    rouge_1 = replace(ROUGE_1, name="generate.rouge_1")
    study = by_hand({"base": [None] * 3})
    study.arm_fields = {"base": {"published": {"test": 46.77}}}
    where = {"paper": "takase2018doc", "tables": ("Table 10",), "corpus": "folder:headlines"}
    study.record_fields = {**where, "published_scale": True, "judged_by": rouge_1}
    for seed, score in enumerate((46.7, 46.75, 46.8)):
        metrics, how = {rouge_1.key("test"): score}, {"generate.rouge": signature}
        study.end(f"base-{seed}", "completed", metrics=metrics, signatures=how)
    return Judged(study.record, study.journals).verdicts["base", rouge_1.name, "test"]


def test_only_rouge_of_the_words_of_lins_program_has_a_verdict(by_hand):
    """Ours of titles with # for digits is another number, and was once compared."""
    lins, ours = (f"F1|case:lc|stem:no|tok:{t}|rouge-score:0.1.2" for t in TOKENIZERS)
    assert of_headlines(by_hand, lins) == "reproduced"
    expected = "not comparable: ROUGE of other words than Lin's program counts"
    assert of_headlines(by_hand, ours) == expected


def test_the_treebank_that_the_user_brings_is_the_papers(by_hand):
    """A choice among parses of it was once said to be of another corpus."""
    f1 = replace(BRACKET_F1, name="rerank.bracket_f1")
    study = by_hand({"base": [None] * 3})
    study.arm_fields = {"base": {"published": {"test": 93.3}}}
    where = {"paper": "takase2018doc", "tables": ("Table 11",), "corpus": "folder:ptb_trees"}
    study.record_fields = {**where, "published_scale": True, "judged_by": f1, "level": "word"}
    for seed, score in enumerate((93.2, 93.3, 93.4)):
        study.end(f"base-{seed}", "completed", metrics={f1.key("test"): score})
    summary = Judged(study.record, study.journals)
    assert summary.verdicts["base", f1.name, "test"] == "reproduced"


def test_the_same_folder_by_words_and_by_letters_is_two_corpora():
    assert papers.corpus_name("folder:text8", "word") == "text8 (words)"
    assert papers.corpus_name("folder:text8", "character") == "text8 (characters)"
    assert papers.corpus_name("folder:novels", "character") == "folder:novels"
    assert papers.corpus_name("ptb", "character") == "ptb"


def test_only_cells_with_the_published_number_say_of_which_corpus_it_is(by_hand, monkeypatch):
    """The table also has the model on another corpus, with other numbers."""
    ours = papers.Cell(
        table=TABLE, model="m", corpus="ptb", metric="ppl", value=60.0, decimals=0, split="test"
    )
    lower, higher = (replace(ours, corpus="wikitext-2", value=v) for v in (55.25, 75.25))
    paper = replace(papers.load(PAPER), cells=(lower, ours, higher))
    monkeypatch.setattr(papers, "load", lambda paper_id: paper)

    def verdict(value, loss, corpus="ptb"):
        study = by_hand({"base": [math.log(loss)] * 3})
        study.arm_fields = {"base": {"published": {"test": value}}}
        place = {"paper": PAPER, "tables": (TABLE,), "published_scale": True, "corpus": corpus}
        study.record_fields = place
        return verdict_on(study)

    assert verdict(60.0, 60.0) == "reproduced"
    assert verdict(60.0, 60.0, "wikitext-2") == "not comparable: another corpus (wikitext-2)"
    assert verdict(75.25, 75.25, "ptb") == "not comparable: another corpus (ptb)"
    assert verdict(75.25, 75.25, "wikitext-2") == "reproduced"


@pytest.mark.parametrize(("decimals", "expected"), [(0, "within seed noise"), (1, "not repro")])
def test_a_printed_number_may_have_been_rounded_by_half_of_its_last_digit(
    by_hand, monkeypatch, decimals, expected
):
    """Three equal losses have no spread: 20.4 is within 20 +- 0.5, and not within 20.0 +- 0.05."""
    cell = papers.Cell(
        table=TABLE,
        model="m",
        corpus="ptb",
        metric="ppl",
        value=20.0,
        decimals=decimals,
        split="test",
    )
    finer = [
        replace(cell, value=21.0, decimals=4),
        replace(cell, table="Table 9", decimals=4),
        replace(cell, split="valid", decimals=4),
        replace(cell, metric="bpc", decimals=4),
    ]
    paper = replace(papers.load(PAPER), cells=(cell, *finer))
    monkeypatch.setattr(papers, "load", lambda paper_id: paper)
    study = by_hand({"base": [math.log(20.4)] * 3})
    study.arm_fields = {"base": {"published": {"test": 20.0}}}
    study.record_fields = {
        "paper": PAPER,
        "tables": (TABLE,),
        "corpus": "ptb",
        "published_scale": True,
    }
    assert verdict_on(study).startswith(expected)
