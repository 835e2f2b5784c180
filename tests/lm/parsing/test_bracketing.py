"""Bracket F1: EVALB's published sample with its counts, COLLINS.prm, and NLTK's trees."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st
from nltk import Tree as NltkTree

from ablate.errors import CorpusError
from ablate.lm.parsing.bracketing import Brackets, count_brackets, total
from ablate.lm.parsing.trees import Tree, read_trees

GOLD = "(S (A (P this)) (B (Q is) (A (R a) (T test))))"
LONG = f"(S {' '.join([GOLD[3:-1]] * 11)})"
# The sample that EVALB is distributed with, without the sentences that it reports errors for: the
# tree, and how many brackets match, and are in the reference and in the tree. Its 8th tree is four
# tags without a phrase around them. In its 19th `This` stands for `this` by a rule of the sample.
SAMPLE = [
    (GOLD, GOLD, (4, 4, 4)),
    (GOLD, "(S (A (P this)) (B (Q is) (C (R a) (T test))))", (3, 4, 4)),
    (GOLD, "(S (A (P this)) (B (Q is) (A (R a) (U test))))", (4, 4, 4)),
    (GOLD, "(S (C (P this)) (B (Q is) (A (R a) (U test))))", (3, 4, 4)),
    (GOLD, "(S (A (P this)) (B (Q is) (R a) (A (T test))))", (3, 4, 4)),
    (GOLD, "(S (A (P this) (Q is)) (A (R a) (T test)))", (2, 4, 3)),
    (GOLD, "(S (P this) (Q is) (R a) (T test))", (1, 4, 1)),
    (GOLD, "((P this) (Q is) (R a) (T test))", (0, 4, 0)),
    (GOLD, "(S (A (P this)) (B (Q is) (A (A (R a) (T test)))))", (4, 4, 5)),
    (GOLD, "(S (A (P this)) (B (Q is) (A (A (A (A (A (R a) (T test))))))))", (4, 4, 8)),
    (GOLD, f"(TOP {GOLD})", (4, 4, 4)),
    (GOLD, GOLD.replace("(T ", "(TT "), (4, 4, 4)),
    (GOLD, GOLD, (4, 4, 4)),
    ("(S (A-SBJ-1 (P this)) (B-WHATEVER (Q is) (A (R a) (T test))))", GOLD, (4, 4, 4)),
    (LONG, LONG, (34, 34, 34)),
    (f"{GOLD[:-1]} (-NONE- *))", f"{GOLD[:-1]} (-NONE- *))", (4, 4, 4)),
    (f"{GOLD[:-1]} (: *))", f"{GOLD[:-1]} (: *))", (4, 4, 4)),
]


def tree(text):
    ((_, found),) = read_trees([text], "here")
    return found


@pytest.mark.parametrize(("reference", "given", "counts"), SAMPLE)
def test_a_sentence_of_evalbs_sample_has_its_published_counts(reference, given, counts):
    assert count_brackets(tree(reference), tree(given)) == Brackets(*counts)


def test_evalbs_sample_has_its_published_totals():
    whole = total(count_brackets(tree(reference), tree(given)) for reference, given, _ in SAMPLE)
    assert whole == Brackets(86, 98, 95)
    assert whole.f1 == pytest.approx(2 * 87.7551 * 90.5263 / (87.7551 + 90.5263), abs=1e-3)


def test_collins_parameters():
    """Roots, punctuation and traces do not count; ADVP and PRT are one; labels end at - and =."""
    reference = tree("(TOP (S (`` ``) (NP=2 (NN a)) (PRT (RP b)) (X (, ,) (-NONE- *)) (. .)))")
    given = tree("(S1 (S (`` ``) (NP (NN a) (, x)) (ADVP (RP b)) (. .)))")
    with pytest.raises(CorpusError):
        count_brackets(reference, given)
    given = tree("(S1 (S (`` ``) (NP-SBJ (NN a)) (ADVP (RP b) (, ,)) (NN *) (. .)))")
    assert count_brackets(reference, given) == Brackets(3, 3, 3)  # S, NP, ADVP


def test_the_references_tags_say_what_is_punctuation():
    reference = tree("(S (NP (NN a) (POS ')) (. .))")
    given = tree("(S (NP (NN a)) ('' ') (. .))")
    assert count_brackets(reference, given) == Brackets(1, 2, 2)


LABELS = st.sampled_from(["S", "NP-SBJ", "NP", "TOP", "ADVP", "PRT", "VP"])
TAGS = st.sampled_from(["NN", ",", ".", "-NONE-", "VB"])


@st.composite
def shapes(draw, words):
    """A tree over these tagged words."""
    if len(words) == 1 and draw(st.booleans()):
        return Tree(words[0][0], word=words[0][1])
    label = draw(LABELS)
    if len(words) == 1:
        return Tree(label, (Tree(words[0][0], word=words[0][1]),))
    at = draw(st.integers(1, len(words) - 1))
    return Tree(label, (draw(shapes(words[:at])), draw(shapes(words[at:]))))


@st.composite
def pairs(draw):
    tags = draw(st.lists(TAGS, min_size=1, max_size=7))
    words = [(tag, f"w{i}") for i, tag in enumerate(tags)]
    return draw(shapes(words)), draw(shapes(words))


def spans(text):
    """The brackets by NLTK's own trees: for each phrase, the numbers of its counted words."""
    whole = NltkTree.fromstring(text)
    found = Counter()
    numbers = {}
    for position in whole.treepositions("leaves"):
        tag = whole[position[:-1]].label()
        if tag not in (",", ".", "-NONE-"):
            numbers[position] = len(numbers)
    for position in whole.treepositions():
        node = whole[position]
        if isinstance(node, str) or isinstance(node[0], str):
            continue
        inside = [number for leaf, number in numbers.items() if leaf[: len(position)] == position]
        label = node.label().split("-")[0].replace("PRT", "ADVP")
        if inside and label != "TOP":
            found[label, min(inside), max(inside)] += 1
    return found


@given(pairs())
def test_the_counts_are_those_by_another_way_of_counting(pair):
    reference, given = (spans(str(Tree("TOP", (each,)))) for each in pair)
    expected = Brackets((reference & given).total(), reference.total(), given.total())
    assert count_brackets(*pair) == expected
