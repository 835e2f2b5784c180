"""Reads a file of results as rows: CSV, TSV, JSON lines, a JSON list, or Parquet."""

from __future__ import annotations

import csv
import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
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
    except (ValueError, RecursionError) as error:  # also JSON's, Arrow's and that of wrong bytes
        raise ConfigError(f"{file} is damaged, or is not {file.suffix[1:]}: {error}") from error
    if not rows:
        raise ConfigError(f"{file} has no rows.")
    return rows


def refuse_doubled(names: Iterable[str]) -> None:
    """Refuse two columns of one name: which of them counts is unknown."""
    doubled = [name for name, num in Counter(names).items() if num > 1]
    if doubled:
        listed = ", ".join(f"'{name}'" for name in doubled)
        raise ValueError(f"it has two columns of one name, {listed}. Instead: a name for each")


def flat(record: Mapping[str, Any]) -> Mapping[str, Any]:
    """A row whose nested values have names with dots: {"eval": {"loss": 1}} has `eval.loss`."""
    if not any(isinstance(value, Mapping) for value in record.values()):
        return record
    cells = list(_cells(record, ""))
    refuse_doubled(name for name, _ in cells)
    return dict(cells)


def _cells(record: Mapping[str, Any], before: str) -> Iterator[tuple[str, Any]]:
    for key, value in record.items():
        if isinstance(value, Mapping):
            yield from _cells(value, f"{before}{key}.")
        else:
            yield f"{before}{key}", value


def _separated(separator: str) -> Callable[[Path], Records]:
    def rows(file: Path) -> Records:
        # As spreadsheets write it: some put a mark of the byte order first.
        with file.open(newline="", encoding="utf-8-sig") as lines:
            reader = csv.reader(lines, delimiter=separator, strict=True)
            try:
                header = next(reader, [])
                refuse_doubled(filter(None, header))
                return [
                    dict(zip(header, _as_long(cells, header, reader.line_num), strict=True))
                    for cells in reader
                    if cells
                ]
            except csv.Error as error:
                raise ValueError(str(error)) from error

    return rows


def _as_long(cells: list[str], header: list[str], line: int) -> list[str]:
    """The cells of a line, if there are as many as in the header; empty ones may follow."""
    if len(cells) < len(header) or any(cells[len(header) :]):
        raise ValueError(
            f"line {line} has {len(cells)} cells, and the header {len(header)}. Cells are empty "
            "where a run has no number, and numbers are written with a point: 0.85"
        )
    return cells[: len(header)]


def _json_lines(file: Path) -> Records:
    rows = []
    for number, line in enumerate(file.read_text("utf-8").split("\n"), 1):
        if line.strip():
            rows.append(_row(_loaded(line), f"line {number}"))
    return rows


def _json(file: Path) -> Records:
    rows = _loaded(file.read_text("utf-8"))
    if not isinstance(rows, list):
        raise ValueError("expected a list of objects")
    return [_row(row, f"row {number}") for number, row in enumerate(rows, 1)]


def _loaded(text: str) -> Any:
    return json.loads(text, object_pairs_hook=_object)


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values = dict(pairs)
    if len(values) < len(pairs):
        refuse_doubled(name for name, _ in pairs)
    return values


def _row(row: Any, place: str) -> Mapping[str, Any]:
    if not isinstance(row, dict):
        raise ValueError(f"{place} is not an object")
    return flat(row)


def _parquet(file: Path) -> Records:
    from pyarrow import parquet

    with parquet.ParquetFile(file) as opened:
        refuse_doubled(opened.schema_arrow.names)
        return [*map(flat, opened.read().to_pylist())]


READERS: Mapping[str, Callable[[Path], Records]] = {
    ".csv": _separated(","),
    ".tsv": _separated("\t"),
    ".jsonl": _json_lines,
    ".ndjson": _json_lines,
    ".json": _json,
    ".parquet": _parquet,
}
