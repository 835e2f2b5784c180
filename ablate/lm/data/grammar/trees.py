"""The built-in corpus of trees: sentences of the built-in words, each with its derivation.

Phrases can be attached in several places, and only words tell where: most prepositions of one half
belong to the noun before them, most of the other half to the verb, and a relative clause agrees
with its noun (`that ha` after a noun in -a). The trees' labels show none of this, so a grammar
that is estimated on them cannot know it, and a language model can learn it.
"""

from __future__ import annotations

from ablate.lm.data.grammar import lexicon
from ablate.lm.data.grammar.built_in import BUILT_IN, VALUES, expand
from ablate.lm.data.grammar.generate import check_digest
from ablate.lm.data.grammar.lexicon import CLASSES, NUM_TOPICS, PREPOSITIONS
from ablate.lm.data.grammar.rules import Derived, Grammar, Sampler

SEED = 1
DIGEST = "57610dd3c8123aa83038d6989f8bad8709b86ab3b2e3911bde4647902a85ee62"
SENTENCES = {"train": 4_000, "valid": 200, "test": 300}

# As in `built_in.py`; {d} is the class of a second noun.
RULES = """
S             4  NP.{c} VP.{c}
S             1  adverb NP.{c} VP.{c}
NP.{c}        6  determiner noun.{c}
NP.{c}        3  determiner adjective.{m} noun.{c}.{m}
NP.{c}        4  BARE.{c} PP.of_noun
NP.{c}        2  BARE.{c} SBAR.{c}
BARE.{c}      3  determiner noun.{c}
BARE.{c}      1  determiner adjective.{m} noun.{c}.{m}
SBAR.{c}      1  that VP.{c}
VP.{c}        4  auxiliary.{c} PREDICATE
VP.{c}        3  auxiliary.{c} MODIFIED
PREDICATE     1  verb.{k} OBJECT.{k}
MODIFIED      1  verb.{k} OBJECT.{k} PP.of_verb
OBJECT.{k}    3  determiner object.{d}.{k}
OBJECT.{k}    3  THING.{d}.{k} PP.of_noun
OBJECT.{k}    1  THING.{d}.{k} SBAR.{d}
THING.{d}.{k} 1  determiner object.{d}.{k}
PP.of_noun    3  preposition.of_noun name
PP.of_noun    1  preposition.of_noun NP.{c}
PP.of_verb    3  preposition.of_verb name
PP.of_verb    1  preposition.of_verb NP.{c}
"""

LABELS = {"BARE": "NP", "OBJECT": "NP", "THING": "NP", "PREDICATE": "VP", "MODIFIED": "VP"}
USUAL, UNUSUAL = 12, 1  # weights of prepositions where they belong, and elsewhere


def _prepositions() -> dict[str, lexicon.Tables]:
    """The two halves of the prepositions: usual after a noun, or after a verb."""
    half = len(PREPOSITIONS) // 2
    noun = {word: USUAL if i < half else UNUSUAL for i, word in enumerate(PREPOSITIONS)}
    verb = {word: USUAL + UNUSUAL - weight for word, weight in noun.items()}
    return {
        "preposition.of_noun": (noun,) * NUM_TOPICS,
        "preposition.of_verb": (verb,) * NUM_TOPICS,
    }


TREES = Grammar(
    start="S",
    rules=expand(RULES, {**VALUES, "d": CLASSES}),
    lexicon={**BUILT_IN.lexicon, **_prepositions()},
    topics=BUILT_IN.topics,
    stay=BUILT_IN.stay,
    leave=BUILT_IN.leave,
    sizes=SENTENCES,
)


def generate() -> dict[str, list[str]]:
    """Every split's trees in bracket format, checked against their pinned digest."""
    splits = {split: _draw(index, split) for index, split in enumerate(SENTENCES)}
    check_digest(splits, DIGEST, " of trees")
    return splits


def _draw(index: int, split: str) -> list[str]:
    sampler = Sampler(TREES, len(SENTENCES) * SEED + index)
    return [_bracketed(sampler.derivation()) for _ in range(SENTENCES[split])]


def _bracketed(derived: Derived) -> str:
    """Write a derivation as the treebank does, with labels that show less than the symbols."""
    symbol, inside = derived
    label = symbol.partition(".")[0]
    shown = inside if isinstance(inside, str) else " ".join(map(_bracketed, inside))
    return f"({LABELS.get(label, label)} {shown})"
