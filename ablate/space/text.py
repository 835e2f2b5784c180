"""The text of a search-space file: line numbers of rows and keys, and TOML syntax errors."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

from ablate.errors import SpaceError


class Lines:
    """The lines of rows and keys in the text, to locate errors."""

    def __init__(self, path: Path, text: str) -> None:
        self.path = path
        self.rows: list[tuple[int, str]] = []
        self.keys: dict[tuple[str | None, str], int] = {}
        row = None
        # `tomllib` gives no positions, so rows and keys are found by how their lines look.
        for number, line in enumerate(text.split("\n"), start=1):
            # `[row]` and `[row.key]`; a name may be quoted.
            header = re.match(r"\s*\[\s*(\"[^\"]*\"|'[^']*'|[\w-]+)\s*[\].]", line)
            key = re.match(r"\s*(\"[^\"]*\"|'[^']*'|[\w-]+)\s*[=.]", line)
            if header:
                row = header[1].strip("\"'")
                self.rows.append((number, row))
            elif key:
                self.keys.setdefault((row, key[1].strip("\"'")), number)

    def number(self, row: str, key: str | None = None) -> int:
        """Return the line of a row's key, or of the row if it has none."""
        header = next((number for number, name in self.rows if name == row), 1)
        return self.keys.get((row, key), header) if key else header

    def row(self, row: str, key: str | None = None) -> str:
        """Return file, line and row, to start a message with."""
        return f"{self.path}:{self.number(row, key)}: row '{row}'"

    def key(self, key: str) -> str:
        """Return file and line of a key above the rows."""
        return f"{self.path}:{self.keys.get((None, key), 1)}"

    def of_number(self, number: int) -> str:
        """Return file, line and the row around it, to start a message with."""
        before = [name for start, name in self.rows if start <= number]
        return f"{self.path}:{number}" + (f": row '{before[-1]}'" if before else "")


class Inline(Lines):
    """Locates rows that a study has in its own file, where no line is known of them."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, "")

    def row(self, row: str, key: str | None = None) -> str:
        return f"{self.path}: space: row '{row}'"

    def key(self, key: str) -> str:
        return f"{self.path}: space"


def read_text(path: Path) -> str:
    """Read a file, or raise an error that names it."""
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise SpaceError(f"{path}:1: not a text file in UTF-8 ({error.reason}).") from None
    except OSError as error:
        raise SpaceError(f"{path}:1: cannot be read: {error.strerror}.") from None


def parse_toml(text: str, lines: Lines) -> dict[str, Any]:
    """Parse the text, or raise an error with the line and the row."""
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        match = re.search(r" \(at (?:line (\d+), column (\d+)|end of document)\)$", str(error))
        # At the end of the document there is no number: it is the last line.
        number = int(match[1]) if match and match[1] else max(1, len(text.splitlines()))
        problem = str(error)[: match.start()] if match else str(error)
        column = f" (column {match[2]})" if match and match[2] else ""
        where = lines.of_number(number)
        raise SpaceError(f"{where}: this is not valid TOML: {problem}{column}.") from None
    except (ValueError, RecursionError) as error:
        raise SpaceError(f"{lines.path}:1: this is not valid TOML: {too_much(error)}.") from None


def too_much(error: ValueError | RecursionError) -> str:
    """Why Python refuses TOML whose syntax is right."""
    if isinstance(error, RecursionError):
        return "it is nested too deeply"
    return str(error).partition(":")[0]  # a whole number of more than 4,300 digits
