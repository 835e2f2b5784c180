"""Reads a file of results as rows: CSV, TSV, JSON lines, a JSON list, or Parquet."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ablate.errors import ConfigError

Records = Sequence[Mapping[str, Any]]


def read(name: str) -> Records:
    """The rows of a file, by the columns' names; its suffix says how it is written."""
    file = Path(name)
    reader = READERS.get(file.suffix.lower())
    if reader is None:
        raise ConfigError(
            f"{file} cannot be read as results: its name should end in {', '.join(READERS)}."
        )
    try:
        rows = reader(file)
    except OSError as error:
        raise ConfigError(f"{file} cannot be read: {error.strerror or error}.") from error
    except ValueError as error:  # also JSON's, Arrow's and that of bytes that are not UTF-8
        raise ConfigError(f"{file} is damaged, or is not {file.suffix[1:]}: {error}") from error
    if not rows:
        raise ConfigError(f"{file} has no rows.")
    return rows


def _separated(separator: str) -> Callable[[Path], Records]:
    def rows(file: Path) -> Records:
        # As spreadsheets write it: some put a mark of the byte order first.
        with file.open(newline="", encoding="utf-8-sig") as lines:
            try:
                return list(csv.DictReader(lines, delimiter=separator, strict=True))
            except csv.Error as error:
                raise ValueError(str(error)) from error

    return rows


def _json_lines(file: Path) -> Records:
    rows = []
    for number, line in enumerate(file.read_text("utf-8").splitlines(), 1):
        if line.strip():
            rows.append(_mapping(json.loads(line), f"line {number}"))
    return rows


def _json(file: Path) -> Records:
    rows = json.loads(file.read_text("utf-8"))
    if not isinstance(rows, list):
        raise ValueError("expected a list of objects")
    return [_mapping(row, f"row {number}") for number, row in enumerate(rows, 1)]


def _mapping(row: Any, place: str) -> Mapping[str, Any]:
    if not isinstance(row, dict):
        raise ValueError(f"{place} is not an object")
    return row


def _parquet(file: Path) -> Records:
    from pyarrow import parquet

    return parquet.read_table(file).to_pylist()


READERS: Mapping[str, Callable[[Path], Records]] = {
    ".csv": _separated(","),
    ".tsv": _separated("\t"),
    ".jsonl": _json_lines,
    ".ndjson": _json_lines,
    ".json": _json,
    ".parquet": _parquet,
}
