"""Text that is safe to print: on one line, without control characters, wrapped to a width."""

from __future__ import annotations

import textwrap
import unicodedata
from typing import Any

NARROWEST = 10  # columns that are left to a text, however narrow the terminal
FILL = "\0"  # after a character of two columns, so that lengths are widths
ASCII = {"±": "+-", "−": "-", "Δ": "delta", "·": "-", "×": "x", "÷": "/", "–": "-", "…": "..."}


def printable(text: str, unicode: bool = True) -> str:
    """The text on one line and without control characters; in ASCII if `unicode` is false."""
    clean = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    if unicode:
        return clean
    return "".join(c if c.isascii() else _in_ascii(c) for c in clean)


def _in_ascii(char: str) -> str:
    """± as +-, β as beta, é as e; a question mark for anything else."""
    if char in ASCII:
        return ASCII[char]
    name = unicodedata.name(char, "")
    if name.startswith("GREEK") and "LETTER " in name:
        return name.split("LETTER ")[1].split()[0].lower()
    return unicodedata.normalize("NFKD", char).encode("ascii", "ignore").decode() or "?"


def display_width(text: str) -> int:
    """The number of terminal columns that a text takes."""
    return sum(
        0 if unicodedata.combining(char) else 2 if unicodedata.east_asian_width(char) in "WF" else 1
        for char in text
    )


def paragraph(text: str, width: int, indent: str = "") -> list[str]:
    """A text wrapped to a width; lines after the first are indented. No line for an empty text.

    A word that is longer than the width has a line of its own: it can still be copied.
    Only texts of wide characters are broken within words.
    """
    width = max(width, NARROWEST)
    filled = "".join(char + FILL * (display_width(char) - 1) for char in text)
    # Scripts of wide characters have no spaces. A line may end between a char and its FILL.
    breaks = filled != text and any(display_width(word) > width for word in text.split())
    how: Any = {"break_on_hyphens": False, "break_long_words": breaks, "subsequent_indent": indent}
    lines = textwrap.wrap(filled, width - breaks, **how)
    shown = (line.replace(FILL, "") for line in lines)
    return [line for line in shown if line.strip()]
