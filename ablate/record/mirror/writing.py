"""Writes a generation of the mirror: DuckDB merges new records into the Parquet files.

Rows pass through a file of JSON lines, which DuckDB reads faster than inserted rows, converting
every column to its type.
"""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TextIO

from ablate.record.mirror import kinds
from ablate.record.mirror.files import Folder, Manifest
from ablate.record.mirror.records import (
    EPOCH_COLUMNS,
    EPOCH_METRICS,
    RESULTS,
    RUN_COLUMNS,
    STUDY,
    TAG_COLUMNS,
    epoch_rows,
    study_row,
    trial_row,
)
from ablate.record.recorded import Record

SMALL = 100_000  # segments with fewer rows are merged ...
MANY = 8  # ... once there are this many
SEGMENT = 200_000  # rows after which a segment is closed
UNCHANGED = "run_id NOT IN (SELECT run_id FROM changed)"
Kinds = dict[str, str]


def fixed_trials() -> Kinds:
    return {**{name: kind for name, (_, kind) in TAG_COLUMNS.items()}, **RUN_COLUMNS}


def fixed_epochs() -> Kinds:
    return dict(EPOCH_COLUMNS)


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def parquet(folder: Folder, *names: str) -> str:
    """SQL for these files of a mirror as one table."""
    paths = ", ".join(literal(str(folder.path_to(name))) for name in names)
    return f"read_parquet([{paths}], union_by_name = true)"


