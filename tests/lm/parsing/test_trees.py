"""Reading trees: every way to write one, and the error for a broken one."""

import pytest

from ablate.errors import CorpusError
from ablate.lm.parsing.trees import Tree, cleaned, is_bracket, linearised, read_trees

TEXT = """
( (S
    (NP-SBJ-1 (NNS dogs) )
    (VP (VBP bark) (NP (-NONE- *-1)) (PRT|ADVP (RP up)))
    (. .) ))
(S1 (FRAG (-LRB- -LRB-) (NN x)))
"""


def read(text):
    return list(read_trees(text.splitlines(), "file"))


def test_trees_over_several_lines_know_where_they_begin():
    (first, tree), (second, other) = read(TEXT)
    assert (first, second) == (2, 6)
    assert tree.words == ["dogs", "bark", "*-1", "up", "."]
    assert other.words == ["-LRB-", "x"]
    assert [read(str(each))[0][1] for each in (tree, other)] == [tree, other]


def test_a_clean_tree_has_no_functions_traces_or_root():
    trees = [cleaned(tree) for _, tree in read(TEXT)]
    assert [str(tree) for tree in trees] == [
        "(S (NP (NNS dogs)) (VP (VBP bark) (PRT|ADVP (RP up))) (. .))",
        "(FRAG (-LRB- -LRB-) (NN x))",
    ]
    assert (
        " ".join(linearised(trees[0])) == "(S (NP dogs NP) (VP bark (PRT|ADVP up PRT|ADVP) VP) . S)"
    )
    assert [is_bracket(token) for token in ("(S", "S)", "-LRB-", "dogs")] == [
        True,
        True,
        False,
        False,
    ]


def test_a_root_with_several_parts_stays_and_one_without_words_goes():
    several, nothing = read("((NP (NN a)) (. .)) (S (NP (-NONE- *)))")
    assert str(cleaned(several[1])) == "(TOP (NP (NN a)) (. .))"
    assert cleaned(nothing[1]) is None
    assert cleaned(Tree("NN", word="a")) == Tree("NN", word="a")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("(S (NN a)\n(NN b)", "file, line 1: the tree that starts here is not closed: 1 more"),
        ("(S (NN a)))", r"file, line 1: a bracket is closed that was not opened outside"),
        ("(S (NN a))\n\nthe (S", "file, line 3: 'the' outside of any tree"),
        ("(S (NN a b))", r"file, line 1: the bracket \(NN ...\) has several words \('a b'\)"),
        ("(S\n(NN a) b)", r"file, line 2: the bracket \(S ...\) has brackets and the word 'b'"),
        ("(S ())", r"file, line 1: the bracket \( ...\) has nothing in it"),
        ("(S (NN))", r"file, line 1: the bracket \(NN ...\) has nothing in it"),
    ],
)
def test_a_broken_tree_is_told_with_its_line(text, message):
    with pytest.raises(CorpusError, match=message):
        read(text)
