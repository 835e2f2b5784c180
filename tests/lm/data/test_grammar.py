"""The built-in corpus, and its floor against an enumeration of every derivation."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from ablate.errors import CorpusError
from ablate.lm.data.grammar import generate as corpus
from ablate.lm.data.grammar.built_in import BUILT_IN
from ablate.lm.data.grammar.floor import Filter, log_probabilities
from ablate.lm.data.grammar.generate import generate
from ablate.lm.data.grammar.rules import EOS, Grammar, Rule

TINY = {
    "start": "S",
    "rules": {
        "S": (Rule(3, ("noun", "MORE", "verb")), Rule(1, ("MORE", "noun"))),
        "MORE": (Rule(2, ()), Rule(1, ("that", "noun"))),
    },
    "lexicon": {
        "noun": ({"x": 3, "y": 1}, {"x": 1, "y": 4}),
        "verb": ({"x": 1, "z": 2}, {"z": 5}),
        "that": ({"y": 1}, {"y": 1, "that": 2}),
    },
    "topics": (2, 1),
    "stay": 3,
    "leave": 1,
    "sizes": {"train": 60, "valid": 30, "test": 30},
}


@pytest.fixture(scope="module")
def tiny():
    return Grammar(**TINY)


@pytest.fixture(scope="module")
def splits():
    return generate()


def tokens_of(lines):
    return [token for line in lines for token in [*line.split(), EOS]]


def next_words(belief):
    """The probability of every possible next token."""
    sums = {word: sum(w.sum() for w in belief._after(word).values()) for word in belief._emissions}
    return {word: probability for word, probability in sums.items() if probability > 0}


# Every line the tiny grammar can say, by exact fractions and without its filter.


def derivations(grammar, symbol, topic):
    """word tuple -> probability, of all derivations of one symbol."""
    if symbol in grammar.lexicon:
        table = grammar.lexicon[symbol][topic]
        return {(word,): Fraction(weight, sum(table.values())) for word, weight in table.items()}
    total = sum(rule.weight for rule in grammar.rules[symbol])
    total_by_words = {}
    for rule in grammar.rules[symbol]:
        joint = {(): Fraction(rule.weight, total)}
        for part in rule.symbols:
            tails = derivations(grammar, part, topic)
            pairs = [(a + b, p * q) for a, p in joint.items() for b, q in tails.items()]
            joint = {}
            for words, probability in pairs:
                joint[words] = joint.get(words, 0) + probability
        for words, probability in joint.items():
            total_by_words[words] = total_by_words.get(words, 0) + probability
    return total_by_words


def texts(grammar, num_lines):
    """token tuple -> probability, of all texts of `num_lines` lines, over all paths of topics."""
    stationary = [Fraction(weight, sum(grammar.topics)) for weight in grammar.topics]
    keep = Fraction(grammar.stay, grammar.stay + grammar.leave)
    lines = [derivations(grammar, grammar.start, topic) for topic in range(len(stationary))]
    paths = {((), topic): share for topic, share in enumerate(stationary)}
    for _ in range(num_lines):
        longer = {}
        for (text, topic), p in paths.items():
            for words, q in lines[topic].items():
                for following, share in enumerate(stationary):
                    move = keep * (topic == following) + (1 - keep) * share
                    key = ((*text, *words, EOS), following)
                    longer[key] = longer.get(key, 0) + p * q * move
        paths = longer
    by_text = {}
    for (text, _), probability in paths.items():
        by_text[text] = by_text.get(text, 0) + probability
    return by_text


@pytest.fixture(scope="module")
def prefixes(tiny):
    """Every beginning of every text of three lines, and its probability."""
    by_prefix = {}
    for text, probability in texts(tiny, 3).items():
        for end in range(len(text) + 1):
            by_prefix[text[:end]] = by_prefix.get(text[:end], 0) + probability
    return by_prefix


def test_floor_agrees_with_every_derivation(tiny, prefixes):
    whole = [text for text in prefixes if text.count(EOS) == 3 and text[-1] == EOS]
    for text in whole[:: len(whole) // 300]:
        lines = " ".join(text).removesuffix(EOS).split(EOS)
        expected = [
            math.log(prefixes[text[: end + 1]] / prefixes[text[:end]])
            for end in range(1, len(text))
        ]
        np.testing.assert_allclose(log_probabilities(tiny, lines), expected, atol=1e-12)


def test_sampling_agrees_with_the_enumeration():
    grammar = Grammar(**TINY | {"sizes": {"train": 40_000}})
    lines = generate(grammar, seed=5)["train"]
    stationary = [Fraction(2, 3), Fraction(1, 3)]
    by_topic = [derivations(grammar, "S", topic) for topic in range(2)]
    for words in {**by_topic[0], **by_topic[1]}:
        expected = float(
            sum(s * t.get(words, 0) for s, t in zip(stationary, by_topic, strict=True))
        )
        observed = lines.count(" ".join(words)) / len(lines)
        assert observed == pytest.approx(expected, abs=0.015)


def test_refuses_text_that_the_grammar_cannot_say(tiny):
    with pytest.raises(CorpusError, match="cannot say 'z'"):
        log_probabilities(tiny, ["x z", "z x"])


# The built-in corpus.


def test_digest_is_checked(monkeypatch):
    monkeypatch.setattr(corpus, "DIGEST", "0" * 64)
    with pytest.raises(CorpusError, match="not the pinned"):
        generate()


def test_sizes_and_vocabulary(splits):
    tokens = {split: tokens_of(lines) for split, lines in splits.items()}
    assert list(tokens) == ["train", "valid", "test"]
    assert 60_000 <= len(tokens["train"]) <= 100_000
    assert all(8_000 <= len(tokens[split]) <= 8_100 for split in ("valid", "test"))
    types = set(tokens["train"])
    assert types == {*BUILT_IN.words(), EOS}
    assert 800 <= len(types) <= 1_200
    assert set(tokens["valid"]) | set(tokens["test"]) <= types


def test_the_auxiliary_and_the_last_word_agree_with_the_subject_over_all_between():
    """A subject of class `a`, a clause about a noun of class `i`, and back to class `a`."""
    say = {name: next(iter(tables[0])) for name, tables in BUILT_IN.lexicon.items()}
    clause = ["that", "the", say["noun.i"], "hi", say["verb.0"]]
    predicate = ["ha", say["verb.1"], "the", say["object.u.1"], "of", "the", say["noun.o"]]
    belief = Filter(BUILT_IN)
    for word in ["the", say["noun.a"], *clause]:
        belief.see(word)
    assert {word for word in next_words(belief) if not word.endswith("ly")} == {"ha"}
    for word in predicate:
        belief.see(word)
    assert set(next_words(belief)) == {
        *BUILT_IN.lexicon["preposition"][0],
        *BUILT_IN.lexicon["close.a"][0],
    }
