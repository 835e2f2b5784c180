"""Reads results as rows: a file of CSV, TSV, JSON lines, a JSON list or Parquet, what an evaluation
harness wrote (`harness.py`, `inspect_logs.py`), or a folder of such logs."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ablate.errors import ConfigError
from ablate.judging import harness, inspect_logs
from ablate.judging.plain import loaded, refuse_doubled

Records = Sequence[Mapping[str, Any]]
START = 200  # bytes of a log of Inspect, in which it says what it is


def read(name: str) -> Records:
    """The rows of a file, by the columns' names; its suffix says how it is written."""
    file = Path(name)
    if file.is_dir():
        return _folder(file)
    return _file(file)


def _folder(folder: Path) -> Records:
    """The rows of every log of an evaluation below a folder, with the names of the folders."""
    logs = [*harness.files(folder), *sorted(folder.rglob("*.eval")), *_json_logs(folder)]
    if not logs:
        raise ConfigError(
            f"{folder} has no log of an evaluation: {harness.SAMPLES} of lm-evaluation-harness "
            "(--log_samples), or .eval and .json of Inspect."
        )
    rows: list[Mapping[str, Any]] = []
    for log in logs:
        parts = log.relative_to(folder).parts[:-1]
        names = {f"folder.{at}": part for at, part in enumerate(parts, 1)}
        rows += [{**names, **row} for row in _file(log)]
    return rows


def _json_logs(folder: Path) -> list[Path]:
    """The logs of Inspect that are JSON; a log names itself in its first bytes."""
    return [file for file in sorted(folder.rglob("*.json")) if b'"eval"' in _start(file)]


def _start(file: Path) -> bytes:
    with file.open("rb") as opened:
        return opened.read(START)


def _file(file: Path) -> Records:
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
            rows.append((loaded(line), f"line {number}"))
    lines = [row for row, _ in rows]
    if lines and file.match(harness.SAMPLES) and all(map(harness.is_line, lines)):
        return harness.rows(file, lines)
    return [_row(row, place) for row, place in rows]


def _json(file: Path) -> Records:
    rows = loaded(file.read_text("utf-8"))
    if inspect_logs.is_log(rows):
        return inspect_logs.rows(rows)
    if not isinstance(rows, list):
        raise ValueError("expected a list of objects")
    return [_row(row, f"row {number}") for number, row in enumerate(rows, 1)]


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
    ".eval": inspect_logs.rows_of_zip,
}
