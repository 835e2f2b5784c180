"""Sums, and models that need no weights: a model of a larger skill knows more of them. Its training
seed decides how much, and which of the sums that are neither easy nor hard."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path


def draw(*of: object) -> float:
    """A number from 0 to 1 that depends on nothing else."""
    return int.from_bytes(hashlib.sha256(repr(of).encode()).digest()[:8], "big") / 2**64


def sums(num: int) -> list[tuple[int, int]]:
    """So many sums, the same ones each time."""
    return [(round(2 + 90 * draw("a", at)), round(2 + 90 * draw("b", at))) for at in range(num)]


def knows(skill: float, seed: int, sum_of: tuple[int, int]) -> bool:
    """Whether a model knows a sum."""
    own = skill + 0.04 * (draw("training", skill, seed) - 0.5)
    return 0.8 * draw("hard", sum_of) + 0.2 * draw("luck", sum_of, skill, seed) < own


def write(file: Path, num: int) -> None:
    """The sums as lines of JSON, each with a wrong and the right result."""
    lines = []
    for at, (a, b) in enumerate(sums(num)):
        choices = [str(a + b + 10), str(a + b)]
        template = ("What is {} + {}?", "Add {} and {}.")[at % 2]
        question = template.format(a, b)
        line = {"question": question, "choices": choices, "label": 1, "template": at % 2}
        lines.append(json.dumps(line))
    file.write_text("\n".join(lines) + "\n")