@dataclass
class Generation:
    """The generation after `before`; `finish` returns its manifest."""

    folder: Folder
    before: Manifest
    db: Any  # a DuckDB connection
    changed: set[str] = field(default_factory=set)  # runs whose rows in `before` are old

    def __post_init__(self) -> None:
        old = self.before
        self.manifest = Manifest(
            generation=old.generation + 1,
            epochs=[*old.epochs],
            rows={**old.rows},
            configs={**old.configs},
            numbers={**RESULTS, **old.numbers},
            epoch_numbers={**EPOCH_METRICS, **old.epoch_numbers},
            seals={**old.seals},
        )
        self._studies: list[dict[str, Any]] = []

    def add(self, batches: Iterable[list[Record]]) -> None:
        """Add the records that were read."""
        self._list_changed()
        name = self._name("rows", "jsonl")
        with self._lines(name) as file:
            for trials in self._trials(batches):
                file.writelines(f"{kinds.line(row)}\n" for row in trials)
        self._merge_trials(name)
        self._write_studies()
        self.folder.path_to(name).unlink()

    def _trials(self, batches: Iterable[list[Record]]) -> Iterator[list[dict[str, Any]]]:
        """Yield the rows of trials, and write those of epochs."""
        epochs = _Segments(self)
        for batch in batches:
            trials = [record for record in batch if record.is_trial]
            self._studies += [study_row(record) for record in batch if record.is_study]
            self._learn(trials)
            for record in trials:
                epochs.add(epoch_rows(record, self.manifest.generation))
            yield [{**self._config(r), **trial_row(r, self.manifest.generation)} for r in trials]
        epochs.close()

    def _learn(self, trials: list[Record]) -> None:
        """Add the columns of these records, and their types, to the manifest."""
        columns: dict[str, set[str]] = {}
        for record in trials:
            for name, text in record.params.items():
                columns.setdefault(config_column(name), set()).add(text)
        for name, texts in columns.items():
            kind = kinds.common_kind(self.manifest.configs.get(name), kinds.kind_of(texts))
            if kind is not None:
                self.manifest.configs[name] = kind
        for record in trials:
            for name in trial_row(record, 0).keys() - fixed_trials().keys():
                self.manifest.numbers.setdefault(name, kinds.NUMBER)

    def _config(self, record: Record) -> dict[str, Any]:
        return {config_column(n): text for n, text in record.params.items() if text != "None"}

    def _merge_trials(self, new: str) -> None:
        columns = {**fixed_trials(), **self.manifest.numbers, **self.manifest.configs}
        parts = []
        if self.before.trials:
            old = parquet(self.folder, self.before.trials)
            parts.append(f"SELECT {self._casts(columns, old)} FROM {old} WHERE {UNCHANGED}")
        if self.folder.path_to(new).stat().st_size:
            parts.append(f"SELECT * FROM {self._json(new, columns)}")
        self.manifest.trials = self._name("trials", "parquet")
        empty = self._casts(columns)
        query = " UNION ALL BY NAME ".join(parts) or f"SELECT {empty} WHERE false"
        self._copy(f"{query} ORDER BY started_ms, run_id", self.manifest.trials)

    def _write_studies(self) -> None:
        name, lines = self._name("studies", "parquet"), self._name("studies", "jsonl")
        with self._lines(lines) as file:
            file.writelines(f"{kinds.line(row)}\n" for row in self._studies)
        parts = []
        if self.before.studies:
            old = parquet(self.folder, self.before.studies)
            parts.append(f"SELECT * FROM {old} WHERE {UNCHANGED}")
        if self._studies:
            parts.append(f"SELECT * FROM {self._json(lines, STUDY)}")
        empty = f"SELECT {self._casts(STUDY)} WHERE false"
        self._copy(" UNION ALL BY NAME ".join(parts) or empty, name)
        self.manifest.studies = name
        self.folder.path_to(lines).unlink()

    def _list_changed(self) -> None:
        rows = ", ".join(f"({literal(run_id)})" for run_id in ("", *self.changed))
        self.db.execute("CREATE OR REPLACE TEMP TABLE changed (run_id VARCHAR)")
        self.db.execute(f"INSERT INTO changed VALUES {rows}")

    def finish(self, seen: str) -> Manifest:
        """Write the manifest; `seen` is what the next update compares with."""
        name = self._name("seen", "json")
        self.folder.partial(name).write_text(seen)
        self.folder.seal(self.manifest, name)
        self.manifest.seen = name
        self._compact()
        self.folder.write(self.manifest)
        return self.manifest

    def _compact(self) -> None:
        """Merge small segments if there are many, without their old rows."""
        small = [name for name in self.manifest.epochs if self.manifest.rows[name] < SMALL]
        if len(small) < MANY:
            return
        columns = {**fixed_epochs(), **self.manifest.epoch_numbers}
        segments = parquet(self.folder, *small)
        trials = parquet(self.folder, self.manifest.trials)
        self.write_segment(
            f"SELECT {self._casts(columns, segments)} FROM {segments} "
            f"WHERE (run_id, generation) IN (SELECT run_id, generation FROM {trials}) "
            "ORDER BY run_id, epoch"
        )
        self.manifest.epochs = [name for name in self.manifest.epochs if name not in small]

    def write_segment(self, query: str) -> None:
        name = self._name("epochs", "parquet")
        self.manifest.rows[name] = self._copy(query, name)
        self.manifest.epochs.append(name)

    def write_epochs(self, lines: str) -> None:
        columns = {**fixed_epochs(), **self.manifest.epoch_numbers}
        self.write_segment(f"SELECT * FROM {self._json(lines, columns)}")

    def learn_epochs(self, rows: list[dict[str, Any]]) -> None:
        for name in {name for row in rows for name in row} - fixed_epochs().keys():
            self.manifest.epoch_numbers.setdefault(name, kinds.NUMBER)

    def _copy(self, query: str, name: str) -> int:
        partial = literal(str(self.folder.partial(name)))
        copy = f"COPY ({query}) TO {partial} (FORMAT parquet, COMPRESSION snappy)"
        (rows,) = self.db.execute(copy).fetchone()
        self.folder.seal(self.manifest, name)
        return rows

    def _casts(self, columns: Mapping[str, str], table: str = "") -> str:
        """SQL for typed columns of a table, NULL for those that it lacks."""
        described = self.db.execute(f"DESCRIBE FROM {table}").fetchall() if table else []
        existing = {row[0] for row in described}
        return ", ".join(
            f"CAST({quoted(name) if name in existing else 'NULL'} AS {kind}) AS {quoted(name)}"
            for name, kind in columns.items()
        )

    def _json(self, name: str, columns: Mapping[str, str]) -> str:
        types = ", ".join(f"{literal(column)}: {literal(kind)}" for column, kind in columns.items())
        path = literal(str(self.folder.path_to(name)))
        return f"read_json({path}, format = 'newline_delimited', columns = {{{types}}})"

    def _name(self, what: str, kind: str) -> str:
        return f"{what}-{self.manifest.generation}-{secrets.token_hex(4)}.{kind}"

    @contextlib.contextmanager
    def _lines(self, name: str) -> Iterator[TextIO]:
        with self.folder.path_to(name).open("w", encoding="utf-8") as file:
            yield file

    def segment_file(self) -> tuple[str, TextIO]:
        name = self._name("epochs", "jsonl")
        return name, self.folder.path_to(name).open("w", encoding="utf-8")


class _Segments:
    """Writes rows of epochs, one segment after another."""

    def __init__(self, generation: Generation) -> None:
        self._generation = generation
        self._name, self._file, self._rows = "", None, 0

    def add(self, rows: list[dict[str, Any]]) -> None:
        if self._file is None:
            self._name, self._file = self._generation.segment_file()
        self._generation.learn_epochs(rows)
        self._file.writelines(f"{kinds.line(row)}\n" for row in rows)
        self._rows += len(rows)
        if self._rows >= SEGMENT:
            self.close()

    def close(self) -> None:
        if self._file is None:
            return
        self._file.close()
        if self._rows:
            self._generation.write_epochs(self._name)
        self._generation.folder.path_to(self._name).unlink()
        self._name, self._file, self._rows = "", None, 0


def config_column(name: str) -> str:
    """The column of a config field: its own name, unless every trial has a column of that name."""
    reserved = name in fixed_trials() or name in RESULTS
    return f"config.{name}" if reserved else name
