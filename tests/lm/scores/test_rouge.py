"""Against rouge-score's published examples, and against ROUGE worked by hand."""

import itertools
import re
from collections import Counter

import pytest
from rouge_score.rouge_scorer import RougeScorer

from ablate.lm.scores.rouge import rouge, signature


def test_the_scores_of_rouge_scores_own_example():
    scored = rouge(
        ["The quick brown dog jumps on the log."],
        ["The quick brown fox jumps over the lazy dog"],
    )
    assert scored["rouge_1"] == pytest.approx(70.5882, abs=1e-4)
    assert scored["rouge_l"] == pytest.approx(58.8235, abs=1e-4)


def test_scores_worked_by_hand():
    """ROUGE-2: one right pair of three and of four; L: `a b d`, three of four and of five."""
    scored = rouge(["a b x d"], ["a b c d e"])
    assert scored == pytest.approx({"rouge_1": 600 / 9, "rouge_2": 200 / 7, "rouge_l": 600 / 9})
    swapped = rouge(["d a"], ["a d"])
    assert swapped == pytest.approx({"rouge_1": 100, "rouge_2": 0, "rouge_l": 50})


@pytest.mark.parametrize(
    ("ours", "theirs", "expected"),
    [
        ("up ##.# percent", "Up ##.# per cent.", 200 * 3 / 9),  # up, ##, #
        ("हिन्दी का", "हिन्दी की", 50),  # vowel signs belong to their word
        ("Привет, мир!", "привет мир", 100),
        ("l'été", "été", 200 / 3),
        ("", "a", 0),
        ("...", "...", 0),
    ],
)
def test_words_of_any_script_and_digit_signs_count(ours, theirs, expected):
    assert rouge([ours], [theirs])["rouge_1"] == pytest.approx(expected)


@pytest.mark.parametrize(
    ("ours", "theirs", "expected"),
    [
        ("up ##.# percent", "Up ##.# per cent.", 40),  # up: of two, and of three
        ("# 8 runs", "8 runs", 100),
        ("l'été", "été", 200 / 3),  # l, t; t
        ("##", "##", 0),
    ],
)
def test_lins_program_counts_a_to_z_and_digits_alone(ours, theirs, expected):
    assert rouge([ours], [theirs], "rouge-1.5.5")["rouge_1"] == pytest.approx(expected)


def test_lins_words_are_those_of_rouge_scores_own_tokenizer():
    """An independent reading of his program, which splits at `[^a-z0-9]`."""
    lines = ["Up ##.# per cent.", "A.B.C., naïve #39;s  co-operation_x", "$3.5m <unk> 'tis"]
    scorer = RougeScorer(["rouge1", "rouge2", "rougeL"])
    for ours, theirs in itertools.product(lines, lines):
        expected = scorer.score(theirs, ours)
        scored = rouge([ours], [theirs], "rouge-1.5.5")
        assert scored["rouge_2"] == pytest.approx(100 * expected["rouge2"].fmeasure)
        words = [re.sub(r"[^a-z0-9]+", " ", line.lower()).split() for line in (ours, theirs)]
        shared = (Counter(words[0]) & Counter(words[1])).total()
        assert scored["rouge_1"] == pytest.approx(200 * shared / sum(map(len, words)))


def test_the_signature_names_the_version():
    assert signature().startswith("F1|case:lc|stem:no|tok:unicode|rouge-score:0.")
    assert signature("rouge-1.5.5").startswith("F1|case:lc|stem:no|tok:rouge-1.5.5|rouge-score:0.")
