"""The grammar of the built-in corpus: an invented language with English function words.

A noun's last vowel is its class (a, o, i or u). The subject's class returns in the last vowel of
its verb and in the word that closes the line, over relative clauses and phrases of any length.
The topic prefers some nouns, verbs and adjectives; a verb's kind and the topic together prefer
some objects, so there are many contexts whose next words have little in common.
"""

from __future__ import annotations

from ablate.data.grammar_lexicon import BUILT_IN_LEXICON, CLASSES, KINDS, NUM_TOPICS
from ablate.data.grammar_rules import Grammar, Rule

# Lower case is a category of words, upper case a symbol with rules. {c} and {d} are classes, {k}
# a verb's kind; each line stands for one rule for each value, which share its weight.
RULES = """
S         9  NP.{c} VP.{c} close.{c}
S         3  adverb NP.{c} VP.{c} close.{c}
NP.{c}    6  determiner noun.{c} MORE.{c}
NP.{c}    3  determiner adjective noun.{c} MORE.{c}
MORE.{c}  5
MORE.{c}  2  preposition determiner noun.{d}
MORE.{c}  2  that VP.{c}
MORE.{c}  1  that determiner noun.{d} verb.{k}.{d}
VP.{c}    5  verb.{k}.{c} OBJECT.{k}
VP.{c}    2  adverb verb.{k}.{c} OBJECT.{k}
OBJECT.{k} 6  determiner object.{k}
OBJECT.{k} 3  determiner adjective object.{k}
"""

VALUES = {"c": CLASSES, "d": CLASSES, "k": KINDS}
SHARED_WEIGHT = 128  # a multiple of every number of rules that one line can stand for


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
    lexicon=BUILT_IN_LEXICON,
    topics=(1,) * NUM_TOPICS,
    stay=9,
    leave=1,
    sizes={"train": 80_000, "valid": 8_000, "test": 8_000},
)
