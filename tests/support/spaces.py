"""Search-space files for tests: the shipped ones, a small one, and valid files to be broken."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ablate.space.row import Choices, Range, Row
from ablate.space.space import Space
from tests.support import places

DOC, MOS, DUAL = "takase2018doc_table2", "yang2018mos", "oliva2021dual_table3_4"
SHIPPED = (DOC, MOS, DUAL)
SMALL = """\
paper = "somebody2020"
tables = ["Table 1"]
# Every kind of row.

["Rate"]
field = "optimizer.learning_rate"
range = [1e-3, 1.0]
scale = "log"

["Epochs"]
field = "training.epochs"
range = [1, 5]
integer = true

["Rank and file"]
field = "backbone.rank"
choices = [0, 50]
when = "Kind = mogrifier and Depth != 1"

["Kind"]
field = "backbone"
choices = ["lstm", "mogrifier"]

["Depth"]
choices = [1, 2, 3]

["Units"]
field = "backbone.units"
choices = [2, 4]
when = "Rank and file in [0]"

["Width"]
field = "embedding.size"
choices = [2, 4]

["Last"]
field = "backbone.last_units"
same_as = "Width"

["Batch"]
field = "training.batch_size"
value = { ptb = 20, "wikitext-2" = 80 }
"""


def text_of(name: str) -> str:
    return (places.ROOT / "search_spaces" / f"{name}.toml").read_text(encoding="utf-8")


def draw(chance: random.Random):
    """Suggest values as a sampler does."""

    def suggest(row: Row) -> Any:
        domain = row.domain
        if isinstance(domain, Choices):
            return chance.choice(domain.values)
        assert isinstance(domain, Range)
        low, high = domain.ends
        return chance.randint(low, high) if domain.integer else chance.uniform(low, high)

    return suggest


def every(space: Space, *which: Any, **more: Any) -> Iterator[dict[str, Any]]:
    """Every point of a space without continuous ranges: samples, along each way to choose."""
    ways: list[tuple[int, ...]] = [()]
    while ways:
        way, sizes = ways.pop(), list[int]()

        def suggest(row: Row, way=way, sizes=sizes) -> Any:
            assert isinstance(row.domain, Choices | Range)
            low, high = row.domain.ends[0], row.domain.ends[-1]
            chosen = isinstance(row.domain, Choices)
            options = row.domain.values if chosen else range(low, high + 1)
            sizes.append(len(options))
            return options[way[len(sizes) - 1] if len(sizes) <= len(way) else 0]

        yield space.sample(suggest, *which, **more)
        whole = (*way, *[0] * (len(sizes) - len(way)))
        for depth in range(len(way), len(sizes)):
            ways += [(*whole[:depth], other) for other in range(1, sizes[depth])]


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "s.toml"
    path.write_text(text, encoding="utf-8")
    return path


@dataclass
class Wrong:
    """A mutated file, the line and row that its error names, and the rest of the text."""

    kind: str
    lines: list[str]
    line: int
    row: str | None
    rest: str


class Written:
    """A valid file by line, to be mutated."""

    def __init__(self, text: str) -> None:
        self.lines = text.splitlines()
        self.headers = {
            line[2:-2]: n for n, line in enumerate(self.lines, 1) if line.startswith('["')
        }
        self.keys: dict[str, dict[str, int]] = {}
        row = None
        for number, line in enumerate(self.lines, start=1):
            row = line[2:-2] if line.startswith('["') else row
            if row is not None and " = " in line and line[0].isalpha():
                self.keys.setdefault(row, {})[line.split(" = ")[0]] = number

    def put(self, number: int, *lines: str) -> list[str]:
        """These lines instead of one."""
        return [*self.lines[: number - 1], *lines, *self.lines[number:]]

    def add(self, row: str, line: str) -> tuple[list[str], int]:
        """A line after the row's last."""
        last = max(self.keys[row].values())
        return self.put(last, self.lines[last - 1], line), last + 1

    def value(self, row: str) -> tuple[str, int]:
        result = [key for key in ("value", "choices", "range", "same_as") if key in self.keys[row]]
        return result[0], self.keys[row][result[0]]

    def of(self, key: str) -> Iterator[tuple[str, int]]:
        return ((row, keys[key]) for row, keys in self.keys.items() if key in keys)
