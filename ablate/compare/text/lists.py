"""Names and numbers in a sentence: `A, B and C`, `six`."""

from __future__ import annotations

from collections.abc import Sequence, Sized

NUMBERS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
MOST = 6  # names in a sentence


def joined(texts: Sequence[str]) -> str:
    """`A, B and C`; a text that has a comma itself is quoted."""
    *others, last = [f"'{text}'" if ", " in text else text for text in texts]
    return f"{', '.join(others)} and {last}" if others else last


def named(names: Sequence[str], most: int = MOST) -> str:
    """The names, or how many they are: `nine arms`."""
    return joined(names) if len(names) <= most else f"{in_words(len(names))} arms"


def in_words(num: int) -> str:
    """`six`, `14`."""
    return NUMBERS[num] if num < len(NUMBERS) else str(num)


def are(names: Sized) -> str:
    """The verb after so many names."""
    return "is" if len(names) == 1 else "are"


def capital(text: str) -> str:
    """A sentence begins with a capital letter; the name of an arm stays as it is."""
    first = text.split(" ", 1)[0]
    return text[:1].upper() + text[1:] if first in (*NUMBERS, "nothing", "the") else text
