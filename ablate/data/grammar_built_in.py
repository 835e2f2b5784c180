"""The grammar of the built-in corpus: an invented language with English function words.

A noun's last vowel is its class (a, o, i or u). The subject's class returns in the last vowel of
its verb and in the word that closes the line, over relative clauses and phrases of any length.
The topic prefers some nouns, verbs and adjectives; a verb's kind and the topic together prefer
some objects, so there are many contexts whose next words have little in common.
"""

from __future__ import annotations

from ablate.data.grammar_lexicon import CLASSES, KINDS, MANNERS, NUM_TOPICS, build
from ablate.data.grammar_rules import Grammar, Rule

# Lower case is a category of words, upper case a symbol with rules. {c} is a class, {k} a verb's
# kind, {m} an adjective's manner: a line stands for one rule for each value. Where the letter is on
# the right only, these rules share the line's weight.
RULES = """
S             9  SUBJECT.{c} VP.{c} close.{c}
S             3  adverb SUBJECT.{c} VP.{c} close.{c}
SUBJECT.{c}   2  NP.{c}
SUBJECT.{c}   2  NP.{c} preposition OTHER
SUBJECT.{c}   1  NP.{c} that VP.{c}
SUBJECT.{c}   1  NP.{c} that CLAUSE
OTHER         3  NP.{c}
OTHER         1  NP.{c} preposition OTHER
CLAUSE        1  NP.{c} VERB.{c}
VERB.{c}      1  verb.{k}.{c}
NP.{c}        1  determiner noun.{c}
NP.{c}        2  determiner MODIFIED.{c}
MODIFIED.{c}  1  adjective.{m} noun.{c}.{m}
VP.{c}        5  PREDICATE.{c}
VP.{c}        2  adverb PREDICATE.{c}
VP.{c}        2  PREDICATE.{c} preposition OTHER
PREDICATE.{c} 1  verb.{k}.{c} determiner OBJECT.{k}
OBJECT.{k}    1  object.{c}.{k}
"""

VALUES = {"c": CLASSES, "k": KINDS, "m": MANNERS}
SHARED_WEIGHT = 32  # a multiple of every number of rules that one line can stand for


def _expand(text: str) -> dict[str, tuple[Rule, ...]]:
    """The rules, one for each value of the letters in braces."""
    rules: dict[str, list[Rule]] = {}
    for line in text.strip().splitlines():
        left, weight, *symbols = line.split()
        for bound in _fillings(left, {}):
            fillings = _fillings(" ".join(symbols), bound)
            share = int(weight) * SHARED_WEIGHT // len(fillings)
            ways = [Rule(share, tuple(s.format(**f) for s in symbols)) for f in fillings]
            rules.setdefault(left.format(**bound), []).extend(ways)
    return {symbol: tuple(ways) for symbol, ways in rules.items()}


def _fillings(text: str, bound: dict[str, str]) -> list[dict[str, str]]:
    """Every way to fill the letters of a text that are not bound yet."""
    fillings = [bound]
    for letter, values in VALUES.items():
        if f"{{{letter}}}" in text and letter not in bound:
            fillings = [{**filling, letter: value} for filling in fillings for value in values]
    return fillings


BUILT_IN = Grammar(
    start="S",
    rules=_expand(RULES),
    lexicon=build(),
    topics=(1,) * NUM_TOPICS,
    stay=9,
    leave=1,
    sizes={"train": 80_000, "valid": 8_000, "test": 8_000},
)
