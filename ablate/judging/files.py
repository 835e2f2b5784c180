"""Reads results as rows: a file of CSV, TSV, JSON lines, a JSON list or Parquet, the files that a
pattern names, what an evaluation harness wrote (`harness.py`, `inspect_logs.py`) or a tracker of
runs (`trackers.py`), or a folder of their logs."""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ablate.errors import ConfigError
from ablate.judging import event_files, harness, inspect_logs, trackers
from ablate.judging.plain import loaded, refuse_doubled

Records = Sequence[Mapping[str, Any]]
PATTERN = re.compile(r"[*?\[]")
START = 200  # bytes of a log of Inspect, in which it says what it is


def read(name: str) -> Records:
    """The rows of a file, by the columns' names; its suffix says how it is written."""
    file = Path(name)
    if file.is_dir():
        return _folder(file)
    if not file.exists() and PATTERN.search(name):
        return _matching(name)
    return _file(file)


def _folder(folder: Path) -> Records:
    """The rows of every log of an evaluation, or else of a run, below a folder."""
    logs = [*harness.files(folder), *sorted(folder.rglob("*.eval")), *_json_logs(folder)]
    logs = logs or trackers.files(folder)
    if not logs:
        raise ConfigError(
            f"{folder} has no log of an evaluation ({harness.SAMPLES} of lm-evaluation-harness, "
            "with --log_samples; .eval and .json of Inspect) or of a run (Ray Tune, TensorBoard). "
            f"A pattern names other files: '{folder}/*/metrics.csv'."
        )
    return _of_several(logs, folder)


def _matching(pattern: str) -> Records:
    """The rows of the files whose names match a pattern."""
    parts = Path(pattern).parts
    fixed = next(at for at, part in enumerate(parts) if PATTERN.search(part))
    folder = Path(*parts[:fixed])
    files = sorted(folder.glob(str(Path(*parts[fixed:]))))
    if not files:
        raise ConfigError(f"No file matches {pattern}.")
    return _of_several(files, folder)


def _of_several(files: Sequence[Path], folder: Path) -> Records:
    """The rows of files, with the names of the folders that they are in."""
    rows: list[Mapping[str, Any]] = []
    for file in files:
        parts = file.relative_to(folder).parts[:-1]
        names = {f"folder.{at}": part for at, part in enumerate(parts, 1)}
        names |= trackers.of_hydra(file)
        rows += [{**names, **row} for row in _file(file)]
    return rows


def _json_logs(folder: Path) -> list[Path]:
    """The logs of Inspect that are JSON; a log names itself in its first bytes."""
    return [file for file in sorted(folder.rglob("*.json")) if b'"eval"' in _start(file)]


def _start(file: Path) -> bytes:
    with file.open("rb") as opened:
        return opened.read(START)


def _file(file: Path) -> Records:
    reader = NAMED.get(file.name) or READERS.get(file.suffix.lower())
    if file.name.startswith(event_files.NAMES):
        reader = event_files.rows
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
    ".db": trackers.of_trackio,
}
NAMED: Mapping[str, Callable[[Path], Records]] = {
    trackers.RAY_TUNE: lambda file: [*map(flat, trackers.of_ray_tune(file))],
}
