"""The grammar of the built-in corpus: an invented language with some English words.

A noun's last vowel is its class (a, o, i or u). The subject's class returns in the auxiliary (ha,
ho, hi, hu) and in the word that closes the line, over relative clauses and phrases of any length.
The hidden topic prefers some words of every kind. Which nouns follow an adjective, or are the
object of a verb, depends on its manner or kind (`lexicon.py`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ablate.lm.data.grammar.lexicon import CLASSES, KINDS, MANNERS, NUM_TOPICS, build
from ablate.lm.data.grammar.rules import Grammar, Rule

# Lower case is a category of words, upper case a symbol with rules. {c} is a class, {k} a verb's
# kind, {m} an adjective's manner: a line stands for one rule for each value. Where the letter is on
# the right only, these rules share the line's weight.
RULES = """
S             9  SUBJECT.{c} VP.{c} close.{c}
S             3  adverb SUBJECT.{c} VP.{c} close.{c}
SUBJECT.{c}   4  NP.{c}
SUBJECT.{c}   4  NP.{c} PLACE
SUBJECT.{c}   2  NP.{c} that VP.{c}
SUBJECT.{c}   2  NP.{c} that CLAUSE
CLAUSE        1  NP.{c} auxiliary.{c} VERB
VERB          1  verb.{k}
NP.{c}        1  determiner noun.{c}
NP.{c}        3  determiner MODIFIED.{c}
MODIFIED.{c}  1  adjective.{m} noun.{c}.{m}
OTHER         1  NP.{c}
PLACE         2  preposition OTHER
PLACE         1  preposition OTHER PLACE
PLACE         5  preposition name
VP.{c}        5  PREDICATE.{c}
VP.{c}        2  adverb PREDICATE.{c}
VP.{c}        2  PREDICATE.{c} PLACE
PREDICATE.{c} 1  auxiliary.{c} OBJECT
OBJECT        1  verb.{k} determiner THING.{k}
THING.{k}     1  object.{c}.{k}
"""

VALUES = {"c": CLASSES, "k": KINDS, "m": MANNERS}
SHARED_WEIGHT = 96  # a multiple of every number of rules that one line can stand for


def expand(text: str, values: Mapping[str, Sequence[str]] = VALUES) -> dict[str, tuple[Rule, ...]]:
    """The rules, one for each value of the letters in braces."""
    rules: dict[str, list[Rule]] = {}
    for line in text.strip().splitlines():
        left, weight, *symbols = line.split()
        for bound in _fillings(left, {}, values):
            fillings = _fillings(" ".join(symbols), bound, values)
            # Whole numbers, so that draws are the same on every machine.
            share = int(weight) * SHARED_WEIGHT // len(fillings)
            ways = [Rule(share, tuple(s.format(**f) for s in symbols)) for f in fillings]
            rules.setdefault(left.format(**bound), []).extend(ways)
    return {symbol: tuple(ways) for symbol, ways in rules.items()}


def _fillings(
    text: str, bound: dict[str, str], possible: Mapping[str, Sequence[str]]
) -> list[dict[str, str]]:
    """Every way to fill the letters of a text that are not bound yet."""
    fillings = [bound]
    for letter, values in possible.items():
        if f"{{{letter}}}" in text and letter not in bound:
            fillings = [{**filling, letter: value} for filling in fillings for value in values]
    return fillings


BUILT_IN = Grammar(
    start="S",
    rules=expand(RULES),
    lexicon=build(),
    topics=(1,) * NUM_TOPICS,
    stay=9,
    leave=1,
    sizes={"train": 80_000, "valid": 8_000, "test": 8_000},
)
