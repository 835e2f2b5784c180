"""Headlines: titles of AG's news, each to be written from the first sentence of its description.

Of the file's 7,600 rows, in its order, the first 80% are for training, the next 10% are `valid`
and the last 10% `test`. What is cleaned, on both sides:

- a backslash stands for a line break, and becomes a space;
- entities, of which the file has lost the `&` (` #39;`), become their letters, and tags are
  removed;
- of a title, brackets at its end: `(AP)`, `(Update1) (Reuters)`;
- of a description, what stands before its text, an agency or a place and the dash after it
  (`AP - `, `NEW YORK (Reuters) - `), once or twice: at most six words, each with a capital, in
  brackets or with a full stop inside.

A first sentence of fewer than eight words is taken with the next one. A sentence ends with `.`, `!`
or `?` before a capital, a digit or a quote; a full stop after a short word with a capital (`U.S.`,
`Mr.`, `Corp.`) ends none. Rows of which a side is then empty are left out.
"""

from __future__ import annotations

import csv
import html
import io
import re

VERSION = 1  # raising it changes the corpus, and all ids of trials that use it
SHARES = {"train": (0, 80), "valid": (80, 90), "test": (90, 100)}  # percent of the rows
FEWEST_WORDS = 8  # of a source
_ENTITY = re.compile(r" ?(#\d+|\b(?:quot|amp|lt|gt|nbsp|hellip));")
_TAG = re.compile(r"<[^<>]*>")
_BRACKETS = re.compile(r"(?:\s+\([^()]*\))+$")
_WORD_BEFORE = r"(?:[A-Z0-9(/][^\s]*|[^\s]+\.[^\s]+)"
_BEFORE = re.compile(rf"^(?:{_WORD_BEFORE}(?: {_WORD_BEFORE}){{0,5}} --? ){{1,2}}")
_END = re.compile(r"(\S*[.!?][\"')]*) (?=[\"'(]?[A-Z0-9])")
_SHORT = re.compile(r"^[\"'(]*(?:[A-Z][A-Za-z]{0,4}|(?:[A-Z]\.)+[A-Z]?)\.$")


def pairs(text: str, split: str) -> tuple[list[str], list[str]]:
    """Return the split's first sentences, and their titles."""
    rows = list(csv.reader(io.StringIO(text, newline="")))
    start, end = (len(rows) * share // 100 for share in SHARES[split])
    cleaned = [(_source(row[2]), _title(row[1])) for row in rows[start:end]]
    kept = [pair for pair in cleaned if all(pair)]
    return [source for source, _ in kept], [title for _, title in kept]


def _title(text: str) -> str:
    return _BRACKETS.sub("", _clean(text))


def _source(text: str) -> str:
    return _first_sentence(_BEFORE.sub("", _clean(text)))


def _clean(text: str) -> str:
    # Whole entities first: the pattern below mends those that have lost their `&`.
    text = html.unescape(text.replace("\\", " "))
    text = html.unescape(_ENTITY.sub(r"&\1;", text))
    return " ".join(_TAG.sub(" ", text).split())


def _first_sentence(text: str) -> str:
    for end in _END.finditer(text):  # the end of the text is no match: then all of it is taken
        sentence = text[: end.end(1)]
        if not _SHORT.match(end[1]) and len(sentence.split()) >= FEWEST_WORDS:
            return sentence
    return text
