"""Files of candidates: read as they were written, and refused with the line."""

import pytest

from ablate.errors import CorpusError
from ablate.lm.parsing.n_best import Candidate, read_candidates, written
from ablate.lm.parsing.trees import Tree

GOOD = """2 0
-1.5
(S1 (S (NP (NNS dogs)) (VP (VBP bark))))
-2
(S1 (S (NNS dogs) (VBP bark)))

1 0-7
-3e1
( (S (NP-SBJ (-NONE- *)) (VP (VB go))))
"""
WORDS = [["dogs", "bark"], ["go"]]


def read(text, words=WORDS):
    return read_candidates(text.splitlines(), words, "file")


def test_lists_are_read_clean_and_in_order():
    first, second = read(GOOD)
    assert [candidate.log_score for candidate in first] == [-1.5, -2.0]
    assert str(first[0].tree) == "(S (NP (NNS dogs)) (VP (VBP bark)))"
    assert second == [Candidate(-30.0, Tree("S", (Tree("VP", (Tree("VB", word="go"),)),)))]


def test_what_is_written_is_read():
    lists = read(GOOD)
    assert read("\n".join(written(lists))) == lists


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("2 0", "two"), "file, line 1: 'two' does not begin a list"),
        (("2 0", "0 0"), "file, line 1: '0 0' does not begin a list"),
        (("-2\n", "nan\n"), "file, line 5: before this tree stands 'nan', which is not a log"),
        (("-2\n", "\n"), "file, line 7: '1' outside of any tree"),
        (("(VBP bark)))\n\n", "(VBP bark))\n\n"), "file, line 5: the tree that starts here is not"),
        (("(VB go))))", "(VB go)))) (S (NN a))"), "file, line 9: there are 2 trees. Expected: one"),
        (
            ("(NNS dogs) (", "(NNS cats) ("),
            "line 5: .* not those of sentence 1 .* 'cats' where .* 'dogs'",
        ),
        (("(NNS dogs) (VBP bark)", "(NNS dogs)"), "it has 'nothing' where the sentence has 'bark'"),
        (
            ("(VB go)", "(-NONE- go)"),
            "line 9: .* not those of sentence 2 of the split: it has 'nothing'",
        ),
        (("(S (NNS dogs)", "(S (NNS dogs"), "file, line 5: the bracket"),
        (
            ("1 0-7", "2 0-7"),
            "file, line 7: the file ends before this list of candidates is complete",
        ),
        (("1 0-7", "1"), "file, line 7: '1' does not begin a list"),
    ],
)
def test_a_wrong_file_is_told_with_its_line(change, message):
    with pytest.raises(CorpusError, match=message):
        read(GOOD.replace(*change, 1))


def test_another_number_of_sentences_is_told():
    with pytest.raises(CorpusError, match=r"line 7: here begin .* only 1 sentences"):
        read(GOOD, WORDS[:1])
    with pytest.raises(CorpusError, match=r"file ends after the candidates of 2 .* split has 3"):
        read(GOOD, [*WORDS, ["x"]])
