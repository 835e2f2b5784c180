"""Writes a generation of the mirror: DuckDB merges new records into the Parquet files.

Rows pass through files of JSON lines, which DuckDB reads faster than inserted rows, converting
every column to its type.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TextIO

from ablate.record.mirror import kinds
from ablate.record.mirror.files import Folder, Manifest
from ablate.record.mirror.records import (
    EPOCH_COLUMNS,
    EPOCH_METRICS,
    RESULTS,
    STUDY,
    TRIAL_COLUMNS,
    epoch_rows,
    study_row,
    trial_row,
)
from ablate.record.tracking import Record

SMALL = 100_000  # segments with fewer rows are merged ...
MANY = 8  # ... once there are this many
Kinds = Mapping[str, str]


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

    def add(self, batches: Iterable[list[Record]]) -> None:
        """Add the records that were read."""
        files = [self.folder.path_to(f"{name}.jsonl") for name in ("trials", "epochs", "studies")]
        trials, epochs, studies = files
        with trials.open("w") as trial, epochs.open("w") as epoch, studies.open("w") as study:
            for batch in batches:
                self._write_rows(batch, trial, epoch, study)
        self._list_changed()
        columns = {**TRIAL_COLUMNS, **self.manifest.numbers, **self.manifest.configs}
        self.manifest.trials = self._merge("trials", columns, trials, "started_ms, run_id")
        self.manifest.studies = self._merge("studies", STUDY, studies, "study_key")
        if epochs.stat().st_size:
            self._write_segment(f"SELECT * FROM {_json(epochs, self._epoch_columns)}")
        for file in files:
            file.unlink()

    def _write_rows(self, batch: list[Record], trial: TextIO, epoch: TextIO, study: TextIO) -> None:
        """Write a line for each row, and add its columns to the manifest."""
        manifest, number = self.manifest, self.manifest.generation
        trials = [record for record in batch if record.is_trial]
        self._learn_configs(trials)
        known = {*TRIAL_COLUMNS, *manifest.configs}
        for record in trials:
            config = {config_column(n): text for n, text in record.params.items() if text != "None"}
            _write([{**config, **trial_row(record, number)}], trial, known, manifest.numbers)
            _write(epoch_rows(record, number), epoch, EPOCH_COLUMNS, manifest.epoch_numbers)
        _write([study_row(record) for record in batch if record.is_study], study, STUDY, {})

    def _learn_configs(self, trials: list[Record]) -> None:
        """Add the config columns of these records, and their types, to the manifest."""
        columns: dict[str, set[str]] = {}
        spelled = _spellings(self.manifest.configs)
        for record in trials:
            for name, text in record.params.items():
                column = config_column(name)
                column = spelled.setdefault(column.lower(), column)
                columns.setdefault(column, set()).add(text)
        for name, texts in columns.items():
            kind = kinds.common_kind(self.manifest.configs.get(name), kinds.kind_of(texts))
            if kind is not None:
                self.manifest.configs[name] = kind

    @property
    def _epoch_columns(self) -> Kinds:
        return {**EPOCH_COLUMNS, **self.manifest.epoch_numbers}

    def _list_changed(self) -> None:
        rows = ", ".join(f"({literal(run_id)})" for run_id in ("", *self.changed))
        self.db.execute("CREATE OR REPLACE TEMP TABLE changed (run_id VARCHAR)")
        self.db.execute(f"INSERT INTO changed VALUES {rows}")

    def _merge(self, table: str, columns: Kinds, new: Path, order: str) -> str:
        """Write the new rows and the old ones that have not changed; return the file's name."""
        parts = [f"SELECT {self._casts(columns)} WHERE false"]
        if before := getattr(self.before, table):
            old = parquet(self.folder, before)
            unchanged = "run_id NOT IN (SELECT run_id FROM changed)"
            parts.append(f"SELECT {self._casts(columns, old)} FROM {old} WHERE {unchanged}")
        if new.stat().st_size:
            parts.append(f"SELECT * FROM {_json(new, columns)}")
        name = self._name(table, "parquet")
        self._copy(f"{' UNION ALL BY NAME '.join(parts)} ORDER BY {order}", name)
        return name

    def finish(self, seen: str) -> Manifest:
        """Write the manifest; `seen` is what the next update compares with."""
        name = self._name("seen", "json")
        self.folder.partial(name).write_text(seen)
        self.folder.seal(self.manifest, name)
        self.manifest.seen = name
        self._compact()
        self.folder.write(self.manifest, replaced=self.before.files)
        return self.manifest

    def _compact(self) -> None:
        """Merge small segments if there are many, without their old rows."""
        small = [name for name in self.manifest.epochs if self.manifest.rows[name] < SMALL]
        if len(small) < MANY:
            return
        segments = parquet(self.folder, *small)
        trials = parquet(self.folder, self.manifest.trials)
        self._write_segment(
            f"SELECT {self._casts(self._epoch_columns, segments)} FROM {segments} "
            f"WHERE (run_id, generation) IN (SELECT run_id, generation FROM {trials}) "
            "ORDER BY run_id, epoch"
        )
        self.manifest.epochs = [name for name in self.manifest.epochs if name not in small]

    def _write_segment(self, query: str) -> None:
        name = self._name("epochs", "parquet")
        self.manifest.rows[name] = self._copy(query, name)
        self.manifest.epochs.append(name)

    def _copy(self, query: str, name: str) -> int:
        partial = literal(str(self.folder.partial(name)))
        copy = f"COPY ({query}) TO {partial} (FORMAT parquet, COMPRESSION snappy)"
        (rows,) = self.db.execute(copy).fetchone()
        self.folder.seal(self.manifest, name)
        return rows

    def _casts(self, columns: Kinds, table: str = "") -> str:
        """SQL for typed columns of a table, NULL for those that it lacks."""
        described = self.db.execute(f"DESCRIBE FROM {table}").fetchall() if table else []
        existing = {row[0] for row in described}
        return ", ".join(
            f"CAST({quoted(name) if name in existing else 'NULL'} AS {kind}) AS {quoted(name)}"
            for name, kind in columns.items()
        )

    def _name(self, what: str, kind: str) -> str:
        return f"{what}-{self.manifest.generation}-{secrets.token_hex(4)}.{kind}"


def _write(
    rows: Iterable[dict[str, Any]], file: TextIO, known: Iterable[str], numbers: dict[str, str]
) -> None:
    """Write rows as JSON lines; add columns that are not known to `numbers`.

    SQL ignores case: names that differ only in it are one column, as it was first written.
    """
    spelled = _spellings((*numbers, *known))
    for row in rows:
        row = {spelled.setdefault(name.lower(), name): value for name, value in row.items()}
        file.write(f"{kinds.line(row)}\n")
        numbers |= {name: kinds.NUMBER for name in row if name not in known}


def _spellings(columns: Iterable[str]) -> dict[str, str]:
    return {name.lower(): name for name in columns}


def _json(file: Path, columns: Kinds) -> str:
    types = ", ".join(f"{literal(column)}: {literal(kind)}" for column, kind in columns.items())
    path = literal(str(file))
    return f"read_json({path}, format = 'newline_delimited', columns = {{{types}}})"


def config_column(name: str) -> str:
    """The column of a config field: its own name, unless every trial has a column of that name, or
    it is empty."""
    reserved = not name or name in TRIAL_COLUMNS or name in RESULTS
    return f"config.{name}" if reserved else name
