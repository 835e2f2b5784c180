"""The text of a search-space file: where each row and key stands, and what is no TOML."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

from ablate.errors import SpaceError


class Lines:
    """Where each row and each of its keys stands in the text."""

    def __init__(self, path: Path, text: str) -> None:
        self.path = path
        self.text = text
        self.rows: list[tuple[int, str]] = []
        self.keys: dict[tuple[str | None, str], int] = {}
        row = None
        for number, line in enumerate(text.split("\n"), start=1):
            header = re.match(r"\s*\[\s*(\"[^\"]*\"|'[^']*'|[\w-]+)\s*[\].]", line)
            key = re.match(r"\s*(\"[^\"]*\"|'[^']*'|[\w-]+)\s*[=.]", line)
            if header:
                row = header[1].strip("\"'")
                self.rows.append((number, row))
            elif key:
                self.keys.setdefault((row, key[1].strip("\"'")), number)

    def number(self, row: str, key: str | None = None) -> int:
        header = next((number for number, name in self.rows if name == row), 1)
        return self.keys.get((row, key), header) if key else header

    def place(self, row: str, key: str | None = None) -> str:
        return f"{self.path}:{self.number(row, key)}: row '{row}'"

    def at(self, key: str) -> str:
        return f"{self.path}:{self.keys.get((None, key), 1)}"

    def of_number(self, number: int) -> str:
        before = [name for start, name in self.rows if start <= number]
        return f"{self.path}:{number}" + (f": row '{before[-1]}'" if before else "")

    def of_text(self, found: str, key: str) -> str:
        """The line of a text in a top-level list."""
        start = self.keys.get((None, key), 1)
        lines = enumerate(self.text.split("\n"), start=1)
        number = next((n for n, line in lines if n >= start and found in line), start)
        return f"{self.path}:{number}"


def text_of(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise SpaceError(f"{path}:1: not a text file in UTF-8 ({error.reason}).") from None
    except OSError as error:
        raise SpaceError(f"{path}:1: cannot be read: {error.strerror}.") from None


def parsed(text: str, lines: Lines) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        match = re.search(r" \(at (?:line (\d+), column (\d+)|end of document)\)$", str(error))
        number = int(match[1]) if match and match[1] else max(1, len(text.splitlines()))
        problem = str(error)[: match.start()] if match else str(error)
        column = f" (column {match[2]})" if match and match[2] else ""
        place = lines.of_number(number)
        raise SpaceError(f"{place}: this is no TOML: {problem}{column}.") from None
