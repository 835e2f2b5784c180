"""The parser: its k best against all derivations, counted by hand and by brute force."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ablate.lm.parsing.parser.grammar import TreeGrammar
from ablate.lm.parsing.parser.k_best import k_best
from ablate.lm.parsing.parser.symbols import ROOT, Binary, Symbol, binarised, restored
from ablate.lm.parsing.trees import Tree, read_trees


def trees(*texts):
    return [tree for _, tree in read_trees(texts, "here")]


FLAT = "(S (A a) (B b) (C c) (D d))"
CHAIN = "(S (VP (V go)))"


def test_a_long_phrase_is_split_and_remembers_one_label():
    (tree,) = trees(FLAT)
    top = binarised(tree)
    rest = top.parts[1]
    assert (top.symbol, rest.symbol) == (Symbol(("S",), ROOT), Symbol(("S",), ROOT, after="A"))
    assert rest.parts[1].symbol == Symbol(("S",), ROOT, after="B")
    assert rest.parts[1].parts[1] == Binary(Symbol(("D",), "S"), word="d")


def test_a_chain_is_one_symbol():
    (tree,) = trees(CHAIN)
    assert binarised(tree) == Binary(Symbol(("S", "VP", "V"), ROOT), word="go")


LABELS = st.sampled_from("XYZ")
LEAVES = st.builds(
    lambda tag, word: Tree(tag, word=word), st.sampled_from("NV"), st.sampled_from("ab")
)
SHAPES = st.recursive(
    LEAVES,
    lambda parts: st.builds(Tree, LABELS, st.lists(parts, min_size=1, max_size=4).map(tuple)),
    max_leaves=6,
)


@given(SHAPES)
def test_every_tree_comes_back(tree):
    assert restored(binarised(tree)) == tree


def all_derivations(grammar, words):
    """Every derivation's score, by trying everything: (score, tree), the best first."""
    number = {symbol: index for index, symbol in enumerate(grammar.symbols)}
    over_words = grammar.word_scores(words)
    rules = list(zip(grammar.parent, grammar.left, grammar.right, grammar.log_p, strict=True))

    def over(start, end):
        if end - start == 1:
            scores = over_words[start]
            yield from (
                (float(scores[i]), Binary(s, word=words[start]))
                for s, i in number.items()
                if scores[i] > -math.inf
            )
            return
        for middle in range(start + 1, end):
            for left_score, left in over(start, middle):
                for right_score, right in over(middle, end):
                    for parent, first, second, log_p in rules:
                        if (first, second) == (number[left.symbol], number[right.symbol]):
                            score = left_score + right_score + float(log_p)
                            yield score, Binary(grammar.symbols[parent], (left, right))

    whole = (
        (score + float(grammar.roots[number[top.symbol]]), restored(top))
        for score, top in over(0, len(words))
    )
    found = [(score, tree) for score, tree in whole if score > -math.inf]
    return sorted(found, key=lambda pair: -pair[0])


@settings(max_examples=25)
@given(
    st.lists(SHAPES, min_size=1, max_size=5),
    st.lists(st.sampled_from("abc"), min_size=1, max_size=4),
    st.integers(1, 8),
)
def test_the_k_best_are_the_k_best_of_all(known, words, k):
    grammar = TreeGrammar(known)
    expected, actual = all_derivations(grammar, words), k_best(grammar, words, k)
    assert len(actual) == min(k, len(expected))
    assert [score for score, _ in actual] == pytest.approx([s for s, _ in expected[:k]], abs=1e-9)
    assert len({str(tree) for _, tree in actual}) == len(actual), "each is another tree"
    scores = {str(tree): score for score, tree in expected}
    for score, tree in actual:
        assert tree.words == words
        assert score == pytest.approx(scores[str(tree)], abs=1e-9)


AMBIGUOUS = (
    "(S (N a) (VP (V b) (NP (N a) (PP (P in) (N a)))))",
    "(S (N a) (VP (V b) (N a) (PP (P in) (N a))))",
    "(S (N a) (VP (V b) (N a) (PP (P in) (N a))))",
)


def test_probabilities_are_relative_frequencies():
    """VP is V NP in one of three trees, and V with a rest in two."""
    grammar = TreeGrammar(trees(*AMBIGUOUS))
    best = k_best(grammar, ["a", "b", "a", "in", "a"], 5)
    assert [str(tree) for _, tree in best] == [AMBIGUOUS[1], AMBIGUOUS[0]]
    difference = best[0][0] - best[1][0]
    # the words' parts: N in VP (2 of 15 tags) and in NP (1) are chosen by their counts alone
    words = grammar.word_scores(["a"])[0]
    number = grammar.symbols.index
    in_vp, in_np = words[number(Symbol(("N",), "VP"))], words[number(Symbol(("N",), "NP"))]
    of_pp = 0.0  # each PP has one rule
    assert difference == pytest.approx(math.log(2) + in_vp - in_np + of_pp)


def test_an_unknown_word_is_what_rare_words_of_its_kind_are():
    known = trees("(S (N 12) (V walked))", "(S (N 13) (V jumped))", "(S (N 14) (V talked))")
    grammar = TreeGrammar(known)
    noun, verb = Symbol(("N",), "S"), Symbol(("V",), "S")
    scores = dict(zip(grammar.symbols, grammar.word_scores(["99"])[0], strict=True))
    assert scores[noun] > scores[verb]
    scores = dict(zip(grammar.symbols, grammar.word_scores(["baked"])[0], strict=True))
    assert scores[verb] > scores[noun]


def test_a_sentence_without_a_derivation_has_no_tree():
    assert k_best(TreeGrammar(trees(FLAT)), ["a", "b"], 3) == []
