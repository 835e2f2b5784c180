"""List docstrings whose first sentence may be a riddle: places to look at, each read aloud once.

    python -m tests.riddles [FEWEST]

A first sentence with several of *it, those, one, what* often wants nouns instead. `make lint` lists
those with three; nothing fails.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

from tests.support import places

PRONOUN = re.compile(r"\b(?:it|those|ones?|what(?:ever)?)\b", re.IGNORECASE)
FEWEST = 3
CODE = re.compile(r"`[^`]*`")
SENTENCE = re.compile(r"(?<=[.;:])\s")
Documented = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


def first_sentences(source: str) -> Iterator[tuple[int, str]]:
    """Yield the line of every definition, with the first sentence of its docstring."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, Documented):
            sentence = SENTENCE.split(ast.get_docstring(node) or "")[0]
            yield getattr(node, "lineno", 1), " ".join(sentence.split())


def riddles(source: str, fewest: int = FEWEST) -> list[tuple[int, str]]:
    """Return line and sentence where at least `fewest` such pronouns stand, code apart."""
    return [
        (line, sentence)
        for line, sentence in first_sentences(source)
        if len(PRONOUN.findall(CODE.sub("", sentence))) >= fewest
    ]


def listed(folder: Path, fewest: int) -> list[str]:
    """Return a line for every riddle in the files of a folder."""
    return [
        f"{file.relative_to(places.ROOT)}:{line}: {sentence}"
        for file in sorted(folder.rglob("*.py"))
        for line, sentence in riddles(file.read_text(encoding="utf-8"), fewest)
    ]


if __name__ == "__main__":
    found = listed(places.ROOT / "ablate", int(sys.argv[1]) if sys.argv[1:] else FEWEST)
    print(f"{len(found)} docstrings to read aloud", *found, sep="\n  ")
