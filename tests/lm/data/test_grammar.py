"""The built-in corpus, and its floor against an enumeration of every derivation."""

from __future__ import annotations

import math
from collections import Counter
from fractions import Fraction

import numpy as np
import pytest

from ablate.errors import CorpusError
from ablate.lm.data.grammar import generate as corpus
from ablate.lm.data.grammar.built_in import BUILT_IN
from ablate.lm.data.grammar.floor import Filter, log_probabilities
from ablate.lm.data.grammar.generate import generate
from ablate.lm.data.grammar.rules import EOS, Grammar, Rule
from ablate.lm.model.ngram import fit

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


@pytest.mark.slow
def test_enumeration_is_complete(prefixes):
    assert prefixes[()] == 1


def test_floor_agrees_with_every_derivation(tiny, prefixes):
    whole = [text for text in prefixes if text.count(EOS) == 3 and text[-1] == EOS]
    for text in whole[:: len(whole) // 300]:
        lines = " ".join(text).removesuffix(EOS).split(EOS)
        expected = [
            math.log(prefixes[text[: end + 1]] / prefixes[text[:end]])
            for end in range(1, len(text))
        ]
        np.testing.assert_allclose(log_probabilities(tiny, lines), expected, atol=1e-12)


def test_next_words_agree_and_sum_to_one(tiny, prefixes):
    short = [text for text in prefixes if text.count(EOS) == 1][::3]
    for text in short:
        belief = Filter(tiny)
        for token in text:
            belief.see(token)
        probabilities = next_words(belief)
        expected = {
            word: float(prefixes[(*text, word)] / prefixes[text])
            for word in ["x", "y", "z", "that", EOS]
            if (*text, word) in prefixes
        }
        assert probabilities == pytest.approx(expected, abs=1e-12)
        assert sum(probabilities.values()) == pytest.approx(1, abs=1e-12)


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


@pytest.mark.slow
def test_the_floor_is_the_entropy_rate_of_its_own_samples():
    """A longer sample of the tiny grammar costs what the enumeration says a line costs."""
    grammar = Grammar(**TINY | {"sizes": {"train": 30_000}})
    lines = generate(grammar, seed=2)["train"]
    entropy = {
        num: -sum(float(p) * math.log(p) for p in texts(grammar, num).values()) for num in (2, 3)
    }
    per_line = entropy[3] - entropy[2]  # of the third line given two
    observed = -sum(log_probabilities(grammar, lines)) / len(lines)
    assert observed == pytest.approx(per_line, rel=0.02)


def test_same_seed_same_text_and_other_seed_other_text(tiny):
    assert generate(tiny, seed=3) == generate(tiny, seed=3)
    assert generate(tiny, seed=3) != generate(tiny, seed=4)


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


def test_words_are_zipfian(splits):
    counts = sorted(Counter(tokens_of(splits["train"])).values(), reverse=True)
    ranks = np.arange(1, len(counts) + 1)
    slope = np.polyfit(np.log(ranks[5:]), np.log(counts[5:]), 1)[0]
    assert -1.4 < slope < -0.6


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


@pytest.mark.slow
def test_kneser_ney_stays_far_above_the_floor(splits):
    ids = {split: tokens_of(lines) for split, lines in splits.items()}
    numbers = {word: number for number, word in enumerate(dict.fromkeys(ids["train"]))}
    model = fit([numbers[word] for word in ids["train"]], len(numbers), numbers[EOS], order=5)
    for split in ("valid", "test"):
        nll = -model.log_probs([numbers[word] for word in ids[split]]).mean()
        floor = -np.mean(log_probabilities(BUILT_IN, splits[split]))
        assert math.exp(nll) >= 1.3 * math.exp(floor)


@pytest.mark.slow
def test_contexts_need_a_matrix_of_high_rank(splits):
    """Nouns after adjectives and as objects: over the 32 dimensions of a small model."""
    nouns = [word for c in "aoiu" for word in BUILT_IN.lexicon[f"noun.{c}"][0]]
    belief, rows, before = Filter(BUILT_IN), [], EOS
    for token in tokens_of(splits["valid"])[:2_000]:
        belief.see(token)
        if token.endswith("en") or (token in {"the", "a"} and before.endswith("er")):
            probabilities = next_words(belief)
            rows.append([math.log(probabilities.get(noun, 0.0) + 1e-6) for noun in nouns])
        before = token
    centred = np.array(rows) - np.mean(rows, axis=0)
    singular = np.linalg.svd(centred, compute_uv=False)
    assert np.count_nonzero(singular > 0.02 * singular[0]) > 48
    assert np.sum(singular[32:] ** 2) > 0.05 * np.sum(singular**2)
