from hypothesis import given
from hypothesis import strategies as st

from ablate.lm.data.tokenize import in_units, learn_units, sentence_of, tokens_of

SENTENCES = {
    "A man, 3.5 m tall.": "A man ￭, 3.5 m tall ￭.",
    "l'homme (vu)": "l ￭'￭ homme (￭ vu ￭)",
    "no ... wait...": "no . ￭. ￭. wait ￭. ￭. ￭.",
    "in ##.# of 1,000 , <unk> <eos>": "in ##.# of 1,000 , <unk> <￭ eos ￭>",
    "at 10:30: ready": "at 10:30 ￭: ready",
    "हिन्दी का पाठ।": "हिन्दी का पाठ ￭।",
    "a￭b <￭> ￭": "a ￭<￭>￭ b < ￭<￭> ￭> <￭>",
}


def test_punctuation_is_split_off_with_marks():
    assert {text: " ".join(tokens_of(text)) for text in SENTENCES} == SENTENCES


@given(st.text("ab.,'￭<># @1é\u00a0-", max_size=30))
def test_a_sentence_is_restored_from_its_tokens(text):
    assert sentence_of(tokens_of(text)) == " ".join(text.split())


@given(st.text("ab.,'￭<># @1é-", max_size=30), st.integers(1, 60))
def test_a_sentence_is_restored_from_its_units(text, merges):
    tokens = tokens_of(text)
    learned = learn_units({"abba": 3, "a￭": 2, "<￭>": 2, "@￭": 2}, merges)
    assert sentence_of(in_units(tokens, learned), units=True) == " ".join(text.split())


def test_units_are_the_merges_that_are_most_frequent(capfd):
    """Worked by hand: `lo` has 9 of the pairs, then `low</w>` and `er</w>`."""
    counts = {"low": 5, "lower": 4, "wider": 2}
    one = learn_units(counts, 1)
    assert in_units(["low", "lower", "wider"], one) == [
        *("lo@@", "w"),
        *("lo@@", "w@@", "e@@", "r"),
        *("w@@", "i@@", "d@@", "e@@", "r"),
    ]
    assert in_units(["lower", "<unk>"], learn_units(counts, 100)) == ["lower", "<unk>"]
    captured = capfd.readouterr()
    assert captured.out == captured.err == ""


def test_no_units_where_no_word_has_two_letters():
    assert learn_units({"a": 3, "b": 1}, 10) is None
    assert learn_units({"ab": 1}, 10) is None  # a pair must occur twice
