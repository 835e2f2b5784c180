"""Against sacrebleu's published numbers, and against BLEU worked by hand."""

import logging
import math

import pytest

from ablate.lm.scores.bleu import bleu, counts, score_of, tokenized_bleu

OURS = ["The dog bit the man.", "It wasn't surprising.", "The man had just bitten him."]
THEIRS = ["The dog bit the man.", "It was not unexpected.", "The man bit him first."]


def test_the_score_of_sacrebleus_own_example():
    """With the first references of its README."""
    scored = bleu(OURS, THEIRS)
    assert scored.score == pytest.approx(45.0675, abs=1e-4)
    assert scored.signature.startswith("nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:")


def test_a_score_worked_by_hand():
    """13 words for 14; 10, 7, 4 and 2 right 1- to 4-grams."""
    ours = ["a b c d e , f", "g h i j k l"]
    theirs = ["a b c d x , y z", "g h i k j l"]
    right, total = (5 + 6, 3 + 2, 2 + 1, 1 + 0), (13, 11, 9, 7)
    precision = math.prod(r / t for r, t in zip(right, total, strict=True)) ** (1 / 4)
    expected = 100 * math.exp(1 - 14 / 13) * precision
    assert bleu(ours, theirs, "none").score == pytest.approx(expected)
    assert tokenized_bleu(ours, theirs) == pytest.approx(expected)


def test_tokenized_bleu_takes_words_as_they_stand_and_smooths_nothing():
    assert bleu(["He sleeps now."], ["He sleeps now ."]).score == 100
    assert tokenized_bleu(["He sleeps now."], ["He sleeps now ."]) == 0
    assert tokenized_bleu(["a b c x"], ["a b c d"]) == 0
    assert bleu(["a b c x"], ["a b c d"]).score > 0


@pytest.mark.parametrize("tokenizer", ["13a", "intl", "char", "none"])
def test_counts_of_sentences_add_up_to_the_score(tokenizer):
    rows = counts(OURS, THEIRS, tokenizer)
    summed = [sum(column) for column in zip(*rows, strict=True)]
    assert score_of(summed) == pytest.approx(bleu(OURS, THEIRS, tokenizer).score)


def test_tokenized_text_is_no_reason_to_warn(caplog):
    caplog.set_level(logging.DEBUG)
    bleu(["It is so ."] * 200, ["It is so ."] * 200)
    assert caplog.text == ""
